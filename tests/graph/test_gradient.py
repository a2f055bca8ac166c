import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.growth import assert_linear
from tests.oracle.central_difference import check_gradients
from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import random_graph
from workbench.errors import GradientError, UnreachedParameterWarning
from workbench.graph import gradient as gradient_module
from workbench.graph.composite import cross_entropy
from workbench.graph.elementwise import relu, sin, stop_gradient
from workbench.graph.extent import batch
from workbench.graph.gradient import backward, backward_from, rule, value_and_grad
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import Tensor, make, topological_order


def vector(label: str = "x", size: int = 3) -> Tensor:
    return input_(label, (size,), "float64")


def values(tensors: list[Tensor], feeds: dict[Tensor, np.ndarray]) -> list[list[float]]:
    return [value.tolist() for value in evaluate(tensors, feeds)]


def test_the_gradient_has_the_shape_and_type_of_its_parameter():
    x, w = input_("x", (batch, 4)), parameter(np.ones((4, 3), np.float32), "w")
    b = parameter(np.zeros(3, np.float32), "b")
    loss = cross_entropy(relu(x @ w + b), input_("labels", (batch,), "int32"))
    for param, gradient in backward(loss, [w, b, x]).items():
        assert (gradient.shape, gradient.dtype) == (param.shape, param.dtype)


def test_gradients_of_all_uses_add_up():
    x = vector()
    gradient = backward((x * x * x + x).sum(), [x])[x]
    assert values([gradient], {x: np.array([1.0, 2.0, 3.0])}) == [[4.0, 13.0, 28.0]]


def test_the_gradient_of_the_loss_by_itself_is_one():
    loss = vector().sum()
    assert values([backward(loss, [loss])[loss]], {}) == [1.0]


@pytest.mark.parametrize("loss", [vector(), vector().astype("int64").sum(), input_("f", (batch,))])
def test_a_loss_is_a_floating_scalar(loss: Tensor):
    with pytest.raises(GradientError, match=r"the loss is .* not a floating scalar") as caught:
        backward(loss, [])
    assert "loss.mean()" in caught.value.remedy


def test_only_floating_tensors_have_gradients():
    n = input_("n", (3,), "int32")
    with refused(GradientError, "`n`", "int32", "cannot have a gradient"):
        backward((n.astype("float32") * 2.0).sum(), [n])


def test_a_parameter_out_of_reach_gets_zeros_and_a_warning_that_names_it():
    x, w = vector(), parameter(np.ones((2, 2)), "forgotten")
    with pytest.warns(UnreachedParameterWarning, match=r"`forgotten` of shape \(2, 2\)") as caught:
        gradients = backward(x.sum(), [x, w])
    assert values([gradients[x], gradients[w]], {}) == [[1, 1, 1], [[0, 0], [0, 0]]]
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    "call",
    [
        lambda loss, w: backward(loss, [w]),
        lambda loss, w: backward_from(constant(1.0, dtype="float64"), loss, [w]),
        lambda loss, w: value_and_grad(lambda p: loss)(w),
    ],
)
def test_the_warning_points_at_the_caller(call):
    with pytest.warns(UnreachedParameterWarning) as caught:
        call(vector().sum(), parameter(np.ones(2), "w"))
    assert [w.filename for w in caught] == [__file__]


def test_a_rule_that_is_missing_is_named_only_when_it_is_needed():
    x = vector()
    riddle = make("riddle", (x,), x.shape, x.dtype)
    with refused(GradientError, "`riddle`", "no gradient rule"):
        backward(riddle.sum(), [x])
    assert values([backward((riddle + x).sum(), [riddle])[riddle]], {}) == [[1, 1, 1]]


def test_a_rule_can_be_registered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gradient_module, "_rules", dict(gradient_module._rules))
    rule("thrice")(lambda node, g: (g * 3.0,))
    x = vector()
    gradient = backward(make("thrice", (x,), x.shape, x.dtype).sum(), [x])[x]
    assert values([gradient], {}) == [[3, 3, 3]]


@pytest.mark.parametrize(
    "wrong", [lambda node, g: (g, g), lambda node, g: (g.sum(),), lambda node, g: ()]
)
def test_a_rule_with_the_wrong_cotangents_is_refused(wrong, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gradient_module, "_rules", {**gradient_module._rules, "odd": wrong})
    x = vector()
    with refused(GradientError, "rule of `odd`", "`x` of shape (3,)"):
        backward(make("odd", (x,), x.shape, x.dtype).sum(), [x])


def test_stop_gradient_cuts_one_path():
    x = vector()
    gradient = backward((x * stop_gradient(x)).sum(), [x])[x]
    assert values([gradient], {x: np.array([1.0, 2.0, 3.0])}) == [[1, 2, 3]]


def test_starting_from_a_cotangent_of_one_is_starting_from_the_loss():
    x = vector()
    loss = sin(x).sum()
    explicit = backward_from(constant(1.0, dtype="float64"), loss, [x])
    assert explicit[x] is backward(loss, [x])[x]


def test_a_cotangent_can_start_anywhere():
    x, w = input_("x", (4, 5), "float64"), input_("w", (5, 3), "float64")
    rng = np.random.default_rng(3)
    g, feeds = rng.normal(size=(4, 3)), {x: rng.normal(size=(4, 5)), w: rng.normal(size=(5, 3))}
    gradients = backward_from(constant(g), x @ w, [x, w])
    dx, dw = evaluate([gradients[x], gradients[w]], feeds)
    np.testing.assert_allclose(dx, g @ feeds[w].T)
    np.testing.assert_allclose(dw, feeds[x].T @ g)


def test_a_cotangent_has_the_shape_and_type_of_its_root():
    x = vector()
    for wrong in (constant(np.ones(4)), constant(np.ones(3, np.float32))):
        with refused(GradientError, "the cotangent is", "the root `x`"):
            backward_from(wrong, x, [x])


def unrolled() -> tuple[Tensor, Tensor, Tensor, Tensor, dict[Tensor, np.ndarray]]:
    """Return w0, w1, both losses and feeds for two steps of descent on ``mean (x w)^2``."""
    x, w0 = vector(), vector("w")
    first = ((x * w0) ** 2).mean()
    w1 = w0 - backward(first, [w0])[w0] * 0.1
    second = ((x * w1) ** 2).mean()
    return w0, w1, first, second, {x: np.array([1.0, -2.0, 0.5]), w0: np.array([0.3, 1.0, -1.0])}


def test_gradients_do_not_pass_the_parameters_of_a_later_step():
    w0, w1, first, second, feeds = unrolled()
    both = backward(first + second, [w0, w1])
    alone = backward(first, [w0])[w0], backward(second, [w1])[w1]
    assert values([both[w0], both[w1]], feeds) == values(list(alone), feeds)


def test_without_a_stop_gradients_run_through_the_steps():
    w0, w1, first, second, feeds = unrolled()
    through = backward(first + second, [w0], stop=())[w0]
    check_gradients(first + second, [w0], feeds)
    first_order = backward(first + second, [w0, w1])[w0]
    one, other = evaluate([through, first_order], feeds)
    assert not np.allclose(one, other)


def test_a_stop_upstream_of_the_parameter_leaves_it_out_of_reach():
    x = vector()
    middle = sin(x)
    with pytest.warns(UnreachedParameterWarning, match="`x`"):
        backward((middle * 2.0).sum(), [x], stop=[middle])


def test_a_second_derivative_is_the_backward_of_a_backward():
    x = vector()
    first = backward((x**3).sum(), [x])[x]
    second = backward(first.sum(), [x])[x]
    third = backward(second.sum(), [x])[x]
    found = values([first, second, third], {x: np.array([1.0, 2.0, -1.0])})
    assert found == [[3, 12, 3], [6, 12, -6], [6, 6, 6]]


def test_only_paths_to_the_parameters_make_graph():
    x, w = vector(), vector("w")
    gradient = backward((sin(x) * w).sum(), [w])[w]
    assert "cos" not in {node.op for node in topological_order([gradient])}


def _chain(length: int) -> tuple[Tensor, Tensor]:
    x = vector()
    y = x
    for i in range(length):
        y = sin(y) if i % 2 else y * 1.5
    return x, y.sum()


def test_a_chain_of_ten_thousand_operations_is_differentiated_in_linear_time():
    def prepare(length: int) -> Callable[[], None]:
        x, loss = _chain(length)

        def differentiate() -> None:
            assert len(topological_order([backward(loss, [x])[x]])) > length

        return differentiate

    assert_linear(prepare)


def test_a_parameter_that_is_named_twice_has_one_gradient():
    x = vector()
    assert list(backward(x.sum(), [x, x])) == [x]


@dataclasses.dataclass
class Layer:
    w: Tensor
    rate: float = 0.1


@pytest.mark.parametrize(
    "tree",
    [
        lambda w: w,
        lambda w: [w],
        lambda w: {"layer": (w, 3)},
        Layer,
        lambda w: {"layers": [Layer(w), Layer(w)]},
    ],
)
def test_the_value_and_the_gradients_come_together(tree):
    w = vector("w")
    loss, gradients = value_and_grad(lambda params, scale: (w * scale).sum())(tree(w), 3.0)
    assert values([loss, gradients[w]], {w: np.ones(3)}) == [9.0, [3, 3, 3]]


@pytest.mark.parametrize("tree", [[], {"rate": 0.1}, 3, "text", {1, 2}])
def test_a_tree_without_tensors_is_refused(tree: object):
    with refused(GradientError, f"`{type(tree).__name__}`"):
        value_and_grad(lambda params: vector().sum())(tree)


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_gradient_of_a_random_graph_is_its_derivative_along_a_line(seed: int):
    outputs, feeds = random_graph(seed, "float64")
    scalar = next(t for t in outputs if t.shape == () and t.op == "add" and t.dtype.is_float)
    # What stops a gradient on purpose is seen by a difference all the same.
    stopped = {t.operands[0].op for t in topological_order([scalar]) if t.op == "stop_gradient"}
    assume("cos" not in stopped)
    leaves = [leaf for leaf in feeds if leaf.dtype.is_float]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachedParameterWarning)
        gradients = backward(scalar, leaves)
    # Drawn numbers lie on a grid, and so do kinks; moved off it, the function is smooth around.
    rng = np.random.default_rng(seed)
    feeds |= {leaf: feeds[leaf] + rng.uniform(0.01, 0.05, feeds[leaf].shape) for leaf in leaves}
    along = {leaf: rng.normal(size=feeds[leaf].shape) for leaf in leaves}
    found = evaluate([gradients[leaf] for leaf in leaves], feeds)
    slope = sum(float(np.vdot(g, along[leaf])) for g, leaf in zip(found, leaves, strict=True))
    ends = [
        float(evaluate([scalar], feeds | {t: feeds[t] + h * d for t, d in along.items()})[0])
        for h in (1e-6, -1e-6)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)
