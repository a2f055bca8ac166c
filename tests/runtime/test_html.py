"""What objects show in a notebook and in a terminal; nothing of a person's text becomes a tag."""

from html.parser import HTMLParser

import numpy as np
import pytest

import workbench as wb
from workbench.graph.markup import Markup, card, element, escaped, table
from workbench.runtime.context import Context

EVIL = "<script>alert('x')</script>&\"\n\x1b[2J"


class Reader(HTMLParser):
    """Collects the tags, and checks that they nest."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def test_plain_text_is_escaped_and_markup_is_not():
    assert escaped("a < b\n") == r"a &lt; b\n"
    assert escaped(Markup("<i>a</i>")) == "<i>a</i>"
    assert element("p class='x'", "<", element("b", ">")).text == "<p class='x'>&lt;<b>&gt;</b></p>"


def test_tables_and_cards_have_headings_and_a_caption():
    html = read(table(["one", "two"], [["1", "2"]], "both").text)
    assert html.tags.count("th") == html.tags.count("td") == 2
    assert html.text == "bothonetwo12"
    assert "caption" not in table(["one"], []).text
    html = read(card("title", [("name", "what")]).text)
    assert html.text == "titlenamewhat"


def test_a_tensor_shows_label_operation_shape_type_and_operands():
    x = wb.input("x", (wb.batch, 3))
    html = read((x * 2.0).named("twice")._repr_html_())
    for part in ("twice", "mul", "(batch, 3)", "float32", "input 'x'", "broadcast"):
        assert part in html.text
    assert "none" in read(x._repr_html_()).text
    assert "Tensor" in read(wb.exp(x)._repr_html_()).text


def test_a_routine_shows_kernels_and_after_a_run_its_launches_and_local_bytes():
    x = wb.input("x", (wb.batch, 64))
    w = wb.parameter(np.ones((64, 128), np.float32), "w")
    y = (wb.relu(x @ w) @ w.T).named("y")
    ctx, routine = Context.cpu(2).compile([y], name="forward")
    assert "Routine 'forward'" in routine.summary()
    assert "not run yet" in routine.summary()
    ctx.set_values({x: np.ones((256, 64))}).run(routine)
    title, header, *launches = routine.summary().splitlines()
    assert f"{routine.local_bytes(256):,} local bytes, a batch of 256 rows" in title
    assert header.split() == ["launch", "kernel", "chunks", "multiplications", "computes"]
    assert len(launches) >= 2
    assert any(int(line.split()[2]) > 1 for line in launches)
    html = read(routine._repr_html_())
    assert html.tags.count("li") == len(routine.program.kernels)
    assert html.tags.count("tr") == 1 + len(launches)
    assert title in html.text


def test_counts_are_in_the_singular_where_there_is_one():
    _, routine = Context.interpreter().compile([wb.parameter(1.0, "p") + 1.0])
    assert "1 kernel, 2 buffers, 0 local nodes" in routine.summary()


def test_a_context_shows_backend_memory_and_lineage():
    x = wb.input("x", (2,))
    ctx, _ = Context.interpreter().compile([x + 1.0], name="more")
    html = read(ctx._repr_html_())
    for part in (f"Context {ctx.id}", "interpreter", "2, 0 with values", "bytes", "compile more"):
        assert part in html.text


@pytest.fixture
def shown():
    x = wb.input(EVIL, (wb.batch, 20))
    w = wb.parameter(np.ones((20, 3), np.float32), EVIL)
    y = wb.exp((x @ w).named(EVIL)).named(EVIL)
    ctx, routine = Context.interpreter().compile([(y + 1.0).named(EVIL)], name=EVIL)
    ctx = ctx.set_values({x: np.ones((4, 20))}).run(routine)
    return x, y, ctx, routine, ctx.placement_table(), ctx.lineage()


def test_labels_and_names_are_escaped_in_all_html(shown):
    for each in shown:
        html = read(each._repr_html_())
        assert "script" not in html.tags
        assert "<script>alert" in html.text
        assert "\x1b" not in html.text


def test_labels_and_names_are_escaped_in_all_text(shown, capsys):
    _, y, ctx, routine, placements, lineage = shown
    ctx.printf_tree(y)
    ctx.printf(y)
    texts = [capsys.readouterr().out, routine.summary(), str(placements), str(lineage), repr(ctx)]
    for text in texts:
        assert "\x1b" not in text
        assert r"\x1b[2J" in text
