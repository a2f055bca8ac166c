import pytest

pytestmark = pytest.mark.browser

VIEW = """
from workbench_widgets.assets import script, style
from workbench_widgets.frame import Frame

class Plain(Frame):
    _esm = script("frame") + '''
    export default { render({ model, el }) {
        const root = frame(el, "plain", "a plain view");
        root.append(
            element("label", {}, "rate ", element("input", { type: "range", max: 9, value: 5 })),
            element("button", { type: "button" }, "<b>not bold</b>"),
            liveRegion(),
        );
    } };'''
    _css = style("frame")

    def text(self):
        return "a plain view"

Plain()
"""


@pytest.fixture
def notebook(open_notebook):
    made = open_notebook([VIEW])
    made.run_all()
    made.page.wait_for_selector(".wb-plain")
    return made


def test_plain_keys_work_in_a_view_and_leave_the_notebook_alone(notebook):
    notebook.page.locator(".wb-plain input").focus()
    notebook.page.keyboard.press("ArrowRight")
    for key in "xdda":
        notebook.page.keyboard.press(key)
    assert notebook.page.locator(".wb-plain input").input_value() == "6"
    assert len(notebook.cells()) == 1
    notebook.page.locator(".wb-plain button").focus()
    assert notebook.page.locator(".wb-plain button").inner_text() == "<b>not bold</b>"


def test_a_view_is_accessible_in_both_themes(notebook, violations):
    for theme in ("Dark", "Light"):
        notebook.use_theme(theme)
        assert violations(notebook.page, ".wb-plain") == []
