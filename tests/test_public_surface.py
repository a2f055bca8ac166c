import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import workbench as wb

# Each of these costs a reader of `import workbench` time, or is an extra that may be missing.
NOT_AT_IMPORT = (
    "IPython",
    "anywidget",
    "cupy",
    "ipywidgets",
    "jax",
    "llvmlite",
    "matplotlib",
    "numba",
    "pandas",
    "pooch",
    "torch",
    "traitlets",
    "workbench_widgets",
)
IMPORT_LIMIT_S = 0.5
ROOT = Path(__file__).resolve().parents[1]
PACKAGE_PATH = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
_UNUSUAL = {"PYTHONDONTWRITEBYTECODE"}
TIMED_IMPORT = (
    "import time; start = time.process_time(); import workbench; print(time.process_time() - start)"
)


def _python(code):
    result = subprocess.run(
        [sys.executable, "-c", code],
        # As a person's own Python: one that may keep what it compiled.
        env={
            **{name: value for name, value in os.environ.items() if name not in _UNUSUAL},
            "PYTHONPATH": PACKAGE_PATH,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return result.stdout.strip()


def test_the_public_names_are_sorted_and_listed_once():
    assert list(wb.__all__) == sorted(set(wb.__all__))


def test_no_public_name_is_missing_from_the_list():
    visible = {
        name
        for name, value in vars(wb).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert visible <= set(wb.__all__)


@pytest.mark.parametrize("name", wb.__all__)
def test_each_public_name_can_be_fetched_and_is_documented(name):
    value = getattr(wb, name)
    if isinstance(value, type | types.FunctionType | types.ModuleType):
        assert value.__doc__
        # A dataclass without a docstring of its own gets its signature as one.
        assert not value.__doc__.startswith(f"{name}(")
    else:
        assert value is not None


def test_the_public_names_are_what_completion_offers():
    assert set(wb.__all__) <= set(dir(wb))


def test_importing_the_workbench_loads_no_compiler_and_no_notebook_library():
    loaded = _python("import sys, workbench; print(*sorted(sys.modules))").split()
    assert "workbench" in loaded
    assert sorted(set(NOT_AT_IMPORT) & set(loaded)) == []


def test_the_kernels_can_be_imported_without_the_workbench():
    loaded = _python("import sys, workbench_kernels; print(*sorted(sys.modules))").split()
    assert "workbench_kernels" in loaded
    assert "workbench" not in loaded


def test_importing_the_workbench_takes_less_than_half_a_second():
    # The fastest of five: other programs can only make an import slower.
    assert min(float(_python(TIMED_IMPORT)) for _ in range(5)) < IMPORT_LIMIT_S
