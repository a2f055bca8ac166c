"""Each optimizer over a hundred steps on random trees, against its published definition."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.train.update import numpy_optimizers as published
from workbench.train.optimizer import apply
from workbench.train.tree import flatten, map_tree

STEPS = 100
REPLAY = 1e-12

CASES = [
    ("sgd", {}),
    ("sgd", {"weight_decay": 0.05}),
    ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02}),
    ("adam", {}),
    ("adam", {"b1": 0.8, "b2": 0.95, "eps": 1e-4, "weight_decay": 0.1}),
    ("adam", {"nesterov": True}),
    ("adamw", {}),
    ("adamw", {"weight_decay": 0.3, "nesterov": True}),
    ("rmsprop", {}),
    ("rmsprop", {"decay": 0.9, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("rmsprop", {"momentum": 0.5}),
    ("lion", {}),
    ("lion", {"b1": 0.95, "b2": 0.98, "weight_decay": 0.1}),
]
NAMED = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{name} {' '.join(o)}" for name, o in CASES]
)


def random_tree(rng):
    """Arrays of up to three axes, some of them scalars, in a nested tree."""

    def array():
        return rng.standard_normal(tuple(rng.integers(1, 6, rng.integers(0, 4))))

    return {"a": [np.array(array()) for _ in range(3)], "b": (np.array(array()), {"c": np.ones(3)})}


def leaves_of(tree) -> list[Any]:
    return list(flatten(tree)[0])


def expected(name, options, tree, grads, rates):
    step = getattr(published, name)
    arrays = [np.array(leaf) for leaf in leaves_of(tree)]
    states = [{} for _ in arrays]
    for lr, step_grads in zip(rates, grads, strict=True):
        arrays = [
            step(p, g, s, lr, **options) for p, g, s in zip(arrays, step_grads, states, strict=True)
        ]
    return arrays


def problem(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    shapes = [leaf.shape for leaf in leaves_of(tree)]
    grads = [[rng.standard_normal(shape) for shape in shapes] for _ in range(STEPS)]
    rates = rng.uniform(0.001, 0.1, STEPS)
    return tree, grads, rates


@NAMED
def test_a_code_builder_is_its_published_definition(name, options):
    tree, grads, rates = problem(len(name))
    params = [wb.parameter(leaf, f"p{i}") for i, leaf in enumerate(leaves_of(tree))]
    leaves = [wb.gradient_of(p) for p in params]
    loss = wb.square(params[0]).sum()
    lr = wb.host_scalar("lr", 0.0, "float64")
    update = getattr(wb, f"{name}_update")(loss, learning_rate=lr, params=params, **options)
    ctx, routine = wb.Context.cpu().compile(update)
    for rate, step_grads in zip(rates, grads, strict=True):
        ctx = ctx.set_values({lr: rate, **dict(zip(leaves, step_grads, strict=True))}).run(routine)
    for param, right in zip(params, expected(name, options, tree, grads, rates), strict=True):
        np.testing.assert_allclose(ctx.get_values(param), right, rtol=REPLAY, atol=REPLAY)


@NAMED
def test_an_optimizer_of_the_loop_is_its_published_definition(name, options):
    tree, grads, rates = problem(len(name) + 9)
    params = map_tree(wb.parameter, tree)
    opt = map_tree(wb.parameter, getattr(wb, name)(tree, **options))
    inputs = map_tree(lambda leaf: wb.input("g", leaf.shape, "float64"), tree)
    lr = wb.input("lr", (), "float64")
    old, new = leaves_of((params, opt)), leaves_of(apply(params, inputs, opt, lr))
    ctx, routine = wb.Context.cpu().compile([], updates=dict(zip(old, new, strict=True)))
    for rate, step_grads in zip(rates, grads, strict=True):
        fed = dict(zip(leaves_of(inputs), step_grads, strict=True))
        ctx = ctx.set_values({lr: rate, **fed}).run(routine)
    right = expected(name, options, tree, grads, rates)
    for param, value in zip(leaves_of(params), right, strict=True):
        np.testing.assert_allclose(ctx.get_values(param), value, rtol=REPLAY, atol=REPLAY)
