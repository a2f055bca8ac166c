import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import shapes
from workbench.data.dataset import Dataset
from workbench.errors import DataError, DTypeError, ShapeError
from workbench.graph.bounds import Span, index_bounds
from workbench.graph.composite import cross_entropy, cross_entropy_rows
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.gradient import backward
from workbench.graph.indexing import one_hot, scatter_add, take
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train import fit as training
from workbench.train.config import Config
from workbench.train.optimizer import sgd
from workbench.train.run import Run
from workbench.train.step import default_step


def tensor(shape=(2, 3), dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


@given(shape=shapes(least_rank=1), chosen=shapes(most_rank=2), seed=st.integers(0, 999))
def test_taking_rows_is_numpys_take(shape, chosen, seed: int):
    rng = np.random.default_rng(seed)
    table, indices = rng.normal(size=shape), rng.integers(0, shape[0], chosen)
    (found,) = evaluate([take(parameter(table), constant(indices))], {})
    np.testing.assert_array_equal(found, table[indices])


@given(shape=shapes(least_rank=1), depth=st.integers(0, 3), seed=st.integers(0, 999))
def test_scattered_rows_add_up(shape: tuple[int, ...], depth: int, seed: int):
    rng = np.random.default_rng(seed)
    depth = min(depth, len(shape))
    updates, indices = rng.normal(size=shape), rng.integers(0, 3, shape[:depth])
    expected = np.zeros((3, *shape[depth:]))
    np.add.at(expected, indices, updates)
    (found,) = evaluate([scatter_add(3, constant(indices), parameter(updates))], {})
    np.testing.assert_allclose(found, expected)


def test_shapes_follow_the_indices_and_the_table():
    assert take(tensor((9, 4)), tensor((batch, 2), "int32")).shape == (batch, 2, 4)
    assert take(tensor((batch, 4)), tensor((3,), "int64")).shape == (3, 4)
    assert take(tensor((9, 4), "bool"), tensor((), "int64")).dtype is DType.BOOL
    assert scatter_add(5, tensor((batch,), "int32"), tensor((batch, 4))).shape == (5, 4)
    assert scatter_add(batch, tensor((3,), "int32"), tensor((3, 4))).shape == (batch, 4)


def test_indices_are_whole_numbers():
    for dtype in ("float32", "bool", "uint32"):
        wrong = tensor((2,), dtype, "i")
        with refused(DTypeError, "take:", "`i`", dtype):
            take(tensor(), wrong)
        with refused(DTypeError, "scatter_add:", "`i`", dtype):
            scatter_add(3, wrong, tensor())
        with refused(DTypeError, "one_hot:", "`i`", dtype):
            one_hot(wrong, 3)


def test_a_table_has_rows():
    with refused(ShapeError, "take:", "`s` of shape ()"):
        take(tensor((), label="s"), constant([0]))
    with refused(ShapeError, "take:", "no rows"):
        take(tensor((0, 3)), constant([0]))
    assert take(tensor((0, 3)), tensor((0,), "int32")).shape == (0, 3)


def test_every_index_has_its_update():
    with refused(ShapeError, "scatter_add:", "`u` of shape (2, 3)", "`i` of shape (3,)"):
        scatter_add(4, tensor((3,), "int32", "i"), tensor(label="u"))
    with refused(ShapeError, "scatter_add:", "no rows"):
        scatter_add(0, tensor((2,), "int32"), tensor())


@pytest.mark.parametrize("dtype", DType)
def test_rows_that_were_added_have_the_type_of_a_sum(dtype: DType):
    updates = tensor((2, 3), dtype.value)
    assert scatter_add(4, tensor((2,), "int32"), updates).dtype is updates.sum().dtype


@given(labels=st.lists(st.integers(-2, 5), min_size=1, max_size=6))
def test_one_hot_rows_have_a_one_at_the_label_or_none(labels: list[int]):
    (found,) = evaluate([one_hot(constant(labels), 4, "float64")], {})
    expected = np.equal.outer(labels, np.arange(4)).astype(np.float64)
    np.testing.assert_array_equal(found, expected)


def test_one_hot_rows_have_the_shape_of_the_labels_and_a_fixed_number_of_classes():
    labels = tensor((batch, 2), "int32", "labels")
    assert one_hot(labels, 10).shape == (batch, 2, 10)
    assert one_hot(labels, 10, "int64").dtype is DType.I64
    with refused(ShapeError, "one_hot:", "`labels`", "batch"):
        one_hot(labels, batch)  # pyright: ignore[reportArgumentType]
    with refused(ShapeError, "-1"):
        one_hot(labels, -1)


def test_the_bound_of_an_index_is_the_least_extent_it_chooses_from():
    labels, rows = tensor((batch,), "int32", "labels"), tensor((batch,), "int32", "rows")
    wide, narrow = parameter(np.ones((9, 2))), parameter(np.ones((4, 2)))
    wanted = [
        take(wide, labels),
        take(narrow, labels.reshape(-1, 1)),
        scatter_add(7, rows[:].astype("int64"), tensor((batch, 3))),
        one_hot(labels, 6),
    ]
    assert index_bounds(wanted, [labels, rows]) == {
        labels: Span(4, from_end=False),
        rows: Span(7, from_end=True),
    }


def test_an_index_that_is_computed_has_no_bound():
    labels = tensor((batch,), "int32", "labels")
    table = parameter(np.ones((4, 2)))
    assert index_bounds([take(table, labels + 1)], [labels]) == {}


CONTEXTS = {"cpu": Context.cpu, "interpreter": Context.interpreter}


def computed(context, output, feeds):
    context, routine = CONTEXTS[context]().compile([output])
    return context.set_values(feeds).run(routine).get_values(routine.outputs[0])


@pytest.mark.parametrize("known", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("context", CONTEXTS)
@given(rows=st.integers(1, 5), chosen=shapes(most_rank=2), seed=st.integers(0, 999))
def test_a_negative_index_counts_from_the_end_forwards_and_backwards(
    context, known, rows: int, chosen, seed: int
):
    rng = np.random.default_rng(seed)
    table, indices = rng.normal(size=(rows, 2)), rng.integers(-rows, rows, chosen)
    leaf, given = parameter(table), input_("i", chosen, "int64")
    index = constant(indices) if known else given + 0
    taken = take(leaf, index)
    weights = rng.normal(size=(*chosen, 2))
    slope = backward((taken * constant(weights)).sum(), [leaf])[leaf]
    feeds = {} if known else {given: indices}
    np.testing.assert_array_equal(computed(context, taken * 1.0, feeds), table[indices])
    expected = np.zeros_like(table)
    np.add.at(expected, indices, weights)
    np.testing.assert_allclose(computed(context, slope, feeds), expected)
    np.testing.assert_allclose(
        computed(context, scatter_add(rows, index, constant(weights)), feeds), expected
    )


@pytest.mark.parametrize(
    ("look_up", "name"),
    [
        (lambda i: take(tensor((4, 2)), i), "take"),
        (lambda i: scatter_add(4, i, tensor((3, 2))), "scatter_add"),
        (lambda i: cross_entropy_rows(tensor((3, 4)), i), "cross_entropy"),
    ],
)
@pytest.mark.parametrize("moved", [lambda i: i, lambda i: i.astype("int32").reshape(3)])
def test_a_constant_index_that_is_outside_is_refused_while_the_graph_is_written(
    look_up, name, moved
):
    look_up(moved(constant([0, 3, 1])))
    with refused(DataError, f"{name}: the index[1] is 4", "0 to 3"):
        look_up(moved(constant([0, 4, 1])))
    with refused(DataError, f"{name}: the index[2] is -5", "0 to 3"):
        look_up(moved(constant([0, 1, -5])))
    if name == "cross_entropy":
        with refused(DataError, "the index[2] is -1", "0 to 3"):
            look_up(moved(constant([0, 1, -1])))


def test_an_input_that_is_outside_is_refused_before_a_run_and_nothing_is_written():
    table, rows = parameter(np.arange(8.0).reshape(4, 2)), input_("rows", (batch,), "int32")
    total = parameter(np.zeros(2))
    taken = take(table, rows.reshape(-1, 1)).sum((0, 1))
    context, routine = Context.cpu().compile([taken], updates={total: total + taken})
    context = context.set_values({rows: [0, -1]}).run(routine)
    np.testing.assert_array_equal(context.get_values(total), [6.0, 8.0])
    wrong = context.set_values({rows: [0, 1, 4]})
    for _ in range(2):
        with refused(DataError, "`rows`[2] is 4", "0 to 3"):
            wrong.run(routine)
    np.testing.assert_array_equal(wrong.get_values(total), [6.0, 8.0])
    mended = wrong.set_values({rows: [3]}).run(routine)
    np.testing.assert_array_equal(mended.get_values(total), [12.0, 15.0])


@pytest.mark.parametrize("labels", [[0, -1], [0, 3]])
def test_labels_in_data_that_are_no_class_are_refused_at_every_entrance(labels):
    x, y = np.ones((2, 3), np.float32), np.array(labels)
    params = {"w": np.ones((3, 3), np.float32)}
    run = Run(params, sgd(params), Config(1, 2, 0.1, 1, verbose=False))

    def loss(p, x, y):
        return cross_entropy(x @ p["w"], y)

    wrong = f"y[1] is {labels[1]}"
    with refused(DataError, wrong):
        training.fit(
            run,
            [],
            Dataset(x, y),
            None,
            lambda p, o, x, y, lr: default_step(p, o, x, y, lr, loss),
        )
    with refused(DataError, wrong):
        training.evaluate(run, Dataset(x, y), lambda p, x, y: {"loss": loss(p, x, y)})
    given = input_("y", (2,), "int64")
    of_inputs = loss({"w": constant(params["w"])}, constant(x), given)
    context, routine = Context.cpu().compile([of_inputs])
    with refused(DataError, wrong.replace("y", "`y`")):
        context.set_values({given: y}).run(routine)
