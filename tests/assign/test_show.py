from collections.abc import Callable

import numpy as np
import pytest

from tests.growth import assert_linear
from workbench.assign.assignment import Assignment
from workbench.assign.expression import Apply, ExtentNumber, Number, Read, Reduce
from workbench.assign.from_graph import computation
from workbench.assign.index import Affine, Axis, at
from workbench.assign.show import axis_name, node_names, show_computation, show_statement
from workbench.graph.composite import cross_entropy, softmax
from workbench.graph.dtype import DType
from workbench.graph.elementwise import relu, sin
from workbench.graph.extent import batch
from workbench.graph.gradient import backward
from workbench.graph.indexing import scatter_add, take
from workbench.graph.leaf import input_, iota, parameter
from workbench.graph.movement import concat, flip, pad, stack
from workbench.graph.random import normal, uniform
from workbench.graph.tensor import Tensor, make

Golden = Callable[[str, str], None]


def weights(label: str, *shape: int) -> Tensor:
    return parameter(np.zeros(shape, np.float32), label)


def test_the_text_of_a_classifier_and_its_training_step(golden: Golden):
    x, labels = input_("x", (batch, 8)), input_("labels", (batch,), "int32")
    rate = input_("rate", ())
    params = [weights("w1", 8, 4), weights("b1", 4), weights("w2", 4, 3), weights("b2", 3)]
    w1, b1, w2, b2 = params
    hidden = relu(x @ w1 + b1).named("hidden")
    loss = cross_entropy(hidden @ w2 + b2, labels).named("loss")
    updates = {p: p - g * rate for p, g in backward(loss, params).items()}
    golden("assign/classifier_step", show_computation(computation([loss], updates)))


def test_the_text_of_softmax(golden: Golden):
    golden("assign/softmax", show_computation(computation([softmax(input_("x", (batch, 10)))])))


def test_the_text_of_parts_and_joins(golden: Golden):
    x, y = input_("x", (batch, 6)), input_("y", (batch, 2))
    joined = concat([x[:, 1:3], y], 1).named("joined")
    outputs = [
        pad(joined, (0, 2), (batch, 8)),
        flip(x, 1),
        stack([y, y], 1),
        x[:, 2],
        x.reshape(-1, 2, 3).transpose(2, 0, 1),
        x[:, None] + y.reshape(-1, 2, 1),
    ]
    golden("assign/parts_and_joins", show_computation(computation(outputs)))


def test_the_text_of_rows_by_number(golden: Golden):
    table, rows = weights("table", 9, 4), input_("rows", (batch, 2), "int32")
    loss = (take(table, rows) * 2.0).sum()
    gradient = backward(loss, [table])[table].named("gradient")
    counts = scatter_add(5, rows.reshape(-1), iota((batch * 2,), 0)).named("counts")
    golden("assign/rows_by_number", show_computation(computation([loss, gradient, counts])))


def test_the_text_of_chance_and_extremes(golden: Golden):
    x = input_("x", (batch, 5))
    noise = uniform((batch, 5), seed=3) + normal((batch, 5), seed=3, counter=7)
    outputs = [(x + noise).argmax(-1), x.min((0, 1)), x.mean(0), (x > 0).astype("int32")]
    golden("assign/chance_and_extremes", show_computation(computation(outputs)))


def test_the_text_of_leaves_that_change_places(golden: Golden):
    a, b = weights("a", 2, 2), weights("b", 2, 2)
    view = a.reshape(4)
    made = computation([view], {a: b, b: a})
    golden("assign/leaves_that_change_places", show_computation(made))


def test_the_text_is_the_same_for_the_same_program():
    texts = {show_computation(computation([softmax(input_("x", (3, 4)))])) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("w", "w"),
        ("layers.0/weight", "layers.0/weight"),
        ("größe", "größe"),
        ("two words", "'two words'"),
        ("x[i] = 3", "'x[i] = 3'"),
        ("line\nbreak", r"'line\nbreak'"),
        ("1st", "'1st'"),
        ("", "parameter"),
    ],
)
def test_a_label_that_does_not_read_as_a_name_is_quoted(label: str, shown: str):
    leaf = weights(label, 2)
    assert node_names(computation([leaf]))[leaf] == shown


def test_names_are_unique_even_where_labels_look_numbered():
    leaves = [weights(label, 2) for label in ("w", "w2", "w", "w", "w2")]
    names = node_names(computation(leaves))
    assert [names[leaf] for leaf in leaves] == ["w", "w2", "w3", "w4", "w22"]


def test_naming_takes_linear_time():
    def prepare(length: int) -> Callable[[], None]:
        y = input_("x", (3,))
        for _ in range(length):
            y = sin(y)
        made = computation([y])

        def name() -> None:
            assert len(set(node_names(made).values())) == length + 1

        return name

    assert_linear(prepare)


def test_indices_show_offsets_and_factors():
    x = input_("x", (9, 9))
    i, j = Axis(3), Axis(4)
    target = make("y", (x,), (3, 4), DType.F32)
    index = (Affine(((i, -1), (j, 2)), 3), Affine(((j, -2),), 8))
    statement = Assignment(target, (at(i), at(j)), (i, j), Read(x, index))
    shown = show_statement(statement, {x: "x", target: "y"})
    assert shown == "y[i, j] = x[3 - i + 2*j, 8 - 2*j]   for i < 3, j < 4"


def test_a_reduction_inside_a_value_names_its_axes():
    x = input_("x", (3, 4))
    i, k = Axis(3), Axis(4)
    target = make("y", (x,), (3,), DType.F32)
    total = Reduce("add", (k,), Read(x, (at(i), at(k))), DType.F32)
    size = ExtentNumber(batch * 2, DType.F32)
    scaled = Apply("mul", (size, Number(0.1, DType.F32)), DType.F32)
    statement = Assignment(target, (at(i),), (i,), Apply("div", (total, scaled), DType.F32))
    shown = show_statement(statement, {x: "x", target: "y"})
    assert shown == "y[i] = (add[j < 4](x[i, j]) / (extent(batch*2) * 0.1))   for i < 3"


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (float(np.float32(0.1)), DType.F32, "0.1"),
        (0.1, DType.F64, "0.1"),
        (-0.0, DType.F32, "-0.0"),
        (float("inf"), DType.F32, "inf"),
        (float("nan"), DType.F64, "nan"),
        (7, DType.I64, "7"),
        (True, DType.BOOL, "True"),
    ],
)
def test_a_number_shows_the_shortest_digits_of_its_type(value: float, dtype: DType, shown: str):
    target = make("y", (), (), dtype)
    assert show_statement(Assignment(target, (), (), Number(value, dtype)), {target: "y"}) == (
        f"y = {shown}"
    )


def test_axes_beyond_the_alphabet_have_names_too():
    names = [axis_name(i) for i in range(40)]
    assert len(set(names)) == 40
    assert names[:3] == ["i", "j", "k"]
