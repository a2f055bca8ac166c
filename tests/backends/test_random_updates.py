"""State updated in place from old values, on random programs: both backends against numpy.

Every new value is computed from the values before the updates, whatever shape, order or place it
reads them in; what makes that hard is that the memory is the same.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.oracle.agreement import assert_agree
from tests.oracle.numpy_graph import evaluate
from workbench.graph.extent import resolve_shape
from workbench.graph.tensor import topological_order
from workbench.loops.settings import Settings

SHAPES = ((4, 4), (4, 4), (16,), (2, 8), (4,), (4, 1), ())
SETTINGS = {
    "default": Settings(),
    "everything in BLAS": Settings(min_product=1),
    "store all": Settings(
        max_visits=0, max_inline_reduction=1, max_inline_fanin=1, max_shared_cost=0, local_bytes=0
    ),
    "inline most": Settings(
        max_visits=8, max_inline_reduction=64, max_inline_fanin=20, max_shared_cost=60
    ),
}
QUICK = range(60)
REST = range(60, 600)


def shape_of(x: wb.Tensor) -> tuple[int, ...]:
    return resolve_shape(x.shape, None)


def size_of(x: wb.Tensor) -> int:
    return math.prod(shape_of(x))


def fit_shape(chance: random.Random, x: wb.Tensor, shape: tuple[int, ...]) -> wb.Tensor:
    """Return something of ``shape`` that reads ``x``, each cell in a place that chance decides."""
    size, wanted = size_of(x), math.prod(shape)
    if size == wanted and chance.random() < 0.7:
        moved = x.T if x.ndim == 2 and chance.random() < 0.5 else x
        return moved.reshape(shape)
    if size > wanted and x.ndim == 2 and shape == (x.shape[0],):
        return x.sum(1) if chance.random() < 0.5 else x[:, chance.randrange(shape_of(x)[1])]
    if chance.random() < 0.3 and x.ndim and len(shape) == 1 and x.ndim == 1:
        rows = wb.constant(np.array([chance.randrange(size) for _ in range(shape[0])], np.int32))
        return wb.take(x, rows)
    return wb.broadcast_to(x.mean(), shape)


def moved(chance: random.Random, x: wb.Tensor) -> wb.Tensor:
    """Return ``x`` with its elements elsewhere."""
    match chance.choice(("flip", "transpose", "matmul", "rows", "roll", "stay")):
        case "flip" if x.ndim:
            return wb.flip(x, chance.randrange(x.ndim))
        case "transpose" if x.shape == (4, 4):
            return x.T
        case "matmul" if x.shape == (4, 4):
            return x @ x.T if chance.random() < 0.5 else x @ x
        case "rows" if x.ndim == 2:
            order = list(range(shape_of(x)[0]))
            chance.shuffle(order)
            return wb.take(x, wb.constant(np.array(order, np.int32)))
        case "roll" if x.ndim:
            return wb.concat([x[1:], x[:1]], 0)
        case _:
            return x


def new_value(chance: random.Random, target: wb.Tensor, state: list[wb.Tensor]) -> wb.Tensor:
    shape = shape_of(target)
    if chance.random() < 0.2:
        same_size = [p for p in state if size_of(p) == size_of(target)]
        return chance.choice(same_size).reshape(shape)
    total = target * 0.5 if chance.random() < 0.6 else wb.constant(np.zeros(shape))
    for _ in range(chance.randint(1, 3)):
        part = fit_shape(chance, moved(chance, chance.choice(state)), shape)
        match chance.choice(("add", "tanh", "mul", "bare")):
            case "tanh":
                total = total + wb.tanh(part)
            case "mul":
                total = wb.sin(total) * part
            case "bare" if chance.random() < 0.5:
                total = part
            case _:
                total = total + part
    return total


def program(
    seed: int,
) -> tuple[list[wb.Tensor], dict[wb.Tensor, wb.Tensor], list[wb.Tensor]]:
    """Return state, updates of it, and tensors to compute beside."""
    chance = random.Random(seed)
    numbers = np.random.default_rng(seed)
    state = [
        wb.parameter(numbers.normal(size=shape), f"p{i}")
        for i, shape in enumerate(chance.sample(SHAPES, chance.randint(2, 6)))
    ]
    updates = {p: new_value(chance, p, state) for p in state if chance.random() < 0.85}
    outputs = [wb.tanh(moved(chance, chance.choice(state))).sum()]
    outputs += chance.sample(list(updates.values()), min(1, len(updates)))
    outputs.append(chance.choice(state).reshape(-1, 1))
    return state, updates, [node for node in outputs if node.op != "parameter"]


def mixed(nodes: list[wb.Tensor]) -> dict[str, Any]:
    """Return a decision for two thirds of the nodes, by chance."""
    drawn = random.Random(len(nodes)).choices(range(4), k=len(nodes))
    names = ("materialized", "inline", "footprint")
    return {
        name: [node for node, mine in zip(nodes, drawn, strict=True) if mine == number]
        for number, name in enumerate(names)
    }


DECISIONS: dict[str, Callable[[list[wb.Tensor]], dict[str, Any]]] = {
    "nothing": lambda nodes: {},
    "all stored": lambda nodes: {"materialized": nodes},
    "all inlined": lambda nodes: {"inline": nodes},
    "all boxed": lambda nodes: {"footprint": nodes},
    "mixed": mixed,
}


def check(seed: int, context: wb.Context, decided: str = "nothing") -> None:
    state, updates, outputs = program(seed)
    context = context.decide(**DECISIONS[decided](topological_order([*outputs, *updates.values()])))
    ctx, routine = context.compile(outputs, updates=updates, name=f"updates {seed}")
    values = {p: np.asarray(p.value) for p in state}
    for turn in range(2):
        expected = dict(values)
        expected.update(zip(updates, evaluate(list(updates.values()), values), strict=True))
        ctx = ctx.run(routine)
        for node, value in zip(outputs, evaluate(outputs, values), strict=True):
            assert_agree(ctx.get_values(node), value, f"seed {seed}, turn {turn}: {node!r}")
        for p in state:
            assert_agree(ctx.get_values(p), np.asarray(expected[p]), f"seed {seed}: {p!r}")
        values = expected


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", QUICK)
def test_the_interpreter_updates_from_old_values(seed: int, settings: str) -> None:
    check(seed, replace(wb.Context.interpreter(), settings=SETTINGS[settings]))


@pytest.mark.parametrize("decided", DECISIONS)
@pytest.mark.parametrize("seed", QUICK[:15])
def test_the_interpreter_updates_from_old_values_whatever_is_decided(
    seed: int, decided: str
) -> None:
    check(seed, wb.Context.interpreter(), decided)


@pytest.mark.parametrize("seed", QUICK[:12])
def test_compiled_kernels_update_from_old_values(seed: int) -> None:
    check(seed, wb.Context.cpu(2))


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", REST)
def test_the_interpreter_updates_from_old_values_many_times_more(seed: int, settings: str) -> None:
    check(seed, replace(wb.Context.interpreter(), settings=SETTINGS[settings]))


@pytest.mark.slow
@pytest.mark.parametrize("decided", DECISIONS)
@pytest.mark.parametrize("seed", [*QUICK[15:], *REST])
def test_the_interpreter_updates_from_old_values_whatever_is_decided_many_times_more(
    seed: int, decided: str
) -> None:
    check(seed, wb.Context.interpreter(), decided)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*QUICK[12:], *REST[:100]])
def test_compiled_kernels_update_from_old_values_many_times_more(seed: int) -> None:
    check(seed, wb.Context.cpu(2))
