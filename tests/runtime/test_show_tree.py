"""Graphs as trees of values; the numbers are those of the scalar graphs of the oracle."""

import re
from itertools import pairwise
from textwrap import dedent

import numpy as np
import pytest

import workbench as wb
from tests.runtime.counting import counting_context
from workbench.graph.tensor import topological_order
from workbench.runtime.context import Context
from workbench.runtime.number_format import format_elements
from workbench.runtime.observe import Reading
from workbench.runtime.show_tree import tree_text


def expect(text, expected):
    assert text == dedent(expected).strip("\n")


def compiled(outputs, context=None):
    ctx, routine = (context or Context.interpreter()).compile(outputs)
    return ctx.run(routine)


def product_and_sum():
    a, b = wb.parameter(2.0, "a"), wb.parameter(3.0, "b")
    product = a * b
    y = (product + a).named("y")
    return y, wb.backward(y, [y, product, a, b], stop=())


def test_the_root_is_on_top_operands_side_by_side_and_gradients_below_values():
    y, grads = product_and_sum()
    expect(
        tree_text(compiled([y, *grads.values()]), y, grads=grads),
        """
                  #6 +_y
                   8.00
                  #7 grad_+_y
                   1.00
                #4 *             │[#0 a]
                 6.00            │
                #5 grad_*        │
                 1.00            │
        #0 a non-emb│#2 b non-emb│
         2.00       │ 3.00       │
        #1 grad_a   │#3 grad_b   │
         4.00       │ 2.00       │
        """,
    )


def test_printf_tree_prints_what_tree_text_returns(capsys):
    y, grads = product_and_sum()
    ctx = compiled([y, *grads.values()])
    ctx.printf_tree(y, 1, with_value=True, with_grad=True, grads=grads)
    assert capsys.readouterr().out == tree_text(ctx, y, 1, grads=grads) + "\n"


def test_levels_below_the_depth_are_an_indented_list():
    y, grads = product_and_sum()
    ctx = compiled([y, *grads.values()])
    expect(
        tree_text(ctx, y, 1),
        """
               #3 +_y
                8.00
        #2 *          │[#0 a]
         6.00         │
        ├─#0 a non-emb│
        │  2.00       │
        └─#1 b non-emb│
           3.00       │
        """,
    )
    expect(
        tree_text(ctx, y, 0, grads=grads),
        """
        #6 +_y
         8.00
        #7 grad_+_y
         1.00
        ├─#4 *
        │  6.00
        │ #5 grad_*
        │  1.00
        │ ├─#0 a non-emb
        │ │  2.00
        │ │ #1 grad_a
        │ │  4.00
        │ └─#2 b non-emb
        │    3.00
        │   #3 grad_b
        │    2.00
        └─[#0 a]
        """,
    )


def test_without_values_every_node_shows_where_it_lives():
    y, grads = product_and_sum()
    ctx = compiled([y, *grads.values()])
    expect(
        tree_text(ctx, y, with_value=False),
        """
                        #3 +_y Dev/38
                      #2 * Virt/0              │[#0 a]
        #0 a non-emb Dev/37│#1 b non-emb Dev/37│
        """,
    )
    text = tree_text(ctx, y, with_value=False, grads=grads)
    assert "grad_a Dev/38" in text
    assert "grad" not in tree_text(ctx, y, with_grad=False, grads=grads)


def test_a_literal_is_its_own_value_and_a_second_occurrence_a_reference():
    x = wb.parameter(5.0, "x")
    f = (3 * x**2 - 4 * x + 5).named("f")
    expect(
        tree_text(compiled([f]), f),
        """
                                 #8 +_f
                                  6.00e+1
                          #6 -                       │#7 5 Virt/40
                           5.50e+1                   │
                #3 *             │     #5 *          │
                 7.50e+1         │      2.00e+1      │
        #0 3 Virt/40│ #2 square  │#4 4 Virt/40│[#1 x]│
                    │  2.50e+1   │                   │
                    │#1 x non-emb│                   │
                    │ 5.00       │                   │
        """,
    )


def test_a_literal_is_shown_by_its_fewest_digits_and_without_the_node_that_spreads_it():
    x = wb.input("x", (2, 3))
    text = tree_text(Context.interpreter().set_values({x: np.ones((2, 3))}), x * 0.1 + 2)
    assert " 0.1" in text
    assert "broadcast" not in text
    assert tree_text(Context.interpreter(), wb.constant(7, dtype="int64")) == "#0 7"
    assert "broadcast" in tree_text(Context.interpreter(), wb.parameter([1.0], "b") + x)


# -- the scalar graphs of the oracle


def values_of(text):
    """Value lines by name, of a tree drawn as a list."""
    lines = [re.sub(r"^[│├└─ ]*", "", line) for line in text.splitlines()]
    return {
        head.split(maxsplit=1)[1].removesuffix(" non-emb"): value
        for head, value in pairwise(lines)
        if head.startswith("#") and not value.startswith(("#", "["))
    }


def test_a_polynomial_its_values_and_gradients():
    x = wb.parameter(5.0, "x")
    square = (x**2).named("x2")
    three, four = (3 * square).named("3x2"), (4 * x).named("4x")
    difference = (three - four).named("diff")
    f = (difference + 5).named("f")
    grads = wb.backward(f, [f, difference, three, four, square, x], stop=())
    found = values_of(tree_text(compiled([f, *grads.values()]), f, 0, grads=grads))
    assert found == {
        "square_x2": "2.50e+1",
        "*_3x2": "7.50e+1",
        "*_4x": "2.00e+1",
        "-_diff": "5.50e+1",
        "+_f": "6.00e+1",
        "x": "5.00",
        "grad_+_f": "1.00",
        "grad_-_diff": "1.00",
        "grad_*_3x2": "1.00",
        "grad_*_4x": "-1.00",
        "grad_square_x2": "3.00",
        "grad_x": "2.60e+1",
    }


EXPRESSION = {"a": 2.0, "b": -3.0, "c": 10.0, "f": -2.0}


def test_an_expression_of_four_parameters_before_and_after_a_step():
    a, b, c, f = (wb.parameter(value, name) for name, value in EXPRESSION.items())
    e = (a * b).named("e")
    d = (e + c).named("d")
    loss = (d * f).named("l")
    grads = wb.backward(loss, [loss, d, f, e, c, a, b], stop=())
    ctx, show = Context.interpreter().compile([loss, *grads.values()])
    ctx, step = ctx.compile([], updates={p: p - 0.1 * grads[p] for p in (a, b, c, f)})
    ctx = ctx.run(show)
    assert values_of(tree_text(ctx, loss, 0, grads=grads)) == {
        "a": "2.00",
        "b": "-3.00",
        "c": "1.00e+1",
        "f": "-2.00",
        "*_e": "-6.00",
        "+_d": "4.00",
        "*_l": "-8.00",
        "grad_*_l": "1.00",
        "grad_+_d": "-2.00",
        "grad_f": "4.00",
        "grad_*_e": "-2.00",
        "grad_c": "-2.00",
        "grad_a": "6.00",
        "grad_b": "-4.00",
    }
    ctx = ctx.run(step).run(show)
    assert values_of(tree_text(ctx, loss, 0, grads=grads)) == {
        "a": "1.40",
        "b": "-2.60",
        "c": "1.02e+1",
        "f": "-2.40",
        "*_e": "-3.64",
        "+_d": "6.56",
        "*_l": "-1.57e+1",
        "grad_*_l": "1.00",
        "grad_+_d": "-2.40",
        "grad_f": "6.56",
        "grad_*_e": "-2.40",
        "grad_c": "-2.40",
        "grad_a": "6.24",
        "grad_b": "-3.36",
    }


def neuron():
    w, x = wb.parameter([-3.0, 1.0], "w"), wb.parameter([2.0, 0.0], "x")
    b = wb.parameter(6.7, "b")
    product = (w * x).sum().named("wx")
    v = (product + b).named("v")
    return v, wb.backward(v, [w, x, b], stop=())


def test_a_neuron_whose_product_is_recomputed():
    v, grads = neuron()
    found = values_of(tree_text(compiled([v, *grads.values()]), v, 0, grads=grads))
    assert found == {
        "w": "-3.00  1.00",
        "x": "2.00  0.00",
        "*": "-6.00  0.00",
        "sum_wx": "-6.00",
        "b": "6.70",
        "+_v": "7.00e-1",
        "grad_w": "2.00  0.00",
        "grad_x": "-3.00  1.00",
        "grad_b": "1.00",
    }


def test_a_neuron_whose_product_is_local_shows_no_value_for_it():
    v, grads = neuron()
    with wb.settings(max_inline_reduction=1):
        ctx = compiled([v, *grads.values()])
    expect(
        tree_text(ctx, v),
        """
                       #5 +_v
                        7.00e-1
         #3 sum_wx Local/39      │#4 b non-emb
          <unobservable: Local>  │ 6.70
              #2 *               │
               -6.00  0.00       │
        #0 w non-emb│#1 x non-emb│
         -3.00  1.00│ 2.00  0.00 │
        """,
    )


@pytest.mark.parametrize(
    ("count", "step", "least", "most", "steepest"),
    [(10, 1.0, "4.00", "1.00e+2", None), (100, 0.1, "3.67", "1.00e+2", ("-3.40e+1", "2.54e+1"))],
)
def test_a_curve_of_points(count, step, least, most, steepest):
    x = wb.parameter((np.arange(count) * step - 5).astype(np.float32), "x")
    f = (3 * x**2 - 4 * x + 5).named("f")
    slope = wb.backward(f.sum(), [x])[x]
    ctx = compiled([f, slope])
    values, slopes = ctx.read([f, slope])
    assert len(values) == count
    assert format_elements(np.array([values.min(), values.max()])) == [least, most]
    if steepest is not None:
        assert slopes.min() == pytest.approx(-34, abs=1e-4)
        assert slopes.max() == pytest.approx(25.4, abs=1e-4)
    assert f"{most}  " in tree_text(ctx, f, 0)


# -- what cannot be read


def test_a_placeholder_names_the_node_at_fault_by_its_number():
    x = wb.input("x", (4, 20))
    h = x.sum(1).named("h")
    v = wb.exp(h).named("v")
    y = (v + 1.0).named("y")
    ctx, routine = Context.interpreter().compile([y])
    ctx = ctx.set_values({x: np.zeros((4, 20))}).run(routine)
    expect(
        tree_text(ctx, y, 0),
        """
        #4 +_y
         2.00  2.00  2.00  2.00
        ├─#2 exp_v Virt/0
        │  <unobservable: reads Local #1 sum_h>
        │ #1 sum_h Local/39
        │  <unobservable: Local>
        │ #0 x
        │  0.00  0.00  ...  0.00  0.00
        │  0.00  0.00  ...  0.00  0.00
        │  0.00  0.00  ...  0.00  0.00
        │  0.00  0.00  ...  0.00  0.00
        └─#3 1 Virt/40
        """,
    )


def test_before_the_run_the_tree_says_what_is_empty():
    x = wb.input("x", (2,))
    y = (wb.exp(x) * 2.0).named("y")
    ctx, _ = Context.interpreter().compile([y])
    text = tree_text(ctx, y)
    assert "#3 *_y Dev/38" in text
    assert "<unobservable: empty>" in text
    assert "<unobservable: reads empty #0 x>" in text


def test_a_graph_of_no_context_is_drawn_without_values():
    y = (wb.input("x", (2,)) + 1.0).named("y")
    expect(
        tree_text(Context.interpreter(), y, 0),
        """
        #2 +_y
         <unobservable: absent>
        ├─#0 x
        │  <unobservable: absent>
        └─#1 1
        """,
    )


# -- cost


def wide_graph(count):
    """About ``count`` nodes over 20 leaves, all of which the caps would let be virtual."""
    leaves = [wb.parameter(np.full(3, 0.1 * i, np.float32), f"p{i}") for i in range(20)]
    level = [leaves[i % 20] * leaves[i // 20] + float(i % 5) for i in range(count // 4)]
    while len(level) > 1:
        level = [
            wb.tanh(pair[0] - pair[1]) if len(pair) == 2 else pair[0]
            for pair in (level[i : i + 2] for i in range(0, len(level), 2))
        ]
    return level[0]


def test_a_tree_of_1000_nodes_compiles_once_a_kernel_a_node():
    root = wide_graph(1000)
    order = topological_order([root])
    assert len(order) > 900
    context, backend = counting_context()
    with wb.settings(
        max_visits=10**6, max_inline_fanin=-1, max_inline_cost=10**9, max_shared_cost=10**9
    ):
        ctx, routine = context.compile([root.sum()])
    ctx = ctx.run(routine)
    backend.programs.clear()
    readings = [verdict.reading for verdict in ctx.observabilities(order)]
    text = tree_text(ctx, root)
    assert len(backend.programs) == 1
    assert "unobservable" not in text
    # Of each node no more than its own statement: large kernels take seconds to compile.
    (program,) = backend.programs
    assert len(program.kernels) <= readings.count(Reading.RECOMPUTABLE)


def test_a_tree_of_stored_values_compiles_nothing():
    context, backend = counting_context()
    y, grads = product_and_sum()
    ctx = compiled([*topological_order([y]), *grads.values()], context)
    backend.programs.clear()
    assert "8.00" in tree_text(ctx, y, grads=grads)
    assert backend.programs == []


def test_a_chain_deeper_than_pythons_stack_is_drawn():
    x = wb.parameter(1.0, "x")
    y = x
    for _ in range(3000):
        y = -y
    ctx = Context.interpreter()
    assert len(tree_text(ctx, y, with_value=False).splitlines()) == 3001
    assert "#3000 neg" in tree_text(ctx, y)


def test_labels_are_escaped():
    x = wb.parameter(1.0, "x\n\x1b[2J")
    text = tree_text(Context.interpreter(), x)
    assert text.splitlines()[0] == r"#0 x\n\x1b[2J non-emb"
