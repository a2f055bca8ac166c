"""Gradients have owners: what a lineage could not keep correct is refused, naming all concerned."""

from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def declaring(updates, outputs=(), name="part", **declared):
    """A computation that says of gradients what a code builder would say."""
    made = wb.computation(outputs, updates, name=name)
    sets = {key: frozenset(value) for key, value in declared.items() if key != "accumulation_runs"}
    runs = declared.get("accumulation_runs", 1)
    return replace(made, **sets, accumulation_runs=runs)


@pytest.fixture
def trunk():
    """Two heads on one hidden node, whose gradient each of them adds to."""
    w = wb.parameter([2.0], "w")
    hidden = (w * 3.0).named("hidden")
    slope = wb.state("grad_hidden", (1,))
    return w, hidden, slope


def head(trunk, name, *, zeroes=False, **declared):
    _, hidden, slope = trunk
    new = hidden * 0.0 + 1.0
    return declaring(
        {slope: new if zeroes else slope + new},
        name=name,
        accumulates=[slope],
        zeroes=[slope] if zeroes else [],
        **declared,
    )


def clear(trunk):
    return declaring({trunk[2]: trunk[2] * 0.0}, name="clear", zeroes=[trunk[2]])


def propagate(trunk, into):
    _, hidden, slope = trunk
    return declaring(
        {into: slope * 3.0}, name="propagate", owned=[hidden], accumulates=[into], zeroes=[into]
    )


# -- one owner of each backward fragment


def test_a_second_owner_of_a_fragment_is_refused_naming_both_before_anything_is_lowered(
    root, trunk, monkeypatch
):
    w, hidden, _ = trunk
    first, second = (
        declaring({}, [hidden], name=name, owned=[hidden, w]) for name in ("first", "second")
    )
    ctx, owner = root.compile(first)
    monkeypatch.setattr("workbench.runtime.compiling.lower", None)
    with refused(
        wb.CompileError,
        "`second`",
        "`hidden`",
        "`w`",
        f"`first` (id={owner.id})",
        "twice",
        remedy=f"run `first` (id={owner.id}) again",
    ):
        ctx.compile(second)
    monkeypatch.undo()
    # As the remedy says: a sibling is an alternative.
    sibling, alternative = root.compile(second)
    assert sibling.run(alternative).get_values(hidden).tolist() == [6.0]
    assert ctx.run(owner).run(owner).get_values(hidden).tolist() == [6.0]


def test_a_whole_way_back_is_compiled_again_in_one_lineage(root):
    w = wb.parameter([2.0], "w")
    loss = (w * w).sum().named("loss")
    ctx, first = root.compile(wb.grad_update(loss))
    ctx, again = ctx.compile(wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=0.25))
    ctx = ctx.run(first).run(again)
    assert ctx.get_values(wb.gradient_of(w)).tolist() == [4.0]
    assert ctx.get_values(w).tolist() == [1.0]


def test_a_way_back_that_needs_another_routine_has_one_owner(root, trunk):
    made = head(trunk, "whole", zeroes=True, requires=[trunk[1]], owned=[trunk[1]])
    ctx, routine = root.compile(made)
    with refused(wb.CompileError, "`whole`", f"(id={routine.id})", "twice"):
        ctx.compile(made)


def test_a_compile_that_fails_owns_nothing(root, trunk, monkeypatch):
    _, hidden, _ = trunk
    made = declaring({}, [hidden], name="first", owned=[hidden])

    def fail(*_):
        raise wb.CompileError("no code", remedy="none")

    monkeypatch.setattr(type(root.backend), "compile", fail)
    with refused(wb.CompileError, "no code"):
        root.compile(made)
    monkeypatch.undo()
    ctx, routine = root.compile(made)
    assert ctx.run(routine).get_values(hidden).tolist() == [6.0]


# -- several routines that add to one gradient


def test_losses_that_add_to_one_gradient_are_refused_if_nothing_resets_it(root):
    w = wb.parameter([2.0], "w")
    first, second = (w * w).sum().named("first"), (w * 3.0).sum().named("second")
    ctx, routine = root.compile(wb.grad_update(first, accum_steps=1))
    with refused(
        wb.CompileError,
        "`second gradient update`",
        "`grad_w`",
        f"`first gradient update` (id={routine.id})",
        "neither",
        remedy="zero_params_grads",
    ):
        ctx.compile(wb.grad_update(second, accum_steps=1))
    # One remedy: one routine over the sum.
    ctx, both = root.compile(wb.grad_update((first + second).named("both")))
    assert ctx.run(both).get_values(wb.gradient_of(w)).tolist() == [7.0]
    # The other: a reset of its own first.
    ctx, reset = root.compile(wb.zero_params_grads(first))
    ctx, one = ctx.compile(wb.grad_update(first, accum_steps=1))
    ctx, two = ctx.compile(wb.grad_update(second, accum_steps=1))
    for _ in range(2):
        ctx = ctx.run(reset).run(one).run(two)
        assert ctx.get_values(wb.gradient_of(w)).tolist() == [7.0]


def test_contributors_without_any_reset_in_their_lineage_are_refused(root, trunk):
    ctx, _ = root.compile(head(trunk, "first"))
    with refused(wb.CompileError, "`grad_hidden`", "nothing in this lineage zeroes it"):
        ctx.compile(head(trunk, "second"))


def test_a_reset_between_two_contributors_is_refused_to_the_second(root, trunk):
    ctx, _ = root.compile(head(trunk, "first"))
    ctx, reset = ctx.compile(clear(trunk))
    with refused(wb.CompileError, f"`clear` (id={reset.id})", "after", "`first`"):
        ctx.compile(head(trunk, "second"))


@pytest.mark.parametrize(("one", "other"), [(True, False), (False, True)])
def test_a_contributor_that_resets_is_refused_beside_another(root, trunk, one, other):
    ctx, _ = root.compile(clear(trunk))
    ctx, _ = ctx.compile(head(trunk, "first", zeroes=one))
    with refused(wb.CompileError, "`grad_hidden`", "`first`", "`second`", "loses"):
        ctx.compile(head(trunk, "second", zeroes=other))


def test_three_contributors_after_one_reset_add_up(root, trunk):
    ctx, reset = root.compile(clear(trunk))
    heads = []
    for name in ("first", "second", "third"):
        ctx, routine = ctx.compile(head(trunk, name))
        heads.append(routine)
    for _ in range(2):
        ctx = ctx.run(reset)
        for routine in heads:
            ctx = ctx.run(routine)
        assert ctx.get_values(trunk[2]).tolist() == [3.0]


def test_siblings_that_add_to_one_gradient_never_collide(root, trunk):
    _, one = root.compile(head(trunk, "first", zeroes=True))
    ctx, two = root.compile(head(trunk, "second", zeroes=True))
    assert one.id != two.id
    assert ctx.run(two).get_values(trunk[2]).tolist() == [1.0]


def test_writes_by_hand_do_not_count(root, trunk):
    _, hidden, slope = trunk
    ctx, _ = root.compile(head(trunk, "first", zeroes=True))
    ctx, _ = ctx.compile([], updates={slope: slope + hidden}, name="by hand")
    assert ctx.frontier.writers[slope]


# -- contributors come before what propagates


def test_a_contributor_after_what_propagates_is_refused_naming_both(root, trunk):
    into = wb.state("grad_w", (1,))
    ctx, last = root.compile(propagate(trunk, into))
    late = head(trunk, "late", requires=[trunk[1]])
    with refused(
        wb.CompileError,
        "`late`",
        "`hidden`",
        f"`propagate` (id={last.id})",
        remedy="compile `late` first and `propagate`",
    ):
        ctx.compile(late)


def test_a_contributor_before_what_propagates_reaches_the_parameter(root, trunk):
    into = wb.state("grad_w", (1,))
    ctx, reset = root.compile(clear(trunk))
    ctx, early = ctx.compile(head(trunk, "early", requires=[trunk[1]]))
    ctx, last = ctx.compile(propagate(trunk, into))
    ctx = ctx.run(reset).run(early).run(last)
    assert ctx.get_values(into).tolist() == [3.0]


# -- what a gradient flows into must be owned in the lineage


def test_a_gradient_that_nothing_propagates_is_refused_by_the_run(root, trunk):
    compiled, early = root.compile(head(trunk, "early", requires=[trunk[1]]))
    with refused(
        wb.ExecutionError, "`early`", "`hidden`", "dropped", remedy="compile the one routine in"
    ):
        compiled.run(early)
    with refused(wb.ExecutionError, "`hidden`"):
        compiled.check_lineage_runnable(early)
    # An owner compiled later, in what the compile returned, counts.
    ctx, last = compiled.compile(propagate(trunk, wb.state("grad_w", (1,))))
    assert ctx.run(early).run(last).get_values(trunk[2]).tolist() == [1.0]
    # But not for a context that does not come from there.
    with refused(wb.ExecutionError, "`hidden`", f"`propagate` (id={last.id})"):
        compiled.run(early)


def test_an_owner_in_a_sibling_does_not_count_even_if_it_ran(root, trunk):
    sibling, last = root.compile(propagate(trunk, wb.state("grad_w", (1,))))
    sibling.run(last)
    ctx, early = root.compile(head(trunk, "early", requires=[trunk[1]]))
    with refused(
        wb.ExecutionError, "`hidden`", f"`propagate` (id={last.id})", "sibling does not count"
    ):
        ctx.run(early)


def test_a_routine_may_own_what_it_requires(root, trunk):
    ctx, routine = root.compile(
        head(trunk, "whole", zeroes=True, requires=[trunk[1]], owned=[trunk[1]])
    )
    assert ctx.run(routine).get_values(trunk[2]).tolist() == [1.0]


def test_the_owner_is_asked_for_before_inputs_and_order(root, trunk):
    x = wb.input("x", (1,))
    _, _, slope = trunk
    made = declaring({slope: slope + x}, name="early", requires=[trunk[1]])
    ctx, early = root.compile(made)
    with refused(wb.ExecutionError, "`hidden`"):
        ctx.run(early)


# -- a gradient that adds up from run to run


def test_adding_to_a_gradient_again_without_a_reset_is_refused_naming_what_resets_it(root, trunk):
    ctx, reset = root.compile(clear(trunk))
    ctx, add = ctx.compile(head(trunk, "add"))
    ctx = ctx.run(reset).run(add)
    with refused(
        wb.ExecutionError,
        "`add`",
        "`grad_hidden`",
        "once",
        remedy=f"run `clear` (id={reset.id}) first",
    ):
        ctx.run(add)
    ctx.check_runnable(add)  # a matter of history, not of whether it can run
    assert ctx.get_values(trunk[2]).tolist() == [1.0]
    ctx = ctx.run(reset).run(add)
    assert ctx.get_values(trunk[2]).tolist() == [1.0]


def test_a_gradient_without_a_routine_that_resets_it_is_reset_from_outside(root, trunk):
    ctx, add = root.compile(head(trunk, "add"))
    ctx = ctx.run(add)
    with refused(wb.ExecutionError, "`grad_hidden`", remedy="set_values"):
        ctx.run(add)
    ctx = ctx.set_values({trunk[2]: [10.0]}).run(add)
    assert ctx.get_values(trunk[2]).tolist() == [11.0]


def test_as_many_micro_steps_as_were_asked_for_are_allowed(root):
    w = wb.parameter([2.0], "w")
    loss = (w * w).sum().named("loss")
    ctx, reset = root.compile(wb.zero_params_grads(loss))
    ctx, micro = ctx.compile(wb.grad_update(loss, accum_steps=3))
    for _ in range(2):
        ctx = ctx.run(reset)
        for _ in range(3):
            ctx = ctx.run(micro)
        np.testing.assert_allclose(ctx.get_values(wb.gradient_of(w)), [4.0], rtol=1e-6)
        with refused(wb.ExecutionError, "`grad_w`", "3 times", remedy="accum_steps"):
            ctx.run(micro)


def test_timing_may_add_up_and_its_runs_count(root, trunk):
    ctx, reset = root.compile(clear(trunk))
    ctx, add = ctx.compile(head(trunk, "add", accumulation_runs=2))
    ctx = ctx.run(reset)
    for _ in range(5):
        ctx = ctx.run(add, timing=True)
    with refused(wb.ExecutionError, "5 times", "2 times"):
        ctx.run(add)


def test_routines_are_counted_each_for_itself(root, trunk):
    ctx, reset = root.compile(clear(trunk))
    ctx, one = ctx.compile(head(trunk, "one"))
    ctx, two = ctx.compile(head(trunk, "two"))
    ctx = ctx.run(reset).run(one).run(two)
    for again in (one, two):
        with refused(wb.ExecutionError, f"`{again.name}`", "once"):
            ctx.run(again)


def test_buffers_are_counted_each_for_itself(trunk):
    for make in CONTEXTS.values():
        ctx, add = make().compile(head(trunk, "add"))
        assert ctx.run(add).get_values(trunk[2]).tolist() == [1.0]


def test_a_saved_history_is_put_back_with_the_values(root, trunk):
    ctx, reset = root.compile(clear(trunk))
    ctx, add = ctx.compile(head(trunk, "add"))
    ctx = ctx.run(reset).run(add)
    saved, restore = ctx.get_values(trunk[2]), ctx.save_accumulation_history()
    for _ in range(3):
        ctx = ctx.run(add, timing=True)
    ctx = ctx.set_values({trunk[2]: saved})
    restore()
    # Neither the runs nor the upload count: the gradient holds one step, as it did.
    with refused(wb.ExecutionError, "once"):
        ctx.run(add)
    restore()
    ctx = ctx.run(reset).run(add)
    assert ctx.get_values(trunk[2]).tolist() == [1.0]


def test_a_run_taken_back_does_not_count(root, trunk):
    ctx, add = root.compile(head(trunk, "add"))
    ctx = ctx.run(add)
    ctx.rollback_execution(add)
    assert ctx.run(add).get_values(trunk[2]).tolist() == [2.0]


def test_a_gradient_that_nobody_wrote_reads_as_the_zero_that_it_is(root):
    # Memory of an accumulator is right as it comes; that of any other input is not.
    gradient, x = wb.input("gradient", (1,)), wb.input("x", (1,))
    made = declaring({gradient: gradient + 1.0}, name="add", accumulates=[gradient])
    ctx, add = root.compile(made)
    show, other = (gradient * 2.0).named("show"), (x * 2.0).named("other")
    sibling, reader = root.compile(declaring({}, [show], name="reader", accumulates=[gradient]))
    assert sibling.run(reader).get_values(show).tolist() == [0.0]
    with refused(wb.ExecutionError, "`gradient`", "read before it is written"):
        ctx.run(add)
    ctx, reader = root.compile([other])
    with refused(wb.ExecutionError, "`x`"):
        ctx.run(reader)


def test_refusals_come_in_one_order_each_when_the_one_before_is_mended(root, trunk):
    """Poison, owner, input, order, binding, reset."""
    w, hidden, slope = trunk
    x, at = wb.input("x", (1,)), wb.static_index("at", 2)
    bindings = {}
    row = wb.take(wb.parameter([[1.0], [2.0]], "table"), at)
    doomed, doomed_routine = root.compile([hidden], name="doomed")
    doomed.poison_lineage(doomed_routine, ValueError("broken"))

    def everything(base):
        ctx, first = base.compile([], updates={w: w * 1.0}, name="first")
        made = declaring(
            {slope: slope + x * w * row}, name="last", accumulates=[slope], requires=[hidden]
        )
        ctx, last = ctx.compile(made, bindings=bindings)
        return ctx, first, last

    ctx, _, last = everything(doomed)
    with refused(wb.ExecutionError, "ValueError: broken"):
        ctx.run(last)
    fresh = CONTEXTS["interpreter"]()
    ctx, first, last = everything(fresh)
    with refused(wb.ExecutionError, "gradient of `hidden`"):
        ctx.run(last)
    ctx, _ = ctx.compile(declaring({}, [hidden], name="owner", owned=[hidden]))
    with refused(wb.ExecutionError, "`x`", remedy="set_values"):
        ctx.run(last)
    ctx = ctx.set_values({x: [1.0]})
    with refused(wb.ExecutionError, "`first`", remedy="run `first`"):
        ctx.run(last)
    ctx = ctx.run(first)
    with refused(wb.ExecutionError, "`at`", remedy="bindings"):
        ctx.run(last)
    bindings[at] = 1
    ctx = ctx.run(last)
    assert ctx.get_values(slope).tolist() == [4.0]
    with refused(wb.ExecutionError, "`grad_hidden`", "once"):
        ctx.run(last)
    bindings.clear()
    with refused(wb.ExecutionError, "`at`", remedy="bindings"):
        ctx.run(last)
    assert ctx.get_values(slope).tolist() == [4.0]
