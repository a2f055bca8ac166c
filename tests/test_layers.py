import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("workbench", "kernels", "widgets")
# What stands above the code generators and must not know them.
SEAM = ("errors.py", "seeds.py", "graph", "assign", "loops")
OWN_PACKAGES = ("workbench", "workbench_kernels", "workbench_widgets")


def _lint_imports(tree):
    """Check the contracts of ``tree``'s own pyproject.toml against the packages in ``tree``."""
    paths = [str(tree / folder) for folder in (".", "kernels", "widgets")]
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def tree(tmp_path):
    """A copy of the packages that a test may spoil."""
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.npz")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_layer_imports_only_what_lies_below_it():
    result = _lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("workbench/errors.py", "import workbench.train", "the layers inside workbench"),
        ("workbench/train/__init__.py", "import workbench_widgets", "kernels < workbench"),
        ("kernels/workbench_kernels/__init__.py", "import workbench.errors", "kernels < workbench"),
        ("workbench/loops/__init__.py", "import numba", "know no code generator"),
        ("workbench/train/__init__.py", "import ipywidgets", "only the widgets touch"),
        (
            "workbench/backends/numba_cpu/__init__.py",
            "import workbench.backends.interpreter",
            "backends do not know each other",
        ),
        ("workbench/data/dataset.py", "import workbench.data.partition", "depend on each other"),
        ("workbench/unplaced.py", "", "the layers inside workbench"),
    ],
)
def test_a_planted_violation_is_caught(tree, module, line, contract):
    with (tree / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = _lint_imports(tree)
    assert result.returncode != 0
    broken = [text for text in result.stdout.splitlines() if "BROKEN" in text]
    assert any(contract in text for text in broken), result.stdout + result.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_function_imports_a_package_of_our_own(folder):
    late = [
        f"{path.relative_to(ROOT)}:{statement.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
        and any(name.split(".")[0] in OWN_PACKAGES for name in _imported(statement))
    ]
    assert late == []


def test_no_import_hides_from_the_contracts_behind_a_string():
    hidden = [
        f"{path.relative_to(ROOT)}:{name.lineno}"
        for part in SEAM
        for path in sorted(
            (ROOT / "workbench").glob(f"{part}/**/*.py" if "." not in part else part)
        )
        for name in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(name, ast.Name) and name.id in ("import_module", "__import__", "importlib")
    ]
    assert hidden == []


def _imported(statement):
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module or "."]
