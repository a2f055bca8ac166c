"""Random decisions about random graphs: whatever is stored, inlined or boxed, values stay.

To the last bit in the interpreter where nothing is added up, since no order can change then; else
to the tolerance of two backends, for sums go by other orders.
"""

import random
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.oracle.agreement import assert_agree
from tests.oracle.numpy_graph import rows_of
from tests.strategies import random_graph
from workbench.assign.from_graph import LEAVES, computation
from workbench.graph.extent import count, resolve
from workbench.graph.tensor import topological_order
from workbench.loops.policy import decide
from workbench.loops.preference import Preferences

ROOTS = {"interpreter": wb.Context.interpreter, "cpu": lambda: wb.Context.cpu(1)}
SUMS = ("sum", "einsum", "scatter_add")
CHOICES = ("materialized", "inline", "footprint", "default")
QUICK = range(16)
REST = range(16, 200)
MOST_WORK = 60_000
"""Operations in all: the interpreter walks sums within sums point by point."""

Array = np.ndarray
Nodes = list[wb.Tensor]


def computed(outputs: Nodes) -> Nodes:
    return [node for node in topological_order(outputs) if node.op not in LEAVES]


def without_sums(outputs: Nodes) -> Nodes:
    """Return nodes that nothing is added up for, those computed last first."""
    adds: dict[wb.Tensor, bool] = {}
    for node in topological_order(outputs):
        adds[node] = node.op in SUMS or any(adds[operand] for operand in node.operands)
    return [node for node in reversed(computed(outputs)) if not adds[node]]


def vector(chance: random.Random, nodes: Nodes) -> dict[str, Nodes]:
    """Return a decision vector: something for each node, nothing for some."""
    weights = [chance.random() for _ in CHOICES]
    drawn = chance.choices(CHOICES, weights, k=len(nodes))
    return {
        choice: [node for node, mine in zip(nodes, drawn, strict=True) if mine == choice]
        for choice in CHOICES[:3]
    }


def work(wanted: Nodes, rows: int | None, decided: dict[str, Nodes]) -> int:
    """Return about how many operations it takes to compute ``wanted``."""
    preferences = Preferences(*(frozenset(decided.get(name, ())) for name in CHOICES[1:3]))
    made = decide(computation(wanted), rows or 32, preferences=preferences)
    return sum(
        made.cost[node] * resolve(count(node.shape), rows or 1)
        for node, placement in made.placements.items()
        if placement.is_stored
    )


def values(root: wb.Context, wanted: Nodes, feeds: dict[wb.Tensor, Array], **decided: Any):
    rows = rows_of(feeds)
    ctx, routine = root.decide(**decided).compile(wanted, rows=rows)
    feeds = {node: value for node, value in feeds.items() if node in ctx.placements}
    ctx = ctx.set_values(feeds).run(routine, rows=rows)
    return [ctx.get_values(node) for node in wanted], ctx


def check(seed: int, make) -> None:
    outputs, feeds = random_graph(seed)
    nodes = computed(outputs)
    expected, ctx = values(make(), outputs, feeds, materialized=nodes)
    assert all(
        ctx.placements[node].is_stored
        for node in nodes
        if node in ctx.placements and ctx.placements[node].code != "40"
    )
    chance = random.Random(seed)
    everything = {choice: {choice: nodes} for choice in ("inline", "footprint")}
    vectors = {**everything, **{f"vector {n}": vector(chance, nodes) for n in range(2)}}
    for name, decided in vectors.items():
        if work(outputs, rows_of(feeds), decided) > MOST_WORK:
            continue
        found, _ = values(make(), outputs, feeds, **decided)
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_agree(a, b, f"seed {seed}, {name}, output {number}")


def check_bits(seed: int) -> None:
    outputs, feeds = random_graph(seed)
    wanted = without_sums(outputs)[:4]
    if not wanted:
        return
    nodes = computed(wanted)
    expected, _ = values(wb.Context.interpreter(), wanted, feeds, materialized=nodes)
    chance = random.Random(seed)
    vectors = [{"inline": nodes}, {"footprint": nodes}, vector(chance, nodes)]
    for decided in vectors:
        found, _ = values(wb.Context.interpreter(), wanted, feeds, **decided)
        assert [a.tobytes() for a in found] == [b.tobytes() for b in expected], f"seed {seed}"


@pytest.mark.parametrize("seed", QUICK)
def test_no_decision_changes_a_value(seed: int) -> None:
    check(seed, wb.Context.interpreter)


@pytest.mark.parametrize("seed", QUICK[4:5])
def test_no_decision_changes_a_value_on_the_processor(seed: int) -> None:
    check(seed, ROOTS["cpu"])


@pytest.mark.parametrize("seed", QUICK)
def test_no_decision_changes_a_bit_where_nothing_is_added_up(seed: int) -> None:
    check_bits(seed)


def test_most_of_these_graphs_can_be_inlined_as_a_whole() -> None:
    graphs = [random_graph(seed) for seed in QUICK]
    small = [
        work(outputs, rows_of(feeds), {"inline": computed(outputs)}) <= MOST_WORK
        for outputs, feeds in graphs
    ]
    assert sum(small) > len(QUICK) // 2


def test_many_of_these_graphs_have_values_that_nothing_is_added_up_for() -> None:
    assert sum(bool(without_sums(random_graph(seed)[0])) for seed in QUICK) > len(QUICK) // 2


@pytest.mark.slow
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("seed", REST)
def test_no_decision_changes_a_value_in_many_more_graphs(seed: int, root: str) -> None:
    check(seed, ROOTS[root])


@pytest.mark.slow
@pytest.mark.parametrize("seed", REST)
def test_no_decision_changes_a_bit_in_many_more_graphs(seed: int) -> None:
    check_bits(seed)
