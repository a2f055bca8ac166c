import pytest

from workbench.errors import DataError
from workbench_widgets.assets import script, style
from workbench_widgets.frame import Frame


class Plain(Frame):
    _esm = script("frame")
    _css = style("frame")

    def __init__(self):
        super().__init__()
        self.heard = []
        self.sent = []
        self.answer("say", lambda message: self.heard.append(message["what"]))
        self.answer("refuse", self._refuse)

    def _refuse(self, message):
        raise DataError("it is empty", remedy="fill it")

    def send(self, content, buffers=None):
        self.sent.append(content)

    def text(self):
        return "<Plain>"


@pytest.fixture
def view():
    made = Plain()
    yield made
    made.close()


def test_a_view_hears_what_it_asked_for(view):
    view._receive(view, {"ask": "say", "what": "this"}, [])
    assert view.heard == ["this"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        3,
        "say",
        [],
        {},
        {"ask": None},
        {"ask": ["say"]},
        {"ask": {"a": 1}},
        {"ask": "unknown"},
        {"ask": 1e308},
    ],
)
def test_a_message_that_means_nothing_changes_nothing(view, message):
    view._receive(view, message, [])
    assert (view.heard, view.sent) == ([], [])


def test_a_message_that_lacks_a_part_is_answered_in_words(view):
    view._receive(view, {"ask": "say"}, [])
    assert view.sent == [{"t": "refused", "ask": "say", "text": "`say` was not understood: 'what'"}]


def test_a_refusal_reaches_the_page_with_its_remedy(view):
    view._receive(view, {"ask": "refuse"}, [])
    assert view.sent[0]["text"] == "it is empty; fill it"


def test_text_and_plain_html_travel_beside_the_view(view):
    data, _ = view._repr_mimebundle_()
    assert data["text/plain"] == "<Plain>"
    assert data["text/html"] == "<pre>&lt;Plain&gt;</pre>"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_refusal_names_the_question_that_it_answers(view):
    view._receive(view, {"ask": "refuse", "req": "a-7"}, [])
    assert view.sent[-1]["req"] == "a-7"


def test_a_page_is_told_the_record_whenever_it_asks(view):
    view._receive(view, {"ask": "here"}, [])
    view._receive(view, {"ask": "record"}, [])
    (told,) = view.sent
    assert (told["t"], told["model"]) == ("record", view.model_id)
    assert told["record"]["text/plain"] == "<Plain>"
    assert told["record"]["text/html"] == "<pre>&lt;Plain&gt;</pre>"


def test_a_view_that_is_over_is_let_go_when_each_page_has_its_record(view):
    for _ in range(2):
        view._receive(view, {"ask": "here"}, [])
    view.seal()
    assert view.is_over
    assert [told["t"] for told in view.sent] == ["sealed"]
    view._receive(view, {"ask": "sealed"}, [])
    assert view.comm is not None
    view._receive(view, {"ask": "sealed"}, [])
    assert view.comm is None


def test_a_page_that_comes_after_the_end_is_told_that_it_is_over(view):
    view._receive(view, {"ask": "here"}, [])
    view.seal()
    view._receive(view, {"ask": "here"}, [])
    assert [told["t"] for told in view.sent] == ["sealed", "sealed"]


def test_a_view_that_no_page_shows_is_let_go_at_its_end(view):
    view.seal()
    assert view.comm is None
