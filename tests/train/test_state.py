import math

from workbench.train.config import Config
from workbench.train.state import RunState


def test_a_run_that_has_done_nothing_stands_at_zero_with_the_configured_rate():
    state = RunState.at_start(Config(60, 16, 0.01, 7))
    assert (state.epochs, state.lr, state.seed) == (60, 0.01, 7)
    assert (state.epoch, state.batch, state.batches, state.rows, state.global_step) == (0,) * 5
    assert math.isnan(state.train_loss)
    assert math.isnan(state.val_loss)
    assert len(state.val) == 0
    assert (state.stop, state.stop_reason, state.best_path) == (False, "", "")


def test_two_states_do_not_share_their_metrics():
    first, second = RunState(), RunState()
    first.val.update("loss", 1.0, 1)
    assert len(second.val) == 0


def test_the_first_reason_to_stop_is_kept():
    state = RunState()
    state.request_stop("the loss is not finite")
    state.request_stop("the time is up")
    assert (state.stop, state.stop_reason) == (True, "the loss is not finite")
