"""Numbers of a program are arguments of its kernels: another value needs no other kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.loops.test_show import lowered
from workbench.backends.numba_cpu.backend import kernel_store
from workbench.backends.numba_cpu.render import render
from workbench.loops.constants import BAKED

X = wb.input("x", (wb.batch, 64))
N = wb.input("n", (wb.batch, 64), "int32")


def texts(outputs):
    return [render(kernel) for kernel in lowered(outputs).kernels]


@pytest.mark.parametrize(
    "write",
    [
        lambda a: X * a + 1.0,
        lambda a: wb.tanh(X + a).sum(0),
        lambda a: wb.where(a < X, X, -X),
        lambda a: wb.maximum(X, a) ** a,
        lambda a: (X.astype("float64") * a).mean(),
        lambda a: N * int(a * 1000),
        lambda a: N.astype("int64") + int(a * 1e12),
        lambda a: wb.uniform((64,), seed=int(a * 1e6)),
        lambda a: wb.normal((64,), seed=7, counter=int(a * 1e6)),
        lambda a: wb.softmax(X / a),
    ],
)
def test_programs_that_differ_in_a_number_are_the_same_text(write):
    assert texts([write(0.3)]) == texts([write(0.7)])


def test_a_number_that_is_used_twice_is_passed_once():
    (kernel,) = lowered([wb.tanh(X * 0.3) + 0.3]).kernels
    assert [constant.value for constant in kernel.constants] == [float(np.float32(0.3))]


def test_loops_say_what_is_passed():
    assert "c0 = 0.30000001192092896" in wb.explain(X * 0.3)
    assert "# c0 = 0.30000001192092896\ndef kernel" in wb.explain(X * 0.3, stage="kernels")


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.5, 2.0, float("inf"), float("nan")])
def test_numbers_that_the_optimiser_makes_something_of_stay_in_the_text(value):
    (kernel,) = lowered([wb.tanh(X + value)]).kernels
    assert not kernel.constants


def computed(context, outputs, feeds):
    context, routine = context.compile(outputs)
    context = context.set_values(feeds).run(routine)
    return [context.get_values(node) for node in routine.outputs]


@pytest.mark.parametrize("context", [wb.Context.cpu, wb.Context.interpreter], ids=["cpu", "interp"])
@given(
    narrow=st.floats(width=32, allow_subnormal=False),
    wide=st.floats(allow_subnormal=False),
    whole=st.integers(-(2**31), 2**31 - 1),
    long=st.integers(-(2**63), 2**63 - 1),
)
def test_every_number_arrives_with_its_bits(context, narrow, wide, whole, long):
    float32, float64 = wb.input("a", (3,)), wb.input("b", (3,), "float64")
    int32, int64 = wb.input("i", (3,), "int32"), wb.input("j", (3,), "int64")
    true = wb.input("t", (3,), "bool")
    outputs = [
        wb.where(true, narrow, float32),
        wb.where(true, wide, float64),
        wb.where(true, whole, int32),
        wb.where(true, long, int64),
    ]
    feeds = {node: np.zeros(3, node.dtype.numpy) for node in (float32, float64, int32, int64)}
    got = computed(context(), outputs, feeds | {true: np.ones(3, bool)})
    for array, number in zip(got, (narrow, wide, whole, long), strict=True):
        wanted = np.full(3, number, array.dtype)
        if np.isnan(wanted).all():
            assert np.isnan(array).all()  # of NaN any bits will do
        else:
            assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("number", [BAKED, BAKED + 1, -BAKED - 1])
def test_whole_numbers_are_the_same_written_and_passed(number):
    x = wb.input("x", (5,), "int32")
    given = np.arange(5, dtype=np.int32)
    for context in (wb.Context.cpu(), wb.Context.interpreter()):
        (got,) = computed(context, [x * number], {x: given})
        np.testing.assert_array_equal(got, given * number)


OPTIMIZERS = {
    "sgd": (wb.sgd, ("momentum", "weight_decay")),
    "momentum": (wb.momentum, ("mu",)),
    "adam": (wb.adam, ("b1", "b2", "eps", "weight_decay")),
    "adamw": (wb.adamw, ("b1", "b2", "eps", "weight_decay")),
    "rmsprop": (wb.rmsprop, ("decay", "eps", "momentum", "weight_decay")),
    "lion": (wb.lion, ("b1", "b2", "weight_decay")),
}


@pytest.mark.parametrize(
    ("name", "hyper"), [(n, h) for n, (_, hypers) in OPTIMIZERS.items() for h in hypers]
)
def test_a_hyper_parameter_that_is_changed_compiles_nothing(name, hyper):
    rows = wb.data.blobs(32, 3, features=4, seed=1, spread=1.0)

    def train(value):
        params = {"w": wb.he_normal(4, 3, seed=1)}
        optimizer = OPTIMIZERS[name][0](params, **{hyper: value})
        run = wb.Run(params, optimizer, wb.Config(1, 16, 0.01, 7, verbose=False))
        wb.fit(
            run,
            [],
            rows,
            None,
            lambda p, o, x, y, lr: wb.default_step(
                p, o, x, y, lr, lambda p, x, y: wb.cross_entropy(x @ p["w"], y)
            ),
        )

    train(0.011)
    store = kernel_store()
    before = store.compiled + store.loaded
    train(0.013)
    assert store.compiled + store.loaded == before
