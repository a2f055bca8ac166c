import math

import pytest

from tests.refusal import refused
from tests.train.callbacks.paper import Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import Callback, validate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.stopping import may_stop_early
from workbench.train.config import Config


def stopping(patience=2, monitor="loss", **options):
    return EarlyStopping(monitor, patience, **{"higher_is_better": False, **options})


def run_until_stopped(paper, evaluations, most=50):
    """Run epochs with these losses, the last one for ever; return the epoch that was the last."""
    for epoch in range(most):
        paper.epoch(val={"loss": evaluations[min(epoch, len(evaluations) - 1)]})
        if paper.state.stop:
            break
    return paper.state.epoch


def test_patience_of_two_stops_at_the_fourth_of_four_equal_losses():
    stopper = stopping()
    paper = Paper([stopper]).begin()
    seen = []
    for _ in range(4):
        paper.epoch(val={"loss": 1.0})
        seen.append((paper.state.stop, stopper.best.wait))
    assert seen == [(False, 0), (False, 1), (False, 2), (True, 3)]
    assert paper.state.stop_reason == (
        "loss has not improved for 3 evaluations (patience 2); best was 1.0000 at epoch 1"
    )


def test_only_evaluations_are_judged():
    stopper = stopping(0, "train_loss")
    paper = Paper([stopper]).begin()
    for _ in range(5):
        paper.epoch(1.0)
    assert not stopper.best.seen
    assert not paper.state.stop


def test_the_training_loss_is_judged_at_evaluations():
    stopper = stopping(0, "train_loss")
    paper = Paper([stopper]).begin()
    paper.epoch(1.0, val={"loss": 5.0}).epoch(2.0, val={"loss": 1.0})
    assert paper.state.stop_reason.startswith("train_loss has not improved for 1 evaluations")


def test_patience_counts_evaluations_so_that_with_every_second_epoch_it_lasts_twice_as_long():
    paper = Paper([stopping(3)], Config(50, 4, 0.1, 0, eval_every=2)).begin()
    while not paper.state.stop:
        paper.epoch()
        paper.epoch(val={"loss": 1.0})
    # One evaluation is the best, three are let pass, the fifth is one too many.
    assert paper.state.epoch == 10


def test_evaluations_within_an_epoch_stop_too_early_unless_a_least_number_of_epochs_is_asked_for():
    def epochs(**options):
        paper = Paper([stopping(3, **options)]).begin()
        while not paper.state.stop:
            paper.epoch(during=lambda: paper.evaluate(loss=1.0))
        return paper.state.epoch

    assert epochs() == 2
    # Seven are complete when the eighth is evaluated for the first time.
    assert epochs(min_epochs=7) == 8


def test_it_does_not_stop_before_the_least_number_of_epochs():
    assert run_until_stopped(Paper([stopping(1)]).begin(), [1.0]) == 3
    assert run_until_stopped(Paper([stopping(1, min_epochs=8)]).begin(), [1.0]) == 8
    # Progress at the last moment counts.
    late = [1.0] * 7 + [0.5]
    assert run_until_stopped(Paper([stopping(1, min_epochs=8)]).begin(), late) == 10


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("higher", [True, False])
def test_nan_is_not_counted_as_an_improvement_and_stops_with_a_reason(odd, higher):
    paper = Paper([stopping(2, higher_is_better=higher)]).begin()
    assert run_until_stopped(paper, [odd]) == 3
    assert paper.state.stop_reason == (
        "loss has not been finite for 3 evaluations (patience 2); it never was"
    )


def test_nan_after_a_finite_value_leaves_the_best_one():
    paper = Paper([stopping(1)]).begin()
    assert run_until_stopped(paper, [0.5, math.nan, math.nan]) == 3
    assert paper.state.stop_reason.endswith("best was 0.5000 at epoch 1")


def test_a_run_that_is_resumed_keeps_its_patience():
    # A wait that began at 0 again would let a run that is resumed often go on for ever.
    first = stopping(3)
    paper = Paper([first]).begin()
    paper.epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0})
    second = stopping(3)
    second.unpack(first.pack())
    assert run_until_stopped(paper.resumed([second]).begin(), [1.0]) == 5


def test_what_is_checkpointed_after_an_epoch_does_not_lag_behind_by_one():
    stopper = stopping(5)
    packed = []

    class Snapshot(Callback):
        band = 30

        def on_epoch_end(self, event):
            packed.append([stopper.pack()[name] for name in ("wait", "best", "epoch", "seen")])

    paper = Paper([stopper, Snapshot()]).begin()
    paper.epoch(val={"loss": 1.0}).epoch(val={"loss": 2.0})
    assert packed == [[0, 1.0, 1, True], [1, 1.0, 1, True]]


def test_a_run_that_was_stopped_and_is_continued_stops_at_its_next_bad_evaluation():
    stopper = stopping(2)
    paper = Paper([stopper]).begin()
    assert run_until_stopped(paper, [1.0]) == 4
    paper.state.stop, paper.state.stop_reason = False, ""
    assert run_until_stopped(paper.begin(), [1.0]) == 5


def test_two_early_stoppers_are_refused():
    with refused(
        ConfigurationError, "`EarlyStopping(loss)` and `EarlyStopping(accuracy)` both write `stop`"
    ):
        validate([stopping(), stopping(monitor="accuracy")])


def test_a_metric_that_another_callback_makes_can_be_monitored():
    class Half(Callback):
        band = 15
        writes = ("half",)

        def on_eval_end(self, event):
            event.metrics.update("half", event.metrics.value("loss") / 2, 1)

    stopper = stopping(0, "half")
    Paper([stopper, Half()]).begin().epoch(val={"loss": 3.0})
    assert stopper.best.value == 1.5


def test_a_metric_that_a_later_callback_makes_is_refused_before_the_run():
    late = type("Late", (Callback,), {"writes": ("f1",), "on_eval_end": lambda self, event: None})()
    with refused(ConfigurationError, "`EarlyStopping(f1)` in band 20 reads `f1`", "band 40 writes"):
        validate([stopping(monitor="f1"), late])


def test_a_metric_that_does_not_exist_is_reported_once_with_those_that_do():
    paper = Paper([stopping(monitor="val_f1")]).begin()
    paper.epoch(val={"loss": 1.0, "accuracy": 0.5}).epoch(val={"loss": 1.0, "accuracy": 0.5})
    assert paper.texts == [
        "`val_f1` cannot stop this run: `val_f1` is not a metric of the evaluation, which has "
        "loss, accuracy, train_loss"
    ]


def test_a_run_without_evaluations_is_warned_at_its_first_epoch():
    paper = Paper([stopping()]).begin()
    assert paper.texts == []
    paper.epoch().epoch()
    (text,) = paper.texts
    assert text.startswith("`loss` cannot stop this run: nothing is evaluated")


def test_a_run_that_never_evaluates_by_its_configuration_is_warned_at_once():
    paper = Paper([stopping()], Config(5, 4, 0.1, 0, eval_every=0)).begin()
    assert len(paper.texts) == 1
    paper.epoch().epoch()
    assert len(paper.texts) == 1


def test_a_run_that_evaluates_every_second_epoch_is_not_warned():
    paper = Paper([stopping()], Config(5, 4, 0.1, 0, eval_every=2)).begin()
    paper.epoch().epoch(val={"loss": 1.0}).epoch()
    assert paper.texts == []


def test_it_tells_that_the_run_may_end_early():
    assert may_stop_early([Paper, stopping()])
    assert not may_stop_early([Callback()])


def restoring(losses, outcome="completed", patience=9):
    """Run epochs that leave their number as parameters; return the run and what was said."""
    paper = Paper([stopping(patience, restore_best=True)]).begin()
    for epoch, loss in enumerate(losses, start=1):
        paper.run.params = {"w": epoch}
        paper.epoch(val={"loss": loss})
    paper.end(outcome)
    return paper.run.params["w"], paper.texts


def test_the_best_parameters_are_given_back_when_all_epochs_were_run():
    last, texts = restoring([3.0, 1.0, 2.0])
    assert last == 2
    assert texts == ["the parameters are those of epoch 2, the best (loss 1.0000)"]


def test_the_best_parameters_are_given_back_when_it_stopped_the_run():
    assert restoring([1.0, 2.0, 2.0], "stopped", patience=1)[0] == 1


@pytest.mark.parametrize("outcome", ["stopped", "interrupted", "failed"])
def test_a_run_that_others_ended_keeps_its_parameters_to_go_on_with(outcome):
    assert restoring([1.0, 2.0, 3.0], outcome) == (3, [])


def test_parameters_are_left_alone_unless_it_was_asked_to():
    paper = Paper([stopping(0)]).begin()
    for epoch in (1, 2):
        paper.run.params = epoch
        paper.epoch(val={"loss": 1.0})
    assert (paper.end("stopped").run.params, paper.texts) == (2, [])


def test_best_parameters_of_before_a_resume_come_back():
    first = stopping(9, restore_best=True)
    paper = Paper([first]).begin()
    paper.run.params = {"w": 1}
    paper.epoch(val={"loss": 1.0})
    second = stopping(9, restore_best=True)
    second.unpack(first.pack())
    rest = paper.resumed([second]).begin()
    rest.run.params = {"w": 2}
    rest.epoch(val={"loss": 2.0}).end()
    assert rest.run.params == {"w": 1}
    assert rest.texts == ["the parameters are those of epoch 1, the best (loss 1.0000)"]


def test_best_parameters_that_were_not_kept_are_not_made_up():
    first = stopping(9)
    paper = Paper([first]).begin().epoch(val={"loss": 1.0})
    second = stopping(9, restore_best=True)
    second.unpack(first.pack())
    rest = paper.resumed([second]).begin()
    rest.run.params = "last"
    rest.epoch(val={"loss": 2.0}).end()
    assert rest.run.params == "last"
    assert "of epoch 1 (loss 1.0000), were not kept" in rest.texts[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"patience": -1}, "`patience` must be an integer of at least 0, got -1"),
        ({"min_epochs": 1.5}, "`min_epochs` must be an integer of at least 0, got 1.5"),
    ],
)
def test_an_option_out_of_range_is_refused(options, named):
    with refused(ConfigurationError, named):
        stopping(**options)
