"""The linear toy, replayed by ``fit`` with the row orders of its trajectories."""

import numpy as np
import pytest

import workbench as wb

TOLERANCE = 1e-9  # float64; the trajectories were computed in another order of additions


class Trajectory:
    """Remembers loss and parameters after every epoch."""

    def __init__(self):
        self.epochs = []

    def on_epoch_end(self, event):
        self.epochs.append((event.loss, event.run.params))


def squared_error(params, x, y):
    return wb.mse(x @ params["w"] + params["b"], y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, squared_error)


def replay(toy, optimizer, epochs, lr, context):
    data = wb.data.Dataset(toy["x"], toy["y"], dtype=np.float64)
    params = {"w": np.zeros(2), "b": np.zeros(())}
    config = wb.Config(epochs, toy["batch_size"], lr, toy["seed"], verbose=False)
    run = wb.Run(params, optimizer(params), config, context=context)
    seen = Trajectory()
    orders = toy["epoch_orders"]
    history = wb.fit(run, [seen], data, None, step, row_order=orders.__getitem__)
    return run, history, seen.epochs


def close(actual, expected):
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.fixture(params=["cpu", "interpreter"])
def context(request):
    return wb.Context.cpu(2) if request.param == "cpu" else wb.Context.interpreter()


CASES = {
    "adam20": (wb.adam, 0.05),
    "sgd_lr001_5": (wb.sgd, 0.01),
    "momentum09_lr001_5": (wb.momentum, 0.01),
}


@pytest.mark.parametrize("name", CASES)
def test_every_epoch_of_the_trajectory_is_met(toy, name, context):
    optimizer, lr = CASES[name]
    expected = toy[name]
    run, history, seen = replay(toy, optimizer, len(expected), lr, context)
    assert [row["epoch"] for row in expected] == history.column("epoch").tolist()
    assert len(seen) == len(expected)
    for (loss, params), row in zip(seen, expected, strict=True):
        close(loss, row["train_loss"])
        close(params["w"], row["w"])
        close(params["b"], row["b"])
    close(history.column("train_loss"), [row["train_loss"] for row in expected])
    assert run.state.global_step == 3 * len(expected)


def test_adam_ends_with_the_moments_and_the_count_of_the_trajectory(toy, context):
    run, _, _ = replay(toy, wb.adam, 20, toy["lr"], context)
    expected = toy["adam20_opt"]
    close(run.opt.m["w"], expected["m_w"])
    close(run.opt.v["w"], expected["v_w"])
    close(run.opt.m["b"], expected["m_b"])
    close(run.opt.v["b"], expected["v_b"])
    assert run.opt.t == expected["t"] == 60


def test_momentum_counts_its_steps_and_plain_descent_does_not(toy, context):
    counted, _, _ = replay(toy, wb.momentum, 5, 0.01, context)
    plain, _, _ = replay(toy, wb.sgd, 5, 0.01, context)
    assert (int(counted.opt.t), int(plain.opt.t)) == (15, 0)


def test_the_orders_of_the_trajectory_are_not_those_of_the_seed(toy):
    # The two seed derivations differ, which is why the orders have to be given.
    own = [wb.data.row_order(10, seed=3, epoch=epoch).tolist() for epoch in range(3)]
    assert own != toy["epoch_orders"][:3]
    assert all(sorted(order) == list(range(10)) for order in own)
