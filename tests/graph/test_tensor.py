import copy
import dataclasses
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.refusal import refused
from workbench.errors import GraphError, ShapeError, TracingError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import add, exp, where
from workbench.graph.extent import batch
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import (
    Tensor,
    make,
    make_leaf,
    printable,
    topological_order,
)


@pytest.fixture
def x() -> Tensor:
    return parameter(np.ones((2, 3), np.float32), "x")


@pytest.fixture
def rows() -> Tensor:
    return input_("rows", (batch, 3))


def test_equal_structure_is_one_object(x: Tensor):
    assert exp(x) + 1.0 is exp(x) + 1.0


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x + x,
        lambda x: x.sum(0),
        lambda x: x.sum((0, 1)),
        lambda x: x.sum(1).named("row sums"),
        lambda x: x.astype("float64").sum(1),
    ],
)
def test_another_operation_attribute_label_or_type_is_another_object(x: Tensor, other):
    assert other(x) is not x.sum(1)


def test_two_leaves_of_one_shape_are_two_values():
    value = np.ones(3)
    assert parameter(value, "p") is not parameter(value, "p")
    assert input_("i", (3,)) is not input_("i", (3,))


def test_constants_that_print_alike_are_one_and_signed_zeros_are_two(x: Tensor):
    assert constant(float("nan")) is constant(float("nan"))
    assert constant(0.0) is not constant(-0.0)
    assert constant(1) is not constant(True)


def test_a_node_that_nobody_holds_is_forgotten(x: Tensor):
    uid = (x * 3.0).uid
    gc.collect()
    assert (x * 3.0).uid != uid


def test_many_threads_make_one_node():
    x = parameter(np.ones(3), "x")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: x * float(i % 50), range(2000)))
    assert len(set(made)) == 50


def test_nodes_cannot_be_changed(x: Tensor):
    with pytest.raises(dataclasses.FrozenInstanceError):
        x.shape = (9,)  # pyright: ignore[reportAttributeAccessIssue]
    assert x.shape == (2, 3)


def test_the_value_of_a_leaf_cannot_be_written(x: Tensor):
    assert x.value is not None
    with pytest.raises(ValueError, match="read-only"):
        x.value[0] = 7


def test_a_copy_of_a_node_is_the_node(x: Tensor):
    tree = {"x": x}
    assert copy.copy(x) is x
    assert copy.deepcopy(tree)["x"] is x


def test_a_node_is_not_pickled(x: Tensor):
    with refused(GraphError, "'x'", "pickled"):
        pickle.dumps(x)


def test_dicts_and_sets_tell_nodes_apart_by_identity(x: Tensor):
    nodes = [x, x + 1.0, x + 2.0]
    named = {node: i for i, node in enumerate(nodes)}
    assert [named[node] for node in nodes] == [0, 1, 2]
    assert x + 1.0 in set(nodes)
    assert x + 3.0 not in set(nodes)


def test_a_dict_may_hold_nodes_beside_small_integers(x: Tensor):
    mixed: dict[object, str] = dict.fromkeys(range(1, x.uid + 5), "number")
    mixed[x] = "node"
    assert mixed[x] == "node"
    assert mixed[x.uid] == "number"


def test_comparison_is_elementwise(x: Tensor):
    assert (x == 1.0).dtype is DType.BOOL
    assert (x != x).op == "not_equal"


def test_comparison_with_what_is_no_number_is_a_plain_answer(x: Tensor):
    assert (x == None) is False  # noqa: E711 - it is what is tested
    assert (x != "text") is True


@pytest.mark.parametrize(
    ("ask", "advice"),
    [
        (bool, "wb.where"),
        (lambda t: 1.0 if t > 0.0 else 2.0, "wb.where"),
        (lambda t: t in [t + 1.0], "`is`"),
        (float, "read it after the run"),
        (int, "read it after the run"),
        (lambda t: [10, 20][t], "wb.take"),
        (range, "wb.take"),
        (np.asarray, "wb.exp"),
        (np.exp, "wb.exp"),
    ],
)
def test_asking_for_a_value_while_tracing_is_refused_with_what_to_write_instead(ask, advice: str):
    with pytest.raises(TracingError, match="not known while a graph is built") as caught:
        ask(input_("flag", ()))
    assert "<Tensor" in caught.value.problem
    assert advice in caught.value.remedy


def test_rows_of_the_batch_are_neither_counted_nor_walked(rows: Tensor):
    for ask in (len, list, tuple):
        with refused(TracingError, "rows", "(batch, 3)"):
            ask(rows)


def test_rows_of_known_number_unpack(x: Tensor):
    first, second = x
    assert len(x) == 2
    assert first is x[0]
    assert second.shape == (3,)


def test_a_scalar_has_no_length():
    with refused(ShapeError, "no axes"):
        len(input_("s", ()))


def test_numpy_arrays_and_numbers_on_the_left_give_way(x: Tensor):
    ones = np.ones((2, 3), np.float32)
    assert (ones + x).shape == (2, 3)
    assert (np.float32(2) * x).dtype is DType.F32
    compared: object = ones < x
    assert isinstance(compared, Tensor)
    assert compared.op == "greater"
    assert (ones.T @ x).shape == (3, 3)


@pytest.mark.parametrize(
    ("expression", "op"),
    [
        (lambda x: -x, "neg"),
        (abs, "abs"),
        (lambda x: 1.0 + x, "add"),
        (lambda x: 1.0 - x, "sub"),
        (lambda x: 2.0 * x, "mul"),
        (lambda x: 2.0 / x, "div"),
        (lambda x: 2.0**x, "pow"),
        (lambda x: x**2.5, "pow"),
        (lambda x: x**2, "square"),
        (lambda x: x**0.5, "sqrt"),
        (lambda x: x ** np.float64(-1), "reciprocal"),
        (lambda x: ~(x > 0), "logical_not"),
        (lambda x: (x > 0) & (x < 1), "logical_and"),
        (lambda x: True | (x < 1), "logical_or"),
        (lambda x: x <= 1, "less_equal"),
        (lambda x: x >= 1, "greater_equal"),
        (lambda x: x.T, "transpose"),
        (lambda x: x[1:], "slice"),
    ],
)
def test_python_operators_are_graph_operations(x: Tensor, expression, op: str):
    assert expression(x).op == op


def test_plus_a_tensor_and_the_power_of_one_are_the_tensor(x: Tensor):
    assert +x is x
    assert x**1 is x


def test_methods_have_numpys_names_and_forms(x: Tensor):
    assert x.sum().shape == x.mean().shape == x.max().shape == x.min().shape == ()
    assert x.argmax(0).shape == (3,)
    assert x.reshape(3, 2) is x.reshape((3, 2))
    assert x.reshape(-1).shape == (6,)
    assert x[0, 0].reshape(1).reshape().shape == ()
    assert x.transpose() is x.transpose(1, 0) is x.transpose((1, 0)) is x.transpose(None)
    assert x.astype("float64").dtype is DType.F64


def test_a_label_is_kept_and_shown(x: Tensor):
    assert repr(exp(x).named("grown")) == "<Tensor exp 'grown' (2, 3) float32>"


def test_a_named_array_keeps_its_value():
    named = constant(np.array([1.0, 2.0])).named("table")
    assert named.label == "table"
    np.testing.assert_array_equal(named.value, [1.0, 2.0])


def test_parameters_and_inputs_keep_their_name(x: Tensor):
    with refused(GraphError, "'x'"):
        x.named("y")


def test_line_breaks_in_labels_are_escaped_in_texts():
    assert printable("a\nb\x1b[31m λ") == "a\\nb\\x1b[31m λ"
    evil = parameter(np.ones(2), "a\nb")
    with refused(ShapeError, "a\\nb"):
        _ = evil + np.ones(3)


def test_an_unknown_attribute_is_refused_naming_those_there_are(x: Tensor):
    with pytest.raises(GraphError, match="`size`") as caught:
        x.sum(1).attribute("size")
    assert "`axes`" in caught.value.remedy


def test_order_lists_operands_first_and_each_node_once(x: Tensor):
    y = exp(x)
    z = where(y > 0.0, y, x) * y
    order = topological_order([z, y])
    place = {node: i for i, node in enumerate(order)}
    assert len(place) == len(order)
    assert all(place[t] < place[node] for node in order for t in node.operands)


def test_order_does_not_pass_a_stop(x: Tensor):
    y = exp(x)
    order = topological_order([y + 1.0], stop=frozenset([y]))
    assert y in set(order)
    assert x not in set(order)


def test_a_chain_of_ten_thousand_operations_is_made_ordered_and_released(x: Tensor):
    y = x
    for _ in range(10_000):
        y = add(y, x)
    assert len(topological_order([y])) == 10_001
    del y
    gc.collect()


def test_a_result_that_would_hold_the_batch_twice_is_refused(rows: Tensor):
    left, right = rows.sum(1).reshape(-1, 1).named("left one"), rows.sum(1).named("right one")
    with refused(ShapeError, "add", "left one", "right one", "(batch, batch)"):
        _ = left + right


def test_make_leaf_and_make_sort_their_attributes():
    leaf = make_leaf("input", (2,), DType.F32, "x", attributes={"b": 1, "a": 2})
    assert leaf.attributes == (("a", 2), ("b", 1))
    node = make("probe", [leaf], (2,), DType.F32, {"z": 1, "a": 2})
    assert node is make("probe", (leaf,), (2,), DType.F32, {"a": 2, "z": 1})
