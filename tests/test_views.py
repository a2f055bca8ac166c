import builtins
import sys

import pytest

from workbench.views import open_view


@pytest.fixture
def without(monkeypatch):
    """``without("anywidget")`` makes this process one where that is not installed."""

    def hide(name):
        real = builtins.__import__

        def refusing(module, *arguments, **options):
            if module.split(".")[0] == name:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
            return real(module, *arguments, **options)

        for module in list(sys.modules):
            if module.split(".")[0] in (name, "workbench_widgets"):
                monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(builtins, "__import__", refusing)

    return hide


def test_without_the_notebook_libraries_a_view_is_text(without):
    without("anywidget")
    assert open_view("frame", "shown", otherwise=lambda: "as text") == "as text"


def test_a_view_that_does_not_exist_is_a_mistake_and_not_a_missing_library():
    with pytest.raises(ModuleNotFoundError, match="no_such_view"):
        open_view("no_such_view", otherwise=lambda: "as text")
