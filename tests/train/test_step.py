from typing import Any

import numpy as np
import pytest

from workbench.errors import GradientError, TracingError
from workbench.graph.composite import mse
from workbench.graph.extent import batch
from workbench.graph.leaf import input, parameter
from workbench.graph.tensor import topological_order
from workbench.train import tree
from workbench.train.optimizer import sgd
from workbench.train.step import StepResult, apply_gradients, default_step, loss_and_gradients

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]])
Y = np.array([1.0, -2.0, 0.5])


@pytest.fixture
def model():
    """Parameters, optimizer state and inputs of a linear model in a graph."""
    params = {"w": parameter(np.array([0.5, -0.25]), "w"), "b": parameter(np.float64(0.1), "b")}
    opt = tree.map_tree(parameter, sgd(params))
    return params, opt, input("x", (batch, 2), "float64"), input("y", (batch,), "float64")


def squared_error(params, x, y):
    return mse(x @ params["w"] + params["b"], y)


def by_hand():
    """The loss, its gradients by w and b, in numpy."""
    error = X @ np.array([0.5, -0.25]) + 0.1 - Y
    return np.mean(error**2), 2 * X.T @ error / 3, 2 * np.mean(error)


def test_a_step_gives_the_loss_before_the_update_and_the_updated_parameters(model, evaluate):
    params, opt, x, y = model
    result = evaluate(default_step(params, opt, x, y, 0.1, squared_error), {x: X, y: Y}, 3)
    loss, by_w, by_b = by_hand()
    np.testing.assert_allclose(result.loss, loss)
    np.testing.assert_allclose(result.params["w"], [0.5, -0.25] - 0.1 * by_w)
    np.testing.assert_allclose(result.params["b"], 0.1 - 0.1 * by_b)


def test_a_step_computes_the_forward_pass_once(model):
    params, opt, x, y = model
    result = default_step(params, opt, x, y, 0.1, squared_error)
    roots: list[Any] = list(tree.flatten((result.loss, result.params))[0])
    nodes = topological_order(roots)
    products = [{operand.uid for operand in node.operands} for node in nodes if node.op == "einsum"]
    assert products.count({x.uid, params["w"].uid}) == 1


def test_a_step_of_ones_own_may_change_gradients_between_the_two_halves(model, evaluate):
    params, opt, x, y = model
    loss, grads = loss_and_gradients(squared_error, params, x, y)
    halved = tree.map_tree(lambda g: g * 0.5, grads)
    result = evaluate(apply_gradients(params, halved, opt, 0.1, loss), {x: X, y: Y}, 3)
    np.testing.assert_allclose(result.params["w"], [0.5, -0.25] - 0.05 * by_hand()[1])


def test_gradients_come_in_the_structure_of_the_parameters(model):
    params, _, x, y = model
    _, grads = loss_and_gradients(squared_error, params, x, y)
    assert tree.flatten(grads)[1] == tree.flatten(params)[1]
    assert {name: grad.shape for name, grad in grads.items()} == {"b": (), "w": (2,)}


def test_what_a_step_returns_is_a_tree_itself(model):
    params, opt, x, y = model
    result = default_step(params, opt, x, y, 0.1, squared_error)
    assert isinstance(result, StepResult)
    assert tree.paths(tree.flatten(result)[1]) == ["loss", "params.b", "params.w", "opt.t"]


def test_a_loss_that_is_no_tensor_is_refused_by_its_type(model):
    params, opt, x, y = model
    pair: Any = lambda p, x, y: (squared_error(p, x, y), 1.0)  # noqa: E731 - typed as anything
    with pytest.raises(TracingError, match="returned a `tuple`, not a tensor"):
        default_step(params, opt, x, y, 0.1, pair)


def test_a_loss_for_each_row_is_refused(model):
    params, opt, x, y = model
    with pytest.raises(GradientError, match="not a floating scalar"):
        default_step(params, opt, x, y, 0.1, lambda p, x, y: x @ p["w"] - y)


def test_parameters_that_are_no_tensors_are_refused_by_path(model):
    _, opt, x, y = model
    params = {"w": parameter(np.zeros(2)), "b": 0.0}
    with pytest.raises(TracingError, match="the parameter `b` is a `float`") as caught:
        default_step(params, opt, x, y, 0.1, squared_error)
    assert "wb.parameter" in caught.value.remedy
