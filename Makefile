# make lab     open the first tutorial in JupyterLab
# make test    run the tests, the doctests and the notebooks
# make lint    check style, types and layers
# make matrix  drive the live views on other kernels than the newest
# make bench   measure against torch and JAX
#
# Each target makes .venv and installs what it needs; nothing is reinstalled until pyproject.toml
# changes. PYTHON names the interpreter that .venv is made with.

VENV     := .venv
BIN      := $(VENV)/bin
PIP      := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NOTEBOOK ?= notebooks/01_first_training.ipynb

# Extra arguments, e.g. LAB_ARGS="--no-browser --port=9999", PYTEST_ARGS="-n 2", BENCH_ARGS=--json.
LAB_ARGS    ?=
# Two processes: most of a cold run is compiling kernels, which one core does at a time. What drives
# a browser has processes of its own, in which an event loop runs, and a server for each file.
PYTEST_ARGS ?= -n 2
BENCH_ARGS  ?=

# What a click and a message go through differs most between these; `make test` has the newest.
KERNELS     ?= 6.31.0 7.3.0

# Jupyter refuses to serve as root, which is the user in most containers, unless told twice.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.DELETE_ON_ERROR:
.PHONY: lab test lint matrix bench

lab: $(VENV)/.installed-lab
	$(BIN)/jupyter lab $(AS_ROOT) --LabApp.default_url=/lab/tree/$(NOTEBOOK) $(LAB_ARGS)

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m "not slow and not browser" $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS) --dist loadfile tests/browser
	$(BIN)/python -m pytest --nbval notebooks

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	PYTHONPATH=.:kernels:widgets $(BIN)/lint-imports

# Each beside the environment, before it in the path of the server and of the kernels.
matrix: $(VENV)/.installed-test
	@for version in $(KERNELS); do \
	    place=$(abspath $(VENV))/ipykernel-$$version; \
	    [ -d $$place ] || $(PIP) --no-deps --target $$place ipykernel==$$version nest-asyncio || exit 1; \
	    export PYTHONPATH=$$place; \
	    echo "ipykernel $$version"; \
	    $(BIN)/python -c "import ipykernel as k; assert k.__version__ == '$$version', k" || exit 1; \
	    $(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS) --dist loadfile \
	        tests/browser/test_panel.py tests/browser/test_records.py \
	        tests/browser/test_inspection.py tests/browser/test_usual_set.py || exit 1; \
	done

bench: $(VENV)/.installed-bench
	$(BIN)/python tests/benchmarks/compare.py $(BENCH_ARGS)

# JupyterLab asks about news unless its settings say no; they lie in the environment.
$(VENV)/.installed-lab: OVERRIDES := $(VENV)/share/jupyter/lab/settings/overrides.json

# The extras "test" and "bench" each include what "lab" or the core brings.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$*]'
	@$(if $(OVERRIDES),mkdir -p $(dir $(OVERRIDES)) && cp binder/overrides.json $(OVERRIDES))
	@touch $@

# The first of these that runs and is new enough; some machines name a command that is neither.
$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	    fi; \
	done; \
	echo "No Python 3.11 or newer was found. Name one: make lab PYTHON=/path/to/python3" >&2; exit 1
