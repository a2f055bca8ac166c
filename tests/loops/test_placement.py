"""Where nodes live: each rule reached by a small graph, the first that applies deciding."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import workbench as wb
from workbench.assign.from_graph import computation
from workbench.loops.lower import lower
from workbench.loops.placement import Mode, Placement
from workbench.loops.policy import decide_placements
from workbench.loops.settings import DEFAULT_SETTINGS

ROWS = 32


@dataclass
class Case:
    """Outputs and updates of a graph, and the node in question."""

    node: wb.Tensor
    outputs: list[wb.Tensor]
    updates: dict[wb.Tensor, wb.Tensor] = field(default_factory=dict)


def placed(case: Case, **settings) -> Placement:
    made = computation(case.outputs, case.updates)
    caps = DEFAULT_SETTINGS if not settings else type(DEFAULT_SETTINGS)(**settings)
    chosen = decide_placements(made, ROWS, settings=caps)
    return lower(made, chosen, ROWS, settings=caps)[1][case.node]


def vector(name="x", n=100):
    return wb.input(name, (n,))


def an_input():
    x = vector()
    return Case(x, [x * 2.0])


def state():
    p = wb.parameter(np.zeros(3), "p")
    return Case(p, [], {p: p + 1.0})


def a_scalar_of_constants():
    decay = wb.constant(0.5) * wb.constant(3.0)
    return Case(decay, [vector() * decay])


def a_view():
    shaped = wb.exp(vector()).reshape(10, 10)
    return Case(shaped, [shaped.sum()])


def in_two_parts():
    joined = wb.concat([vector(), vector("y")], 0)
    return Case(joined, [wb.exp(joined) + joined])


def rows_looked_up():
    table = wb.tanh(wb.input("x", (5, 4)))
    rows = wb.take(table, wb.input("i", (7,), "int32"))
    return Case(table, [rows.sum()])


def a_large_product():
    product = wb.input("x", (wb.batch, 64)) @ wb.parameter(np.zeros((64, 32), np.float32), "w")
    return Case(product, [wb.relu(product)])


def a_small_product():
    product = wb.input("x", (4, 4)) @ wb.parameter(np.zeros((4, 4), np.float32), "w")
    return Case(product, [wb.relu(product)])


def a_long_sum():
    total = wb.input("x", (10, 17)).sum(1)
    return Case(total, [total * 2.0])


def a_short_sum():
    total = wb.input("x", (10, 16)).sum(1)
    return Case(total, [total * 2.0])


def read_many_times():
    root = wb.sqrt(vector())
    return Case(root, [wb.broadcast_to(root.reshape(1, 100), (5, 100)) + wb.input("y", (5, 100))])


def dear_and_read_twice():
    curve = wb.erf(vector())
    return Case(curve, [curve.sum(), curve * 2.0])


def cheap_and_read_twice():
    shifted = vector() + 1.0
    return Case(shifted, [shifted.sum(), shifted * 2.0])


def growing():
    # Twelve multiplications for each: the last one passes the cap.
    x = vector()
    for _ in range(22):
        x = wb.tanh(x)
    return Case(x, [x + 1.0])


def of_many_sources():
    total = vector("x0")
    for i in range(1, 9):
        total = total + vector(f"x{i}")
    return Case(total, [wb.exp(total) * 2.0])


def of_few_sources():
    total = vector("x0") + vector("x1")
    return Case(total, [wb.exp(total) * 2.0])


def asked_for():
    shifted = vector() + 1.0
    return Case(shifted, [shifted])


def overwritten_before_it_is_read():
    p = wb.parameter(np.ones((3, 3)), "p")
    moved = p.T
    return Case(moved, [], {p: moved})


TABLE = [
    (an_input, "37", Mode.ON_DEVICE, "an input"),
    (state, "36", Mode.ON_DEVICE, "state"),
    (a_scalar_of_constants, "40", Mode.VIRTUAL, "constants"),
    (a_view, "62", Mode.LOCAL, "shares memory"),
    (in_two_parts, "4", Mode.LOCAL, "several statements"),
    (rows_looked_up, "17", Mode.LOCAL, "rows are chosen"),
    (a_large_product, "61", Mode.LOCAL, "BLAS"),
    (a_small_product, "0", Mode.VIRTUAL, "recompute"),
    (a_long_sum, "39", Mode.LOCAL, "combines 17 points, more than max_inline_reduction=16"),
    (a_short_sum, "0", Mode.VIRTUAL, "recompute"),
    (read_many_times, "1", Mode.LOCAL, "read 5 times, more than max_visits=1"),
    (dear_and_read_twice, "60", Mode.LOCAL, "2 places read it"),
    (cheap_and_read_twice, "0", Mode.VIRTUAL, "recompute"),
    (growing, "63", Mode.LOCAL, "more than max_inline_cost=256"),
    (of_many_sources, "41", Mode.LOCAL, "max_inline_fanin=8"),
    (of_few_sources, "0", Mode.VIRTUAL, "recompute"),
    (asked_for, "38", Mode.ON_DEVICE, "asked for"),
    (overwritten_before_it_is_read, "10", Mode.LOCAL, "overwritten before"),
]


@pytest.mark.parametrize(("case", "code", "mode", "reason"), TABLE)
def test_each_rule_is_reached_by_a_small_graph(case, code, mode, reason):
    found = placed(case())
    assert (found.code, found.mode) == (code, mode)
    assert reason in found.reason
    assert str(found) == f"{mode.value} ({code}: {found.reason})"
    assert found.is_stored == (mode in (Mode.LOCAL, Mode.ON_DEVICE))


@pytest.mark.parametrize(
    ("case", "cap", "value", "before", "after"),
    [
        (a_long_sum, "max_inline_reduction", 17, "39", "0"),
        (a_long_sum, "max_inline_reduction", -1, "39", "0"),
        (read_many_times, "max_visits", 5, "1", "0"),
        (dear_and_read_twice, "max_shared_cost", 100, "60", "0"),
        (cheap_and_read_twice, "max_shared_cost", 0, "0", "60"),
        (of_many_sources, "max_inline_fanin", 10, "41", "0"),
        (of_many_sources, "max_inline_fanin", -1, "41", "0"),
        (a_large_product, "min_product", 10**9, "61", "39"),
        (a_small_product, "min_product", 64, "0", "61"),
    ],
)
def test_a_cap_moves_the_decision(case, cap, value, before, after):
    assert placed(case()).code == before
    assert placed(case(), **{cap: value}).code == after


def test_a_large_intermediate_lives_on_the_device_and_a_small_one_with_the_routine():
    def shared(n):
        curve = wb.erf(wb.input("x", (n,)))
        return Case(curve, [curve.sum(), curve * 2.0])

    floats = DEFAULT_SETTINGS.local_bytes // 4
    assert placed(shared(floats)).mode is Mode.LOCAL
    assert placed(shared(floats + 1)).mode is Mode.ON_DEVICE
    assert placed(shared(wb.batch * 100_000)).mode is Mode.LOCAL


def test_a_decision_of_the_lineage_is_final():
    case = cheap_and_read_twice()
    made = computation(case.outputs)
    decided = {case.node: Placement(Mode.ON_DEVICE, "38", "an earlier routine gave it")}
    assert decide_placements(made, ROWS, decided=decided)[case.node] == decided[case.node]


def test_a_context_keeps_what_was_decided_in_it():
    case = cheap_and_read_twice()
    ctx, _ = wb.Context.interpreter().compile([case.node])
    ctx, routine = ctx.compile(case.outputs)
    assert routine.placements[case.node].mode is Mode.ON_DEVICE
    assert ctx.placements[case.node].code == "38"


def test_whoever_wants_a_view_gets_the_memory_behind_it():
    curve = wb.exp(vector())
    shaped = curve.reshape(10, 10)
    found = placed(Case(curve, [shaped]))
    assert found.mode is Mode.ON_DEVICE


def test_an_observed_node_that_is_stored_is_stored_where_it_can_be_read():
    for case, mode, code in (
        (a_long_sum(), Mode.ON_DEVICE, "39"),
        (cheap_and_read_twice(), Mode.VIRTUAL, "0"),
    ):
        made = computation(case.outputs)
        found = decide_placements(made, ROWS, observable=frozenset([case.node]))[case.node]
        assert (found.mode, found.code) == (mode, code)


def test_every_node_of_a_computation_gets_a_place_and_every_place_a_reason():
    for case, *_ in TABLE:
        made = computation(case().outputs, case().updates)
        chosen = decide_placements(made, ROWS)
        targets = {statement.target for statement in made.statements}
        assert set(chosen) == targets | set(made.inputs)
        assert all(p.code and p.reason for p in chosen.values())
