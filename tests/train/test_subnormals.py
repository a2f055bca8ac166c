"""Training goes on in numbers that become ever smaller: they end at 0, and only there."""

import numpy as np
import pytest

import workbench as wb
from tests.train.training_digest import digest
from workbench.train.checkpoint import restore, save_checkpoint
from workbench_kernels import flushes_subnormals

pytestmark = pytest.mark.skipif(not flushes_subnormals(), reason="subnormals are not 0 here")

ROWS = wb.data.Dataset(np.ones((2000, 3), np.float32), np.zeros(2000, np.float32))


def loss(params, x, y):
    # Its gradient is 0 as soon as the weights are negative.
    return wb.mse(wb.relu(x @ params["w"]), y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)


def decaying(epochs, optimizer=wb.adam, threads=1):
    params = {"w": np.full(3, 0.002, np.float32)}
    config = wb.Config(epochs, 1, 0.01, 7, verbose=False)
    return wb.Run(params, optimizer(params), config, context=wb.Context.cpu(threads))


def trained(run, callbacks=()):
    wb.fit(run, list(callbacks), ROWS, None, step)
    return run


@pytest.fixture(scope="module")
def short():
    return trained(decaying(1))


def test_moments_become_zero_instead_of_stopping_at_the_smallest_number(short):
    assert short.losses[0] > 0 == short.losses[-1]
    # 2,000 steps are enough for the first moment, 0.9**n; the second, 0.999**n, is on its way.
    np.testing.assert_array_equal(short.opt.m["w"], 0.0)
    assert (short.opt.v["w"] > 1e-30).all()
    long = trained(decaying(50))
    np.testing.assert_array_equal(long.opt.v["w"], 0.0)
    np.testing.assert_array_equal(long.opt.m["w"], 0.0)
    assert np.isfinite(long.params["w"]).all()


def test_the_velocity_of_momentum_becomes_zero():
    run = trained(decaying(1, wb.momentum))
    assert run.losses[0] > 0 == run.losses[-1]
    np.testing.assert_array_equal(run.opt.m["w"], 0.0)


def test_numpy_computes_with_subnormals_while_and_after_a_run_trains():
    tiny, seen = np.float32(1e-39), []

    class Look(wb.Callback):
        def on_batch_end(self, event):
            seen.append(tiny * np.float32(0.5))

    run = decaying(1)
    run.start([Look()], ROWS, None, step)
    here = [tiny * np.float32(0.5) for _ in range(100)]
    run.wait()
    trained(decaying(1))
    assert len(seen) == ROWS.n
    assert {*seen, *here, tiny * np.float32(0.5)} == {np.float32(5e-40)}


@pytest.mark.parametrize("threads", [2, 3])
def test_more_threads_and_a_call_a_batch_decay_to_the_same_bits(short, threads):
    class Each(wb.Callback):
        def on_batch_end(self, event):
            pass

    assert digest(trained(decaying(1, threads=threads))) == digest(short)
    assert digest(trained(decaying(1, threads=threads), [Each()])) == digest(short)


def test_a_run_that_is_resumed_among_the_smallest_numbers_goes_on_to_the_same_bits(short, tmp_path):
    class Save(wb.Callback):
        def on_batch_end(self, event):
            if event.state.global_step == 760:
                save_checkpoint(event.run, tmp_path / "x")

    first = decaying(1)
    trained(first, [Save()])
    resumed = decaying(1)
    restore(resumed, tmp_path / "x")
    assert 0 < np.abs(resumed.opt.m["w"]).min() < 1e-36
    assert digest(trained(resumed)) == digest(short) == digest(first)
