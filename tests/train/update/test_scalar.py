"""Numbers on the device that the host overwrites: rates by a schedule, sums of losses."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.callbacks.test_rate import COURSES, STEPS
from tests.train.update.problems import CONTEXTS, sloped
from workbench.errors import DTypeError
from workbench.runtime.context import Context


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_scheduled_rate_follows_its_table_on_the_device(course, dtype, root):
    schedule = wb.BudgetRate(1.0, 25, course=course, warmup=5, final_frac=0.1)
    rate = wb.scheduled_learning_rate(schedule, dtype=dtype)
    p, loss = sloped(dtype)
    step = wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=rate.rate)
    ctx, routine = root.compile(step)
    assert ctx.get_values(rate.rate) == pytest.approx(0.2)
    moved = []
    for number in STEPS:
        before = ctx.get_values(p)[0]
        ctx = rate.set_step(ctx, number).run(routine)
        moved.append((before - ctx.get_values(p)[0]) / 0.5)
    digits = 6e-7 if dtype == "float64" else 5e-6
    np.testing.assert_allclose(moved, COURSES[course], atol=digits)


def test_no_run_puts_back_what_a_scalar_was_made_with(root):
    scalar, seen = wb.host_scalar("scalar", 1.0), wb.state("seen", ())
    ctx, routine = root.compile([], updates={seen: scalar * 2.0})
    ctx = ctx.set_values({scalar: 5.0}).run(routine).run(routine)
    assert (ctx.get_values(scalar), ctx.get_values(seen)) == (5.0, 10.0)


def test_a_rate_that_changes_compiles_nothing(root):
    _, loss = sloped()
    rate = wb.host_scalar("lr", 0.1)
    ctx, routine = root.compile(wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=rate))
    kernels = len(routine.program.kernels)
    for value in (0.1, 0.05, 0.0):
        ctx = ctx.set_values({rate: value}).run(routine)
    assert len(routine.program.kernels) == kernels


def test_a_scalar_of_the_host_is_floating():
    with refused(DTypeError, "`count`", "int64", remedy="state"):
        wb.host_scalar("count", 1, "int64")


def test_an_epoch_with_a_sum_of_losses_is_read_once(root, monkeypatch):
    reads = []
    real = Context.get_values

    def counted(self, node):
        reads.append(node)
        return real(self, node)

    monkeypatch.setattr(Context, "get_values", counted)
    p, loss = sloped()
    total = wb.loss_accumulator("total", "float64")
    step = wb.grad_update(loss, accum_loss=total) + wb.sgd_update(loss, learning_rate=0.1)
    ctx, routine = root.compile(step)
    for _ in range(4):
        ctx = ctx.run(routine)
    # The loss falls by 0.1 * 6.5 a step, from 4.
    assert ctx.get_values(total) == pytest.approx(sum(4.0 - 0.65 * n for n in range(4)))
    assert len(reads) == 1
    assert p not in set(reads)


def test_a_sum_of_losses_takes_a_small_loss_after_millions(root):
    _, loss = sloped("float32")
    total = wb.loss_accumulator()
    ctx, routine = root.compile(wb.grad_update(loss, accum_loss=total))
    ctx = ctx.set_values({total: 2.0**30}).run(routine)
    assert float(ctx.get_values(total)) == 2.0**30 + 4.0
