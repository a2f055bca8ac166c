"""What is declared of a node: how declarations join, which contradict, and how long they live."""

import gc
import itertools

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.assign.from_graph import computation
from workbench.loops import intent
from workbench.loops.intent import combined, intent_of
from workbench.loops.placement import Mode, Placement
from workbench.loops.policy import decide_placements

_numbers = itertools.count()


def fresh(n=4, k=2):
    """Return a new sum of ``k`` products for each of ``n`` cells, unlike any node so far."""
    number = next(_numbers)
    return (wb.input(f"x{number}", (n, k)).sum(1) * 1.0).named(f"h{number}")


def placed(node, wanted, **decided):
    return decide_placements(computation([wanted]), 32, **decided)[node]


C, V, N, L, D = (
    Mode.EFFECTIVELY_CONSTANT,
    Mode.VIRTUAL,
    Mode.NEVER_VIRTUAL,
    Mode.LOCAL,
    Mode.ON_DEVICE,
)
JOINED = {
    (C, C): C, (C, V): V, (C, N): D, (C, D): D,
    (V, V): V, (V, C): V,
    (N, N): N, (N, L): L, (N, D): D,
    (L, L): L, (L, N): L,
    (D, D): D, (D, N): D,
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), list(itertools.product(Mode, Mode)))
def test_two_declarations_join_or_contradict(old, new):
    node = fresh()
    before, wanted = Placement(old, "1", "first"), Placement(new, "2", "second")
    if (old, new) in JOINED:
        assert combined(node, before, wanted).mode is JOINED[old, new]
        return
    named = {(N, V): "cannot be virtual", (V, N): "already virtual"}.get((old, new), "cannot be")
    with refused(wb.PlacementError, f"`{node.label}`", named, str(before), remedy="keep one"):
        combined(node, before, wanted)


def test_what_is_declared_first_stands_where_nothing_was():
    wanted = Placement(Mode.VIRTUAL, "29", "said so")
    assert combined(fresh(), None, wanted) == wanted


@pytest.mark.parametrize(
    ("make", "mode", "code"),
    [
        (lambda: wb.constant(2.0), C, "40"),
        (lambda: wb.constant([2.0, 3.0]), D, "49"),
        (lambda: wb.parameter(np.zeros(2), "p"), D, "36"),
        (lambda: wb.input("x", (2,)), D, "36"),
    ],
)
def test_leaves_are_declared_by_their_kind(make, mode, code):
    found = intent_of(make()).placement
    assert found is not None
    assert (found.mode, found.code) == (mode, code)


def test_other_nodes_are_declared_by_nobody():
    assert intent_of(fresh()) == intent.Intent()


def test_a_node_declared_materialized_is_stored_with_that_provenance():
    h = fresh()
    assert placed(h, wb.exp(h)).mode is Mode.VIRTUAL
    wb.set_materialized(h)
    found = placed(h, wb.exp(h))
    assert (found.mode, found.code) == (Mode.ON_DEVICE, "28")


def test_a_node_declared_virtual_escapes_the_caps():
    x = wb.input("x", (4, 17))
    h = x.sum(1).named("long sum")
    assert placed(h, wb.exp(h)).code == "39"
    wb.set_virtual(h)
    found = placed(h, wb.exp(h))
    assert (found.mode, found.code) == (Mode.VIRTUAL, "29")


def test_a_constant_can_be_declared_materialized_and_virtual():
    stored, virtual = wb.constant(4321.5), wb.constant(4321.25)
    wb.set_materialized(stored)
    wb.set_virtual(virtual)
    made = computation([wb.input("x", (3,)) * stored * virtual])
    chosen = decide_placements(made, 32)
    assert (chosen[stored].mode, chosen[stored].code) == (Mode.ON_DEVICE, "28")
    assert chosen[virtual].mode is Mode.VIRTUAL


def test_one_contradiction_among_several_nodes_changes_none_of_them():
    first, second = fresh(), fresh()
    wb.set_virtual(second)
    with refused(wb.PlacementError, "`h", "declared materialized", "declared virtual"):
        wb.set_materialized(first, second)
    assert intent_of(first) == intent.Intent()
    assert intent_of(second) == intent.Intent(Placement(V, "29", "it was declared virtual"))


@pytest.mark.parametrize("leaf", [wb.parameter(np.zeros(3), "p"), wb.input("x", (3,))])
def test_a_leaf_cannot_be_virtual(leaf):
    with refused(wb.PlacementError, f"`{leaf.label}`", "on device", "declared virtual"):
        wb.set_virtual(leaf)


def test_observable_forbids_routine_memory_and_stores_nothing():
    x = wb.input("x", (4, 17))
    short, long = (x[:, :3].sum(1)).named("short"), (x * 3.0).sum(1).named("long")
    wanted = wb.exp(short) + long
    assert placed(short, wanted).mode is Mode.VIRTUAL
    assert placed(long, wanted).mode is Mode.LOCAL
    wb.set_observable(short, long)
    assert placed(short, wanted).mode is Mode.VIRTUAL
    found = placed(long, wanted)
    assert (found.mode, found.code) == (Mode.ON_DEVICE, "39")


def test_observable_reaches_the_memory_behind_a_view():
    flat = wb.exp(wb.input("x", (12,))).named("flat")
    shaped = flat.reshape(3, 4).named("shaped")
    wb.set_observable(shaped)
    chosen = decide_placements(computation([shaped.sum()]), 32)
    assert chosen[flat].mode is chosen[shaped].mode is Mode.ON_DEVICE


def test_a_decision_of_the_lineage_comes_before_what_is_declared():
    h = fresh()
    wb.set_virtual(h)
    decided = {h: Placement(Mode.ON_DEVICE, "66", "a context decided")}
    assert placed(h, wb.exp(h), decided=decided) == decided[h]


def test_what_is_asked_for_is_stored_though_it_was_declared_virtual():
    h = fresh()
    wb.set_virtual(h)
    assert placed(h, h).code == "38"


def _table():
    table = wb.tanh(wb.input("x", (5, 4))).named("table")
    return table, wb.take(table, wb.input("i", (7,), "int32"))


def _parts():
    joined = wb.concat([wb.input("x", (3,)), wb.input("y", (3,))], 0).named("joined")
    return joined, wb.exp(joined)


def _view():
    shaped = wb.exp(wb.input("x", (6,))).reshape(2, 3).named("shaped")
    return shaped, shaped.sum()


@pytest.mark.parametrize(
    ("make", "code"), [(_table, "17"), (_parts, "4"), (_view, "62")], ids=["table", "parts", "view"]
)
def test_a_node_that_readers_cannot_compute_cannot_be_virtual(make, code):
    node, wanted = make()
    wb.set_virtual(node)
    with refused(
        wb.PlacementError, f"`{node.label}`", f"({code}: ", remedy="without `set_virtual`"
    ):
        wb.Context.interpreter().compile([wanted])


def test_a_node_that_would_pass_a_write_cannot_be_virtual():
    p = wb.parameter(np.ones((3, 3)), "p")
    moved = p.T.named("moved")
    wb.set_virtual(moved)
    with refused(wb.PlacementError, "`moved`", "(10: ", "overwritten"):
        wb.Context.interpreter().compile([], updates={p: moved})


def test_a_declaration_lives_as_long_as_its_node_and_keeps_it_not_alive():
    gc.collect()
    before = set(intent._declared)
    h = fresh()
    wb.set_observable(h)
    assert set(intent._declared) - before == {h.uid}
    del h
    gc.collect()
    assert set(intent._declared) == before
