from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import assert_linear
from tests.oracle.numpy_assign import run
from tests.oracle.numpy_graph import OPERATIONS, evaluate
from tests.refusal import refused
from tests.strategies import random_graph
from workbench.assign.assignment import Assignment, View
from workbench.assign.expression import Apply, Position, Read
from workbench.assign.from_graph import (
    LEAVES,
    computation,
    operations_with_translations,
)
from workbench.assign.verify import verify
from workbench.errors import CompileError, GraphError
from workbench.graph.elementwise import sin
from workbench.graph.extent import batch
from workbench.graph.gradient import backward
from workbench.graph.leaf import constant, input_, merge_buffer, parameter
from workbench.graph.leaf import state as state_leaf
from workbench.graph.random import uniform
from workbench.graph.tensor import Tensor, make

# The oracles add in the same precision, in different orders.
RTOL, ATOL = 1e-5, 1e-6


def state(label: str, *numbers: float) -> tuple[Tensor, np.ndarray]:
    value = np.array(numbers)
    return parameter(value, label), value


def after(outputs: list[Tensor], updates: dict[Tensor, Tensor], *wanted: Tensor) -> list[list]:
    """Return the values of ``wanted`` after everything ran, from the parameters' own values."""
    made = computation(outputs, updates)
    verify(made)
    memory = run(made, {})
    return [memory[node].tolist() for node in wanted]


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from(["float32", "float64"]))
def test_assignments_mean_what_the_graph_means(seed: int, dtype: str):
    outputs, feeds = random_graph(seed, dtype)
    made = computation(outputs)
    verify(made)
    memory = run(made, feeds)
    for node, expected in zip(outputs, evaluate(outputs, feeds), strict=True):
        assert memory[node].dtype == expected.dtype
        np.testing.assert_allclose(memory[node], expected, rtol=RTOL, atol=ATOL, err_msg=repr(node))


def test_every_operation_that_the_oracle_knows_has_a_translation():
    assert operations_with_translations() == OPERATIONS


def test_an_operation_without_a_translation_is_named():
    x = input_("x", (3,))
    with refused(CompileError, "`riddle`"):
        computation([make("riddle", (x,), x.shape, x.dtype)])


def test_inputs_are_the_leaves_in_order_of_use_each_once():
    w, x, table = parameter(np.ones(3), "w"), input_("x", (3,), "float64"), constant(np.ones(3))
    kept = state_leaf("kept", (3,), "float64")
    came = merge_buffer(x)
    made = computation([x * w + table * w + kept + came], name="step")
    assert made.inputs == (x, w, table, kept, came)
    assert (made.name, made.updates) == ("step", ())
    assert {leaf.op for leaf in made.inputs} == set(LEAVES)


def test_a_leaf_that_is_only_written_is_an_input_once():
    (a, _), (b, _), (c, _) = (state(name, 1.0) for name in "abc")
    made = computation([], {b: a * 2.0, a: a * 3.0, c: a})
    assert made.inputs == (a, b, c)
    assert made.updates == (b, a, c)


def test_new_values_are_computed_from_the_old_ones_whatever_the_order():
    (a, _), (b, _) = state("a", 1.0, 2.0), state("b", 10.0, 20.0)
    for updates in ({a: a + b, b: a - b}, {b: a - b, a: a + b}):
        assert after([], updates, a, b) == [[11, 22], [-9, -18]]


def test_two_leaves_can_be_swapped():
    (a, _), (b, _) = state("a", 1.0), state("b", 2.0)
    assert after([], {a: b, b: a}, a, b) == [[2], [1]]


def test_three_leaves_can_be_turned_around():
    (a, _), (b, _), (c, _) = state("a", 1.0), state("b", 2.0), state("c", 3.0)
    assert after([], {a: b, b: c, c: a}, a, b, c) == [[2], [3], [1]]


def test_a_view_of_an_updated_leaf_keeps_the_old_value():
    w, flat = parameter(np.array([[1.0, 2.0], [3.0, 4.0]]), "w"), parameter(np.zeros(4), "flat")
    view = w.reshape(4)
    found = after([view], {w: w * 10.0, flat: view}, view, flat, w)
    assert found == [[1, 2, 3, 4], [1, 2, 3, 4], [[10, 20], [30, 40]]]


def test_a_view_of_a_view_does_too():
    w = parameter(np.arange(8.0), "w")
    view = w.reshape(2, 4).reshape(2, 2, 2)
    assert after([view], {w: w * 0.0}, view) == [np.arange(8.0).reshape(2, 2, 2).tolist()]


def test_nothing_is_copied_that_is_not_needed_afterwards():
    w = parameter(np.ones((2, 2)), "w")
    loss = sin(w.reshape(4)).sum()
    made = computation([loss], {w: w - backward(loss, [w])[w]})
    assert "copy" not in {statement.target.op for statement in made.statements}


def test_an_output_that_is_a_leaf_is_read_as_state():
    (w, _) = state("w", 1.0)
    assert after([w], {w: w + 1.0}, w) == [[2]]


def test_an_update_by_itself_stores_nothing():
    (w, _) = state("w", 1.0)
    made = computation([], {w: w})
    assert made.statements == ()
    assert made.updates == (w,)


@pytest.mark.parametrize("target", [constant(np.ones(2)), sin(parameter(np.ones(2), "w"))])
def test_only_parameters_and_inputs_are_updated(target: Tensor):
    with refused(GraphError, target.op, "cannot be updated"):
        computation([], {target: target * 2.0})


def test_an_update_keeps_shape_and_type():
    w = parameter(np.ones(2), "w")
    for new in (w.sum(), w.astype("float32")):
        with refused(GraphError, "the update of `w` of shape (2,)"):
            computation([], {w: new})


def test_each_node_is_one_assignment_and_scatters_and_joins_are_few():
    x, n = input_("x", (3, 4)), input_("n", (3,), "int32")
    kinds = {
        "one": sin(x),
        "pad": make("pad", (x,), (5, 4), x.dtype, {"before": (1, 0), "shape": (5, 4)}),
        "scatter": make("scatter_add", (n, x), (7, 4), x.dtype, {"rows": 7}),
        "concat": make("concat", (x, x), (6, 4), x.dtype, {"axis": 0}),
    }
    lengths = {kind: len(computation([node]).statements) for kind, node in kinds.items()}
    assert lengths == {"one": 1, "pad": 2, "scatter": 2, "concat": 2}


def test_new_axes_of_extent_one_are_an_index_map_and_other_shapes_a_view():
    x = input_("x", (batch, 6))
    (spread,) = computation([x.reshape(-1, 1, 6, 1)]).statements
    assert isinstance(spread, Assignment)
    (view,) = computation([x.reshape(-1, 2, 3)]).statements
    assert isinstance(view, View)
    assert (view.target.shape, view.source) == ((batch, 2, 3), x)


def test_a_random_number_is_addressed_by_its_row_major_position():
    (statement,) = [
        s
        for s in computation([uniform((batch, 3, 5), seed=1)]).statements
        if s.target.op == "uniform"
    ]
    assert isinstance(statement, Assignment)
    assert isinstance(statement.value, Apply)
    position = statement.value.args[-1]
    assert isinstance(position, Position)
    assert [c for _, c in position.index.terms] == [15, 5, 1]


def test_statements_tell_their_axes_apart():
    x = input_("x", (batch, 4))
    (total,) = computation([x.sum(1)]).statements
    assert isinstance(total, Assignment)
    assert [a.extent for a in total.output_axes] == [batch]
    assert [a.extent for a in total.combined_axes] == [4]
    assert total.is_identity
    assert [read.node for read in total.reads()] == [x]


def test_a_block_of_a_join_is_not_the_whole_target():
    x = input_("x", (2, 3))
    joined = make("concat", (x, x), (4, 3), x.dtype, {"axis": 0})
    first, second = computation([joined]).statements
    assert isinstance(first, Assignment)
    assert isinstance(second, Assignment)
    assert (first.is_identity, second.is_identity) == (False, False)


def test_the_written_row_of_a_scatter_is_among_its_reads():
    x, n = input_("x", (3, 4)), input_("n", (3,), "int32")
    scatter = computation([make("scatter_add", (n, x), (7, 4), x.dtype, {"rows": 7})]).statements[1]
    assert isinstance(scatter, Assignment)
    assert [read.node for read in scatter.reads()] == [x, n]
    assert (scatter.combine, scatter.fresh, scatter.is_identity) == ("add", False, False)


def test_a_chain_of_ten_thousand_operations_is_translated_in_linear_time():
    def prepare(length: int) -> Callable[[], None]:
        x = input_("x", (3,))
        y = x
        for _ in range(length):
            y = sin(y)

        def translate() -> None:
            made = computation([backward(y.sum(), [x])[x]])
            assert len(made.statements) > 2 * length

        return translate

    assert_linear(prepare)


def test_a_read_has_the_type_of_its_node():
    assert Read(input_("n", (), "int32"), ()).dtype.value == "int32"
