import numpy as np
import pytest

import workbench as wb
from tests.present import present
from tests.refusal import refused
from tests.runtime.test_looking import state_of
from workbench.loops.placement import Mode
from workbench.runtime.why_card import WhyCard


def step(make=lambda: wb.Context.cpu(1)):
    """A step of gradient descent in which `hidden` is local, and the virtual `guess` reads it."""
    x, y = wb.input("x", (wb.batch, 2)), wb.input("y", (wb.batch, 1))
    w1 = wb.parameter([[1.0, -1.0], [0.5, 2.0]], "w1")
    w2 = wb.parameter([[1.0], [2.0]], "w2")
    hidden = wb.relu(x @ w1).named("hidden")
    guess = (hidden @ w2).named("guess")
    loss = wb.mse(guess, y).named("loss")
    gradients = wb.backward(loss, [w1, w2])
    updates = {w: w - 0.1 * gradients[w] for w in (w1, w2)}
    ctx, routine = make().compile([loss], updates=updates, name="step")
    ctx = ctx.set_values({x: [[1.0, 1.0], [2.0, 0.0]], y: [[3.0], [1.0]]})
    return ctx, routine, {"hidden": hidden, "guess": guess, "loss": loss, "w1": w1, "x": x}


def test_a_card_says_where_a_node_lives_who_decided_and_why_it_cannot_be_read():
    ctx, routine, nodes = step()
    card = WhyCard(nodes["guess"], ctx.run(routine))
    assert "is virtual: it has no memory, and readers compute it again. Rule 0:" in card.sentence
    assert card.answer.startswith("It cannot be read: `hidden` of shape (batch, 2)")
    assert card.path == ["guess", "hidden"]
    text = str(card)
    assert "Path: " in text
    assert ".apply('materialize')" in text
    assert ".apply('max_visits')" in text


def test_the_routine_is_found_in_the_lineage_while_somebody_holds_it():
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    assert WhyCard(nodes["hidden"], ctx).routine is routine
    del routine
    card = WhyCard(nodes["hidden"], ctx)
    assert card.routine is None
    assert card.offers() == []
    assert "No routine is held any more" in str(card)
    assert "routine=routine" in card._repr_html_()
    with refused(wb.ConfigurationError, "nothing called `materialize`", remedy="name the routine"):
        card.apply("materialize")


def test_storing_the_node_asked_about_makes_it_readable_and_costs_its_bytes():
    ctx, routine, nodes = step()
    card = WhyCard(nodes["guess"], ctx.run(routine))
    done = card.apply("materialize")
    assert done.observability.is_readable
    guess = done.context.get_values(nodes["guess"])
    assert guess.shape == (2, 1)
    assert done.after.stored_bytes - done.before.stored_bytes == guess.nbytes
    assert present(done.before.step_s) > 0
    assert present(done.after.step_s) > 0
    assert "+8" in dict(done.changes())["stored"]
    assert "µs before" in str(done)


def test_raising_the_setting_keeps_the_node_virtual_and_it_is_computed_again():
    ctx, routine, nodes = step()
    done = WhyCard(nodes["guess"], ctx.run(routine)).apply("max_visits")
    assert done.observability.is_readable
    assert done.context.placements[nodes["hidden"]].mode is Mode.VIRTUAL
    assert present(done.context.settings).max_visits > 1
    stored = WhyCard(nodes["guess"], ctx).apply("materialize").context
    assert np.array_equal(done.context.get_values(nodes["loss"]), stored.get_values(nodes["loss"]))


def test_inlining_the_node_at_fault_lets_readers_compute_it():
    ctx, routine, nodes = step()
    done = WhyCard(nodes["guess"], ctx.run(routine)).apply("inline")
    was, now = (present(placement) for placement in done.placements)
    assert (was.mode, now.mode) == (Mode.LOCAL, Mode.VIRTUAL)
    assert done.observability.is_readable
    assert done.after.scratch_bytes <= done.before.scratch_bytes
    assert dict(done.changes())["hidden"].startswith("local (1: ")


def test_a_node_of_which_readers_need_one_row_can_be_boxed():
    x, w = wb.input("x", (64, 64)), wb.parameter(np.ones((64, 64), np.float32), "w")
    product = (x @ w).named("product")
    ctx, routine = wb.Context.cpu(1).compile([wb.exp(product[0])])
    ctx = ctx.set_values({x: np.full((64, 64), 0.01)}).run(routine)
    card = WhyCard(product, ctx)
    assert [offer.name for offer in card.offers()] == ["materialize", "inline", "footprint"]
    done = card.apply("footprint")
    assert present(done.placements[1]).mode is Mode.VIRTUAL
    assert done.after.stored_bytes + done.after.scratch_bytes < (
        done.before.stored_bytes + done.before.scratch_bytes
    )


def test_an_offer_that_a_compile_would_refuse_says_why_and_is_not_taken():
    x = wb.input("x", (3,))
    joined = wb.concat([x, x * 2.0], 0).named("joined")
    ctx, _routine = wb.Context.interpreter().compile([wb.exp(joined)])
    card = WhyCard(joined, ctx)
    (offer,) = [offer for offer in card.offers() if offer.is_refused]
    assert offer.name == "inline"
    assert offer.expected == "not possible: several statements write parts of it"
    with refused(wb.ConfigurationError, "nothing called `inline`", remedy="`materialize`"):
        card.apply("inline")
    assert ".apply('inline')" not in str(card)


def test_an_offer_that_changes_nothing_says_so():
    ctx, _, nodes = step()
    done = WhyCard(nodes["loss"], ctx).apply("run")
    assert dict(done.changes())["loss"].endswith(", as before")


def test_a_step_that_never_ran_can_be_run_from_the_card():
    ctx, routine, nodes = step()
    card = WhyCard(nodes["loss"], ctx)
    assert [offer.name for offer in card.offers()] == ["run"]
    assert card.apply("run").observability.is_readable
    assert not ctx.observability(nodes["loss"]).is_readable
    assert routine.name == "step"


def test_a_step_without_inputs_offers_no_run_and_is_compiled_all_the_same():
    x = wb.input("x", (4,))
    hidden = wb.exp(x).named("hidden")
    ctx, _routine = wb.Context.interpreter().compile([hidden.sum() * hidden])
    assert WhyCard(x, ctx).offers() == []
    fault = next((node for node, p in ctx.placements.items() if p.mode is Mode.LOCAL), None)
    assert fault is not None
    done = WhyCard(fault, ctx).apply("materialize")
    assert done.before.step_s is None
    assert not done.observability.is_readable
    ready = done.context.set_values({x: np.zeros(4, np.float32)}).run(done.routine)
    assert ready.observability(fault).is_readable


@pytest.mark.parametrize("make", [wb.Context.interpreter, lambda: wb.Context.cpu(2)])
def test_neither_a_card_nor_what_it_applies_changes_the_context_or_its_lineage(make):
    ctx, routine, nodes = step(make)
    ctx = ctx.run(routine)
    before, bound = state_of(ctx), list(routine._bound)
    for node in nodes.values():
        card = WhyCard(node, ctx)
        text, page = str(card), card._repr_html_()
        for offer in card.offers():
            card.apply(offer.name)
        assert (str(card), card._repr_html_()) == (text, page)
    assert state_of(ctx) == before
    assert list(routine._bound) == bound


def test_the_decisions_of_other_routines_hold_in_what_a_card_compiles():
    ctx, routine, nodes = step()
    other = wb.exp(nodes["w1"]).named("other")
    ctx, second = ctx.compile([other], name="second")
    ctx = ctx.run(routine).run(second)
    done = WhyCard(nodes["hidden"], ctx, routine).apply("materialize")
    assert done.context.placements[other].mode is Mode.ON_DEVICE


def test_names_are_escaped():
    x = wb.input("<img src=x onerror=alert(1)>", (3,))
    page = WhyCard(x, wb.Context.interpreter())._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page
    long = wb.input("x" * 10_000, (3,))
    assert "x" * 10_000 in WhyCard(long, wb.Context.interpreter())._repr_html_()


def test_a_trial_is_compiled_as_the_routine_was_whatever_is_set_when_it_is_asked_for():
    x = wb.input("x", (wb.batch, 2))
    hidden = wb.exp(x).named("hidden")
    with wb.settings(max_inline_reduction=100, max_visits=50, max_shared_cost=10**6):
        ctx, routine = wb.Context.cpu(1).compile([(hidden + hidden.sum()).sum()], rows=7)
    ctx = ctx.set_values({x: np.zeros((3, 2))}).run(routine)
    assert routine.conditions.rows == 7
    done = WhyCard(hidden, ctx).apply("materialize")
    others = [node for node in ctx.placements if node is not hidden]
    assert [done.context.placements[n].mode for n in others] == [
        ctx.placements[n].mode for n in others
    ]
    assert done.context.settings is None
    assert done.routine.conditions == routine.conditions


def test_bytes_that_are_shared_can_be_had_apart():
    x = wb.parameter(np.eye(80, dtype=np.float32) * 0.5, "x")
    first = (x @ x).named("first")
    with wb.settings(buffer_aliasing=True):
        ctx, routine = wb.Context.cpu(1).compile([((first @ x) @ x).sum().named("out")])
    ctx = ctx.run(routine)
    card = WhyCard(first, ctx)
    assert not card.observability.is_readable
    done = card.apply("buffer_aliasing")
    assert done.observability.is_readable
    assert np.array_equal(done.context.get_values(first), np.eye(80) * 0.25)


def test_a_routine_with_a_number_bound_at_launch_is_tried_with_the_same_number():
    number = wb.static_index("number", 4)
    table = wb.parameter(np.arange(12, dtype=np.float32).reshape(4, 3), "table")
    row = wb.take(table, number).named("row")
    ctx, routine = wb.Context.cpu(1).compile([row.sum().named("out")], bindings={number: 2})
    card = WhyCard(row, ctx.run(routine))
    done = card.apply(card.offers()[0].name)
    assert done.after.step_s is None
    assert done.context.get_values(done.routine.outputs[0]) == 6 + 7 + 8
