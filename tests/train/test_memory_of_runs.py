"""A cell that makes a run, trains it and is run again: memory stays flat, without a collection."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.backends.device import device


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def cell():
    """Train a new run for an epoch and return it."""
    x = np.ones((64, 8), np.float32)
    data = wb.data.Dataset(x, x[:, :1])
    params = {"w": wb.he_normal(8, 1, seed=1, purpose="w")}
    run = wb.Run(
        params, wb.adam(params), wb.Config(1, batch_size=16, lr=0.01, seed=1, verbose=False)
    )

    @run.step
    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.mse(x @ p["w"], y))

    wb.fit(run, [], data, data)
    return run


@pytest.mark.usefixtures("no_collection")
def test_a_training_cell_that_is_run_again_holds_memory_flat_and_dropping_the_run_frees_it():
    processor = device("cpu")
    before = processor.used()
    run = cell()
    sizes = {processor.used()}
    for _ in range(5):
        run = cell()
        sizes.add(processor.used())
    assert len(sizes) == 1
    assert run.context.held_memory() > 0
    del run
    assert processor.used() == before


@pytest.mark.usefixtures("no_collection")
def test_a_version_of_a_step_that_is_kept_keeps_no_run_and_says_so():
    before = device("cpu").used()
    run = cell()
    version = run.step_history[0]
    assert device("cpu").used() > before
    del run
    assert device("cpu").used() == before
    with refused(wb.ConfigurationError, "the run of this step is gone", remedy="in a variable"):
        version.restore()
