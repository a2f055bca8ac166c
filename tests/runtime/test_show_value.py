"""One value as text: header, frame, dots, and why there is none."""

from textwrap import dedent

import numpy as np
import pytest

import workbench as wb
from tests.runtime.counting import counting_context
from workbench.runtime.context import Context
from workbench.runtime.show_value import brief_grid, framed_grid, show_axes, value_text
from workbench.runtime.text_block import block, framed


def counted(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def expect(text, expected):
    assert text == dedent(expected).strip("\n")


def test_a_row_of_four_is_one_box_with_a_titled_axis(capsys):
    r4 = wb.parameter(counted(4), "r4")
    Context.interpreter().printf(r4)
    expect(
        capsys.readouterr().out.rstrip("\n"),
        """
        [0]: r4 shape 0:4
        ┌────────────────────────┐
        │axis 0                  │
        ├────────────────────────┤
        │ 0.00  1.00  2.00  3.00 │
        └────────────────────────┘
        """,
    )


def test_a_number_is_a_box_without_axes_and_its_gradient_another():
    x = wb.parameter(3.0, "x")
    y = (x * x).named("y")
    ctx, routine = Context.interpreter().compile([y, *(grads := wb.backward(y, [x])).values()])
    ctx = ctx.run(routine)
    expect(
        value_text(ctx, x, grads=grads),
        """
        [0]: x shape ()
        ┌──────┐
        │ 3.00 │
        └──────┘
        [1]: grad_x shape ()
        ┌──────┐
        │ 6.00 │
        └──────┘
        """,
    )
    assert "grad" not in value_text(ctx, x, with_grad=False, grads=grads)
    assert "grad" not in value_text(ctx, y, grads=grads)


def test_two_axes_are_rows_and_columns():
    expect(
        str(framed_grid(counted(2, 3) - 1.5)),
        """
        ┌──────┬──────────────────────────┐
        │      │axis 1                    │
        ├──────┼──────────────────────────┤
        │axis 0│ -1.50  -5.00e-1  5.00e-1 │
        │      │  1.50      2.50     3.50 │
        └──────┴──────────────────────────┘
        """,
    )


def test_four_axes_are_a_table_of_tables():
    expect(
        str(framed_grid(counted(2, 2, 1, 2))),
        """
        ┌─────────┬──────┬─────────────────┬─────────────────┐
        │         │      │axis 1: 0, axis 3│axis 1: 1, axis 3│
        ├─────────┼──────┼─────────────────┼─────────────────┤
        │axis 0: 0│axis 2│ 0.00  1.00      │ 2.00  3.00      │
        ├─────────┼──────┼─────────────────┼─────────────────┤
        │axis 0: 1│axis 2│ 4.00  5.00      │ 6.00  7.00      │
        └─────────┴──────┴─────────────────┴─────────────────┘
        """,
    )


def test_five_axes_are_a_list_and_of_axes_before_them_entry_0_is_shown():
    expect(
        str(framed_grid(counted(3, 2, 1, 1, 1, 2))),
        """
        axis 0 at index 0
        axis 1: 0
        ┌─────────┬──────┬─────────────────┐
        │         │      │axis 3: 0, axis 5│
        ├─────────┼──────┼─────────────────┤
        │axis 2: 0│axis 4│ 0.00  1.00      │
        └─────────┴──────┴─────────────────┘
        axis 1: 1
        ┌─────────┬──────┬─────────────────┐
        │         │      │axis 3: 0, axis 5│
        ├─────────┼──────┼─────────────────┤
        │axis 2: 0│axis 4│ 2.00  3.00      │
        └─────────┴──────┴─────────────────┘
        """,
    )
    assert str(framed_grid(counted(1, 1, 1, 1, 1, 1, 1))).startswith("axes 0 to 1 at index 0\n")


def test_long_axes_have_dots_in_the_middle():
    expect(
        str(framed_grid(counted(6, 100))),
        """
        ┌──────┬─────────────────────────────────────────┐
        │      │axis 1                                   │
        ├──────┼─────────────────────────────────────────┤
        │axis 0│    0.00     1.00  ...  9.80e+1  9.90e+1 │
        │      │ 1.00e+2  1.01e+2  ...  1.98e+2  1.99e+2 │
        │      │     ...      ...  ...      ...      ... │
        │      │ 4.00e+2  4.01e+2  ...  4.98e+2  4.99e+2 │
        │      │ 5.00e+2  5.01e+2  ...  5.98e+2  5.99e+2 │
        └──────┴─────────────────────────────────────────┘
        """,
    )
    assert "..." not in str(framed_grid(counted(5, 5)))


@pytest.mark.parametrize("axis", range(5))
def test_each_of_the_five_axes_can_be_long(axis):
    shape = [1] * 5
    shape[axis] = 7
    text = str(framed_grid(counted(*shape)))
    assert "..." in text
    for shown, hidden in ((0, 2), (1, 3), (5, 4), (6, 4)):
        assert f" {shown}.00 " in text
        assert f" {hidden}.00 " not in text


def test_a_grid_without_frames_shows_the_last_two_axes():
    assert brief_grid(np.array(2.0)) == [" 2.00"]
    assert brief_grid(counted(2, 2)) == [" 0.00  1.00", " 2.00  3.00"]
    assert brief_grid(counted(2, 2, 1, 2)) == [" [0, 0]", " 0.00  1.00"]
    assert brief_grid(np.array([[True, False]])) == [" True  False"]
    assert brief_grid(np.zeros((0, 3))) == [" (no elements)"]


def test_an_empty_value_is_a_box_too():
    assert "no elements" in str(framed_grid(np.zeros((2, 0))))


def test_the_header_says_what_is_no_number_and_which_axis_is_the_batch():
    x = wb.input("x", (wb.batch, 3))
    ctx = Context.interpreter().set_values({x: [[1, np.nan, 3], [np.inf, 5, -np.inf]]})
    header = value_text(ctx, x).splitlines()[0]
    assert header == "[0]: x shape 0:2|1:3 includes NaN, pos. inf., neg. inf."
    assert show_axes(x.shape) == "shape 0:batch|1:3"


def test_the_precision_is_a_setting():
    pi = wb.parameter(np.pi, "pi")
    ctx = Context.interpreter()
    with wb.settings(print_precision=5):
        assert " 3.14159 " in value_text(ctx, pi)
    assert " 3.14 " in value_text(ctx, pi)


def test_a_value_that_cannot_be_read_shows_its_mode_the_reason_and_the_remedy():
    x = wb.input("x", (4, 20))
    h = x.sum(1).named("h")
    ctx, routine = Context.interpreter().compile([wb.exp(h) + 1.0])
    ctx = ctx.set_values({x: np.ones((4, 20))}).run(routine)
    header, placeholder, problem, remedy = value_text(ctx, h).splitlines()
    assert header == "[0]: sum_h shape 0:4 Local/39"
    assert placeholder == "<unobservable: Local>"
    assert "max_inline_reduction=16" in problem
    assert "ctx.compile([ctx.node('h')])" in remedy


def test_a_recomputed_value_and_gradient_cost_one_compile():
    x = wb.parameter(counted(3), "x")
    h = (x * 2.0).named("h")
    loss = (h * h).sum()
    grads = {h: wb.backward(loss, [h, x], stop=())[h]}
    root, backend = counting_context()
    ctx, _ = root.compile([loss, wb.backward(loss, [x])[x]])
    backend.programs.clear()
    text = value_text(ctx, h, grads=grads)
    assert " 0.00  2.00  4.00 " in text
    assert " 0.00  4.00  8.00 " in text
    assert len(backend.programs) == 1


def test_a_gradient_of_no_routine_says_so():
    x = wb.parameter(counted(3), "x")
    loss = (x * x).sum()
    ctx, _ = Context.interpreter().compile([loss])
    text = value_text(ctx, x, grads=wb.backward(loss, [x]))
    assert "[1]: grad_x shape 0:3\n<unobservable: absent>" in text
    assert "not part of this context" in text


def test_labels_cannot_steer_the_terminal():
    text = value_text(Context.interpreter(), wb.parameter(1.0, "w\n\x1b[31m\u202e"))
    assert text.splitlines()[0] == r"[0]: w\n\x1b[31m\u202e shape ()"


def test_wide_characters_keep_the_frame_straight():
    assert str(framed([[block(["損失", "ab"])]])).splitlines()[1:3] == ["│損失│", "│ab  │"]
