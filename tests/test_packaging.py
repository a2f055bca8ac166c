import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OWN_PACKAGES = {"workbench", "workbench_kernels", "workbench_widgets"}

# Which declared requirements the code of each package may import; those of an extra only inside
# the function that needs them, which test_public_surface.py checks.
MAY_IMPORT = {
    "kernels/workbench_kernels": [*PROJECT["dependencies"], *EXTRAS["gpu"]],
    "workbench": [*PROJECT["dependencies"], *EXTRAS["gpu"], *EXTRAS["mpi"], *EXTRAS["lab"]],
    "widgets/workbench_widgets": [*PROJECT["dependencies"], *EXTRAS["lab"]],
}
# Installed with something that is declared, and made by the same people for that purpose.
COMES_WITH = {"traitlets": "ipywidgets", "ipython": "ipywidgets", "cupy": "cupy-cuda12x"}


def _distributions(requirements):
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def _imported_roots(source):
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name.split(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(name)):
                yield name.split(".")[0]
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
                yield name.split(".")[0]


@cache
def _providers():
    return metadata.packages_distributions()


def _foreign_distributions(source):
    """The distributions that ``source`` imports from, beside the standard library and our own."""
    for root in set(_imported_roots(source)) - sys.stdlib_module_names - OWN_PACKAGES:
        name = canonicalize_name(_providers().get(root, [root])[0])
        yield COMES_WITH.get(name, name)


def _notebook_source(path):
    return path.with_suffix(".py").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_third_party_import_is_a_declared_requirement(folder):
    used = {
        name
        for path in (ROOT / folder).rglob("*.py")
        for name in _foreign_distributions(path.read_text(encoding="utf-8"))
    }
    assert used - _distributions(MAY_IMPORT[folder]) == set()


def test_the_extras_are_those_that_the_documents_name():
    assert sorted(EXTRAS) == ["bench", "gpu", "lab", "mpi", "test"]


@pytest.mark.parametrize("folder", ["kernels", "widgets"])
def test_the_outer_folders_are_no_packages_of_their_own(folder):
    # `kernels` is also the name of a popular distribution, which ours would hide.
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_a_wheel_holds_the_three_packages_and_nothing_else(wheel):
    top = {name.split("/")[0] for name in wheel.namelist()}
    information = f"training_workbench-{PROJECT['version']}.dist-info"
    assert top == {*OWN_PACKAGES, information}


def test_a_wheel_holds_every_file_of_the_packages(wheel):
    shipped = set(wheel.namelist())
    for folder in MAY_IMPORT:
        package = ROOT / folder
        files = {
            path.relative_to(package.parent).as_posix()
            for path in package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert files - shipped == set()
        assert f"{package.name}/py.typed" in shipped


SHOW_A_PANEL = """
import pathlib, sys, numpy, workbench as wb, workbench_widgets
assert pathlib.Path(workbench_widgets.__file__).is_relative_to(sys.argv[1])
params = {"w": numpy.zeros((1, 1), numpy.float32)}
panel = wb.watch(wb.Run(params, wb.sgd(params), wb.Config(1, 8, 0.1, 1))).panel
data, _ = panel._repr_mimebundle_()
assert "application/vnd.jupyter.widget-view+json" in data
state = panel.get_state()
print(len(state["_esm"]) > 10_000, ".wb-panel" in state["_css"])
"""


def test_a_wheel_that_is_installed_elsewhere_shows_a_panel(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*install, "--target", str(tmp_path / "site"), wheel.filename],
        check=True,
        capture_output=True,
        timeout=120,
    )
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_A_PANEL, str(tmp_path / "site")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shown.stdout.strip() == "True True", shown.stderr


def test_a_wheel_names_its_licence_and_the_python_it_needs(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    text = wheel.read(name).decode()
    assert re.search(r"^Requires-Python: >=3\.11$", text, flags=re.MULTILINE)
    assert re.search(r"^License-Expression: MIT$", text, flags=re.MULTILINE)
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_binder_script_can_be_executed_and_stops_at_a_failure():
    script = ROOT / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")


def test_binder_uses_a_python_that_the_project_supports():
    runtime = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert runtime == "python-3.11"


def test_binder_installs_what_the_core_and_the_notebooks_need():
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    binder = _distributions(line for line in lines if line and not line.startswith("#"))
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    used = {name for path in notebooks for name in _foreign_distributions(_notebook_source(path))}
    assert used - binder == set()
    assert _distributions(PROJECT["dependencies"] + EXTRAS["lab"]) - binder == set()


def test_the_ci_script_can_be_executed():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
