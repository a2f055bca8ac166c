from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConfigurationError, DTypeError, ShapeError, TracingError
from workbench.graph.composite import mse
from workbench.graph.extent import batch
from workbench.graph.leaf import input, parameter
from workbench.graph.tensor import topological_order
from workbench.train import tree
from workbench.train.optimizer import OptState, adam, apply, momentum, sgd
from workbench.train.step import default_step

# A different association of the same float64 formula, over 60 steps.
REPLAY = 1e-12
FACTORIES = {"sgd": sgd, "momentum": momentum, "adam": adam}


def leaves_of(values) -> list[Any]:
    return list(tree.flatten(values)[0])


def traced(values):
    """The tree with a parameter in the place of each array."""
    return tree.map_tree(parameter, values)


def start():
    return {"w": np.zeros(2), "b": np.zeros(())}


def replay(toy, evaluate, factory, lr, epochs):
    """Train the toy by a graph that was built once; return its epochs and last optimizer state."""
    params, opt = start(), factory(start())
    old_params, old_opt = traced(params), traced(opt)
    x, y = input("x", (batch, 2), "float64"), input("y", (batch,), "float64")
    rate = input("lr", (), "float64")
    result = default_step(
        old_params, old_opt, x, y, rate, lambda p, x, y: mse(x @ p["w"] + p["b"], y)
    )
    all_x, all_y = np.array(toy["x"]), np.array(toy["y"])
    log = []
    for order in toy["epoch_orders"][:epochs]:
        total = 0.0
        for at in range(0, len(order), toy["batch_size"]):
            rows = order[at : at + toy["batch_size"]]
            before = (old_params, old_opt, x, y, rate)
            values = (params, opt, all_x[rows], all_y[rows], np.float64(lr))
            leaves, fed = tree.flatten(before)[0], tree.flatten(values)[0]
            done = evaluate(result, dict(zip(leaves, fed, strict=True)), len(rows))
            params, opt = done.params, done.opt
            total += float(done.loss) * len(rows)
        log.append({"loss": total / len(order), **params})
    return log, opt


@pytest.mark.parametrize(
    ("trajectory", "factory", "lr"),
    [("adam20", adam, 0.05), ("sgd_lr001_5", sgd, 0.01), ("momentum09_lr001_5", momentum, 0.01)],
)
def test_the_linear_toy_is_replayed_epoch_by_epoch(toy, evaluate, trajectory, factory, lr):
    expected = toy[trajectory]
    log, _ = replay(toy, evaluate, factory, lr, len(expected))
    for found, row in zip(log, expected, strict=True):
        np.testing.assert_allclose(found["loss"], row["train_loss"], rtol=REPLAY)
        np.testing.assert_allclose(found["w"], row["w"], rtol=REPLAY)
        np.testing.assert_allclose(found["b"], row["b"], rtol=REPLAY)


def test_the_moments_and_the_count_of_adam_are_replayed(toy, evaluate):
    _, opt = replay(toy, evaluate, adam, 0.05, 20)
    expected = toy["adam20_opt"]
    for found, name in ((opt.m["w"], "m_w"), (opt.v["w"], "v_w"), (opt.m["b"], "m_b")):
        np.testing.assert_allclose(found, expected[name], rtol=REPLAY)
    np.testing.assert_allclose(opt.v["b"], expected["v_b"], rtol=REPLAY)
    assert int(opt.t) == expected["t"] == 60
    assert opt.t.dtype == np.int64


@given(
    g=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5),
    t=st.integers(0, 10**6),
    b1=st.floats(0, 0.99),
    b2=st.floats(0, 0.9999),
)
def test_adam_equals_its_textbook_formula(one_adam_step, g, t, b1, b2):
    gradient = np.array(g)
    p, m, v = np.linspace(-1, 1, len(g)), gradient / 3, gradient**2 / 7
    found = one_adam_step(p, gradient, m, v, t, b1, b2)
    m, v, t = b1 * m + (1 - b1) * gradient, b2 * v + (1 - b2) * gradient * gradient, t + 1
    step = 0.01 * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + 1e-8)
    # The parameter and the step may cancel: their own size is what the error is relative to.
    np.testing.assert_allclose(found, p - step, rtol=REPLAY, atol=REPLAY * np.abs(step).max())


@pytest.fixture(scope="session")
def one_adam_step(evaluate):
    def run(p, g, m, v, t, b1, b2):
        opt = OptState("adam", parameter(m), parameter(v), parameter(np.int64(t)), b1, b2, 1e-8)
        return evaluate(apply(parameter(p), parameter(g), opt, 0.01)[0], {})

    return run


def test_adam_divides_once_for_each_element():
    params = traced({"w": np.zeros(1000, np.float32)})
    grads = traced({"w": np.ones(1000, np.float32)})
    new_params, new_opt = apply(params, grads, traced(adam(params)), 0.1)
    nodes = topological_order(leaves_of((new_params, new_opt)))
    wide = [node.op for node in nodes if node.shape == (1000,)]
    assert wide.count("div") == 1
    assert wide.count("sqrt") == 1
    assert "pow" not in wide


def test_bias_corrections_are_scalars_of_float64_shared_by_parameters_of_one_type():
    params = traced([np.zeros(3, np.float32), np.zeros(4, np.float32), np.zeros(2, np.float64)])
    grads = traced([np.ones(3, np.float32), np.ones(4, np.float32), np.ones(2, np.float64)])
    new_params, _ = apply(params, grads, traced(adam(params)), 0.1)
    powers = [node for node in topological_order(leaves_of(new_params)) if node.op == "pow"]
    assert [(str(node.dtype), node.shape) for node in powers] == [("float64", ())] * 2


@pytest.mark.parametrize("kind", FACTORIES)
def test_each_parameter_keeps_its_own_type(evaluate, kind):
    values = {"wide": np.ones(2, np.float64), "narrow": np.ones((2, 2), np.float32)}
    params, opt = traced(values), traced(FACTORIES[kind](values))
    new_params, new_opt = evaluate(apply(params, params, opt, 0.1), {})
    assert {name: array.dtype for name, array in new_params.items()} == {
        "wide": np.float64,
        "narrow": np.float32,
    }
    moments, given_moments = (
        leaves_of((new_opt.m, new_opt.v)),
        leaves_of((opt.m, opt.v)),
    )
    assert [a.dtype for a in moments] == [t.dtype.numpy for t in given_moments]
    assert all((new_params[name] < values[name]).all() for name in values)


@pytest.mark.parametrize("kind", FACTORIES)
def test_an_update_keeps_the_structure_of_parameters_and_state(kind):
    params = traced({"layers": [{"w": np.zeros(2), "b": 0.0}], "scale": None})
    opt = traced(FACTORIES[kind](params))
    new_params, new_opt = apply(params, params, opt, 0.1)
    assert tree.flatten(new_params)[1] == tree.flatten(params)[1]
    assert tree.flatten(new_opt)[1] == tree.flatten(opt)[1]


def test_a_state_begins_at_zero_in_the_shapes_and_types_of_the_parameters():
    params = {"w": np.ones((2, 3), np.float32), "b": parameter(np.ones(3), "b"), "s": 1.5}
    opt = adam(params, b1=0.8, b2=0.99, eps=1e-6)
    assert (opt.b1, opt.b2, opt.eps) == (0.8, 0.99, 1e-6)
    assert {n: (a.shape, str(a.dtype)) for n, a in opt.m.items()} == {
        "w": ((2, 3), "float32"),
        "b": ((3,), "float64"),
        "s": ((), "float32"),
    }
    assert all(not leaf.any() for leaf in leaves_of(opt))
    assert leaves_of(opt.m)[0] is not leaves_of(opt.v)[0]


def test_hyper_parameters_are_structure_and_not_leaves():
    opt = adam({"w": np.zeros(2)})
    assert tree.paths(tree.flatten(opt)[1]) == ["m.w", "v.w", "t"]
    assert tree.flatten(opt)[1] != tree.flatten(adam({"w": np.zeros(2)}, b1=0.5))[1]


def test_plain_descent_remembers_nothing_and_does_not_count():
    opt = traced(sgd(start()))
    _, after = apply(traced(start()), traced(start()), opt, 0.1)
    assert after is opt
    assert (after.m, after.v) == (None, None)


def test_momentum_keeps_its_velocity_and_counts(evaluate):
    params, grads = traced({"w": np.array([1.0])}), traced({"w": np.array([2.0])})
    opt = traced(OptState(kind="momentum", m={"w": np.array([0.5])}, t=np.int64(4), mu=0.9))
    new_params, new_opt = evaluate(apply(params, grads, opt, 0.1), {})
    np.testing.assert_allclose(new_opt.m["w"], 0.9 * 0.5 - 0.1 * 2.0)
    np.testing.assert_allclose(new_params["w"], 1.0 + 0.25)
    assert int(new_opt.t) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rate_may_be_a_number_or_a_tensor_of_either_type(evaluate, dtype):
    params = traced({"w": np.ones(2)})
    rate = input("lr", (), dtype)
    by_number, _ = apply(params, params, traced(sgd(params)), 0.25)
    by_tensor, _ = apply(params, params, traced(sgd(params)), rate)
    expected = evaluate(by_number, {})["w"]
    np.testing.assert_array_equal(evaluate(by_tensor, {rate: np.array(0.25, dtype)})["w"], expected)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    params = traced(start())
    with pytest.raises(ConfigurationError, match="`adamax` is unknown") as caught:
        apply(params, params, OptState(kind="adamax"), 0.1)
    assert caught.value.remedy == "use one of adam, adamw, lion, momentum, rmsprop, sgd"


@pytest.mark.parametrize("make", FACTORIES.values())
@pytest.mark.parametrize("leaf", [np.zeros(2, np.int64), 0, True])
def test_a_parameter_without_a_gradient_is_refused_by_its_path(make, leaf):
    with pytest.raises(DTypeError, match=r"the parameter `layers\.1` is (int64|bool)"):
        make({"layers": [0.0, leaf]})


@pytest.mark.parametrize(
    "options", [{"b1": 1.0}, {"b2": -0.1}, {"b1": float("nan")}, {"eps": -1.0}, {"eps": np.inf}]
)
def test_adam_refuses_hyper_parameters_out_of_range(options):
    with pytest.raises(ConfigurationError, match=f"`{next(iter(options))}` must be"):
        adam(start(), **options)


def test_momentum_refuses_a_share_of_one():
    with pytest.raises(
        ConfigurationError, match=r"`mu` must be a number from 0 to below 1, got 1.0"
    ):
        momentum(start(), 1.0)


def test_gradients_of_another_structure_are_refused():
    params = traced(start())
    with pytest.raises(TracingError, match="`grads`, which goes with the parameters, has another"):
        apply(params, {"w": params["w"]}, traced(sgd(params)), 0.1)


def test_a_state_of_another_model_is_refused():
    params = traced(start())
    opt = traced(adam({"w": np.zeros(2)}))
    with pytest.raises(TracingError, match=r"`opt\.m`, .* missing keys 'b'"):
        apply(params, params, opt, 0.1)


def test_a_gradient_of_another_shape_is_refused_though_it_would_broadcast():
    params, grads = traced({"w": np.zeros((3, 2))}), traced({"w": np.zeros(2)})
    with pytest.raises(ShapeError, match=r"shape \(2,\).* its parameter .*\(3, 2\)"):
        apply(params, grads, traced(sgd(params)), 0.1)


def test_a_gradient_of_another_type_is_refused():
    params, grads = traced({"w": np.zeros(2)}), traced({"w": np.zeros(2, np.float32)})
    with pytest.raises(DTypeError, match=r"type float32, its parameter .* type float64"):
        apply(params, grads, traced(sgd(params)), 0.1)


@pytest.mark.parametrize(("shape", "dtype"), [((1,), "float64"), ((), "int64")])
def test_a_rate_that_is_no_floating_scalar_is_refused(shape, dtype):
    params = traced(start())
    with pytest.raises(ShapeError, match="the learning rate is `lr`"):
        apply(params, params, traced(sgd(params)), input("lr", shape, dtype))


def test_arrays_outside_a_graph_are_refused_by_path():
    params = traced(start())
    with pytest.raises(TracingError, match=r"`params\.b` is a `ndarray`, not a tensor"):
        apply(start(), start(), sgd(start()), 0.1)
    with pytest.raises(TracingError, match=r"`opt\.t` is a `ndarray`, not a tensor"):
        apply(params, params, OptState("momentum", m=params, t=np.zeros((), np.int64)), 0.1)
