"""Advice leads where it says: remedies followed as text and as button, offers, presses in a row."""

import random
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.oracle.numpy_graph import rows_of
from tests.present import present
from tests.refusal import refused
from tests.runtime.test_looking import state_of
from tests.strategies import random_graph
from workbench.assign.from_graph import computation
from workbench.graph.extent import resolve_shape
from workbench.graph.tensor import topological_order
from workbench.runtime import trial
from workbench.runtime.context import Context
from workbench.runtime.reading import walk_of
from workbench.runtime.routine import Routine
from workbench.runtime.trial import Trial
from workbench.runtime.why_card import WhyCard


@pytest.fixture(autouse=True)
def _unmeasured(monkeypatch):
    """How long a step takes is not what is tested here."""
    monkeypatch.setattr(trial, "MEASURED_S", 0.0)
    monkeypatch.setattr(trial, "MEASUREMENTS", 1)


def follow(ctx, node, routines, feeds, rows=2):
    """Type what the remedy of ``node`` says, and return the context that one has then."""
    verdict = ctx.observability(node)
    for remedy in verdict.remedies:
        names = {"ctx": ctx, "t": node, "wb": wb, "np": np, "routine": None}
        lines = re.findall(r"`(ctx[^`]*)`", str(remedy))
        assert lines, str(remedy)
        for line in lines:
            if remedy.action == "set":
                for each in remedy.nodes:
                    value = feeds.get(each)
                    if value is None:
                        value = np.ones(resolve_shape(each.shape, rows), each.dtype.numpy)
                    place = remedy.places[each]
                    names["values"] = {**names.get("values", {}), place: value}
                    line = line.replace(f"{place}: ...", f"{place}: values[{place!r}]", 1)
            if remedy.action == "run":
                for name in remedy.routines:
                    names["routine"] = next(each for each in routines if each.name == name)
                    exec(line, names)
                continue
            exec(line.replace("rows=...", f"rows={rows}"), names)
        ctx = names["ctx"]
    return ctx


def expect_advice(ctx, routine, nodes, feeds, rows=2, most=4):
    """Follow every remedy as text, and every offer that says that the node can be read then."""
    buttons = 0
    for node in nodes:
        verdict = ctx.observability(node)
        if verdict.is_readable:
            continue
        text = verdict.remedy_text
        assert text.count("store it") <= 1
        assert not re.search(r"\ban? `\w+` of shape", text)
        after = follow(ctx, node, [routine], feeds, rows)
        assert after.observability(node).is_readable, (str(verdict), str(after.observability(node)))
        assert after.get_values(node).dtype == node.dtype.numpy
        buttons += 1
        card = WhyCard(node, ctx, routine)
        if buttons <= most and card.offers() and not card.offers()[0].is_refused:
            assert "then it can be read" in card.offers()[0].expected, str(card)
            expect_kept(card, card.offers()[0])


def expect_kept(card, offer):
    """Take an offer and return what it gave, if it is what the offer said."""
    done = card.apply(offer.name)
    says_readable = "then it can be read" in offer.expected
    if says_readable and Trial(done.context, done.routine).can_run(done.context, done.routine):
        assert done.observability.is_readable, (str(card), str(done.observability))
        done.context.get_values(card.node)
    return done


def graph_of(seed):
    outputs, feeds = random_graph(seed)
    wanted = random.Random(seed).sample(outputs, max(1, len(outputs) // 2))
    return wanted, topological_order(wanted), feeds, rows_of(feeds) or 2


def advice_of_a_graph(seed, make=Context.interpreter):
    wanted, nodes, feeds, rows = graph_of(seed)
    with wb.settings(max_inline_cost=5, max_shared_cost=2, buffer_aliasing=seed % 3 == 0):
        compiled, routine = make().compile(wanted, name="first")
        expect_advice(compiled, routine, nodes[:: 1 + len(nodes) // 8], feeds, rows)
        ready = compiled.set_values(feeds)
        expect_advice(ready, routine, nodes[:: 1 + len(nodes) // 3], feeds, rows)
        ctx = ready.run(routine, rows=rows)
        expect_advice(ctx, routine, nodes, feeds, rows)


@pytest.mark.parametrize("seed", range(4))
def test_every_remedy_of_a_random_graph_makes_the_node_asked_about_readable(seed):
    advice_of_a_graph(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 304))
def test_every_remedy_of_a_random_graph_makes_the_node_asked_about_readable_with_many_more(seed):
    advice_of_a_graph(seed)


def presses(seed, most=5):
    wanted, nodes, feeds, rows = graph_of(seed)
    draw = random.Random(seed)
    with wb.settings(max_inline_cost=5, max_shared_cost=2):
        ctx, routine = Context.interpreter().compile(wanted, name="first")
        ctx = ctx.set_values(feeds).run(routine, rows=rows)
        first, began = (ctx, routine), state_of(ctx)
        readable = set()
        for _ in range(most):
            blind = [node for node in nodes if not ctx.observability(node).is_readable]
            node = draw.choice(blind or nodes)
            card = WhyCard(node, ctx, routine)
            offers = [each for each in card.offers() if not each.is_refused]
            if not offers:
                continue
            offer = draw.choice(offers)
            done = expect_kept(card, offer)
            ctx, routine = done.context, done.routine
            if "no longer" in offer.expected:
                readable = {each for each in readable if ctx.observability(each).is_readable}
            if "then it can be read" in offer.expected:
                readable.add(node)
            assert all(ctx.observability(each).is_readable for each in readable)
        assert state_of(first[0]) == began


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_presses_add_up_and_each_does_what_it_says(seed):
    presses(seed)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_presses_add_up_and_each_does_what_it_says_with_many_more(seed):
    presses(seed, 8)


# -- a trial takes over the lineage that it explains


def take_all(ctx, routine, nodes):
    """Press every button of every node; each has to be as it says, and nothing may change."""
    before = state_of(ctx)
    taken = 0
    for node in nodes:
        card = WhyCard(node, ctx, routine)
        assert card._repr_html_()
        for offer in card.offers():
            if not offer.is_refused:
                expect_kept(card, offer)
                taken += 1
    assert state_of(ctx) == before
    return taken


def batched():
    x = wb.input("x", (wb.batch, 20))
    w = wb.parameter(np.full((20, 30), 0.1, np.float32), "w")
    hidden = (x @ w).named("hidden")
    return x, hidden, wb.relu(hidden).sum(1).named("out")


@pytest.mark.parametrize("make", [Context.interpreter, lambda: Context.cpu(1)])
def test_offers_can_be_taken_before_values_are_set(make):
    x, hidden, out = batched()
    ctx, routine = make().compile([out])
    assert take_all(ctx, routine, [hidden, out])
    done = WhyCard(hidden, ctx, routine).apply("materialize")
    ran = done.context.set_values({x: np.ones((3, 20))}).run(done.routine)
    assert ran.get_values(hidden).shape == (3, 30)


def test_offers_of_a_routine_that_reads_a_merge_buffer_can_be_taken():
    a = wb.parameter(np.arange(20.0, dtype=np.float32), "a")
    source, double = Context.interpreter().compile([a * 1.0], updates={a: a + 1.0})
    source = source.run(double)
    merged = wb.merge_buffer(a)
    total = (merged * 2.0).sum().named("total")
    target = Context.copy(source, Context.interpreter(), a, into_merge=True)
    target, routine = target.compile([wb.exp(total * 1e-3) * total])
    assert take_all(target, routine, [total, *total.operands])
    target = target.run(routine)
    assert take_all(target, routine, [total, *total.operands])
    Context.copy(source, target, a, into_merge=True)
    assert all(each.is_refused for each in WhyCard(total.operands[0], target, routine).offers())


def test_offers_of_a_routine_that_takes_a_computed_node_as_given_can_be_taken():
    x, hidden, out = batched()
    ctx, first = Context.interpreter().decide_materialized(hidden).compile([hidden], name="first")
    total = (wb.exp(hidden) @ wb.constant(np.ones((30, 20), np.float32))).named("total")
    given = computation([wb.relu(total).sum().named("end"), out], given=frozenset({hidden}))
    ctx, second = ctx.compile(given, name="second")
    assert take_all(ctx, second, [total])
    ctx = ctx.set_values({x: np.ones((3, 20))}).run(first).run(second)
    assert take_all(ctx, second, [total])


def test_what_a_transform_did_is_done_in_a_trial_as_well():
    seen = []

    def kept(program):
        seen.append(program)
        return [program]

    x, hidden, out = batched()
    ctx, routine = Context.interpreter().compile([out], lowered_transform=kept)
    ctx = ctx.set_values({x: np.ones((3, 20))}).run(routine)
    before = len(seen)
    WhyCard(hidden, ctx, routine).apply("materialize")
    assert len(seen) > before


def test_a_program_that_was_given_as_lowered_refuses_decisions_and_says_why():
    x, hidden, out = batched()
    _, lowered = Context.interpreter().compile([out])
    ctx, routine = Context.interpreter().compile([out], prelowered=lowered.program)
    ctx = ctx.set_values({x: np.ones((3, 20))}).run(routine)
    offers = WhyCard(hidden, ctx, routine).offers()
    assert all(each.is_refused and "given as lowered" in each.expected for each in offers)


# -- names


def test_every_node_of_a_context_has_one_name_that_leads_to_it():
    outputs, _ = random_graph(3)
    ctx, _routine = Context.interpreter().compile(outputs)
    names = walk_of(ctx).names
    assert all(ctx.node(present(names.of(node))) is node for node in ctx.placements)
    with refused(wb.GraphError, "no node called `stranger`", remedy="there is"):
        ctx.node("stranger")


def test_nodes_of_one_label_are_told_apart_by_number():
    x = wb.input("x", (3,))
    one, two = wb.exp(x).named("h"), wb.sin(x).named("h")
    ctx, _routine = Context.interpreter().compile([one, two])
    assert {ctx.node("h#1"), ctx.node("h#2")} == {one, two}
    assert ctx.node("x") is x


# -- tutorials


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(Path("notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_every_remedy_of_a_tutorial_makes_the_node_asked_about_readable(
    path, tmp_path, monkeypatch
):
    text = path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "tutorial"}
    exec(compile(text, str(path), "exec"), scope)
    for folder in [each for each in scope.values() if isinstance(each, TemporaryDirectory)]:
        folder.cleanup()
    asked = 0
    for run in [
        each for each in scope.values() if isinstance(each, wb.Run) and each.status != "ready"
    ]:
        graph = run.step_graph()
        asked += len(graph.routine.placements)
        expect_advice(graph.context, graph.routine, graph.routine.placements, {}, most=3)
    for ctx in [each for each in scope.values() if isinstance(each, Context)]:
        # Those of a sibling may be called the same; they are not what the context waits for.
        for routine in ctx.unit.routines():
            assert isinstance(routine, Routine)
            asked += len(routine.placements)
            expect_advice(ctx, routine, routine.placements, {}, most=3)
    assert asked
