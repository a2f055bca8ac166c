import copy
import pickle
import re
from pathlib import Path

import pytest

from workbench import errors

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {name: getattr(errors, name) for name in errors.__all__}
EXCEPTIONS = [kind for kind in PUBLIC.values() if issubclass(kind, errors.WorkbenchError)]
WARNINGS = [kind for kind in PUBLIC.values() if issubclass(kind, Warning)]

PROBLEM = "matmul: left is (2, 3), right is (4, 5)"
REMEDY = "transpose one operand"


def test_the_module_lists_every_exception_and_warning_it_defines():
    defined = {name for name, value in vars(errors).items() if _is_defined_here(value)}
    assert set(errors.__all__) == defined
    assert errors.__all__ == sorted(errors.__all__)


def test_every_class_is_either_an_error_or_a_warning():
    assert len(EXCEPTIONS) + len(WARNINGS) == len(PUBLIC)
    assert all(issubclass(kind, errors.WorkbenchWarning) for kind in WARNINGS)


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_error_shows_its_problem_and_carries_its_remedy(kind):
    error = kind(PROBLEM, remedy=REMEDY)
    assert str(error) == error.problem == PROBLEM
    assert error.remedy == REMEDY
    assert error.__notes__ == [f"Remedy: {REMEDY}"]


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_error_without_a_remedy_cannot_be_made(kind):
    with pytest.raises(TypeError, match="remedy"):
        kind(PROBLEM)


@pytest.mark.parametrize("kind", EXCEPTIONS)
@pytest.mark.parametrize("transport", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_an_error_arrives_whole_in_another_process(kind, transport):
    sent = kind(PROBLEM, remedy=REMEDY)
    sent.add_note("in step 12")
    arrived = transport(sent)
    assert type(arrived) is kind
    assert (arrived.problem, arrived.remedy, arrived.args) == (PROBLEM, REMEDY, (PROBLEM,))
    assert arrived.__notes__ == [f"Remedy: {REMEDY}", "in step 12"]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.DTypeError, TypeError),
        (errors.GraphError, ValueError),
        (errors.DataError, ValueError),
        (errors.ConfigurationError, ValueError),
        (errors.ExecutionError, RuntimeError),
        (errors.DeviceMemoryError, MemoryError),
        (errors.BackendUnavailable, RuntimeError),
        (errors.WorkbenchWarning, UserWarning),
    ],
)
def test_a_class_can_be_caught_as_the_builtin_that_a_reader_expects(kind, builtin):
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("name", errors.__all__)
def test_each_class_is_drawn_in_the_tree_and_documented(name):
    assert re.search(rf"\b{name}\b", errors.__doc__ or "")
    assert PUBLIC[name].__doc__
    reference = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ `{name}`$", reference, flags=re.MULTILINE)


def _is_defined_here(value):
    return isinstance(value, type) and value.__module__ == errors.__name__
