import dataclasses
import io
import itertools

import pytest

from tests.refusal import refused
from tests.train.callbacks.paper import Clock, Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import hooks_of
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.progress import Progress
from workbench.train.config import Config
from workbench.train.events import EvalEnd, Hook


@pytest.fixture
def clock():
    return Clock()


def made(clock, *, config=None, width=10, batch_every=0, **options):
    progress = Progress(width, batch_every, clock=clock)
    return Paper([progress], config or Config(10, 4, 0.1, 0), **options)


def test_after_an_epoch_the_bar_is_the_share_of_the_epochs(clock):
    paper = made(clock).begin()
    clock.move(1)
    paper.epoch(0.5)
    assert paper.texts == ["epoch  1/10  [#.........]  loss 0.5000  at most 9 s left"]
    assert paper.said[0].in_place


def test_within_an_epoch_the_bar_is_the_share_of_its_batches(clock):
    paper = made(clock, batch_every=2, batches=5).begin()
    paper.epoch(0.5, during=lambda: clock.move(1))
    # Batches 0, 2 and 4, then the epoch, which comes at the same moment and waits.
    assert paper.texts == [
        "epoch  1/10  [##........]  loss 0.5000",
        "epoch  1/10  [######....]  loss 0.5000  47 s left",
        "epoch  1/10  [##########]  loss 0.5000  45 s left",
    ]
    assert paper.end().texts[3:] == ["epoch  1/10  [#.........]  loss 0.5000  45 s left"]


def test_batches_are_shown_at_each_so_many_of_their_numbers(clock):
    paper = made(clock, batch_every=3, batches=7).begin()
    paper.epoch(during=lambda: clock.move(1))
    assert len([text for text in paper.texts if text.startswith("epoch  1/10")]) == 3
    assert Hook.BATCH_END not in hooks_of(Progress())


def test_there_are_at_most_ten_updates_a_second_and_the_last_state_is_shown(clock):
    paper = made(clock, config=Config(1000, 4, 0.1, 0)).begin()
    for _ in range(1000):
        clock.move(0.001)
        paper.epoch()
    assert len(paper.said) in (10, 11)
    paper.end()
    assert paper.texts[-1] == "epoch 1000/1000  [##########]  loss 1.0000"


def test_nothing_is_shown_twice_at_the_end(clock):
    paper = made(clock).begin()
    clock.move(1)
    paper.epoch()
    shown = len(paper.said)
    assert len(paper.end().said) == shown == 1


def test_a_run_that_is_not_to_talk_is_silent(clock):
    paper = made(clock, config=Config(3, 4, 0.1, 0, verbose=False), batch_every=1).begin()
    paper.epoch(during=lambda: clock.move(1)).end()
    assert paper.said == []


def test_a_resumed_run_is_not_credited_with_epochs_that_it_did_not_run(clock):
    paper = made(clock, config=Config(20, 4, 0.1, 0), batches=1)
    paper.state.epoch = paper.state.global_step = 10
    paper.begin()
    clock.move(2)
    paper.epoch()
    clock.move(2)
    paper.epoch()
    assert paper.texts == [
        "epoch 11/20  [#####.....]  loss 1.0000",
        "epoch 12/20  [######....]  loss 1.0000  16 s left",
    ]


def test_a_run_that_may_stop_early_takes_at_most_so_long(clock):
    paper = made(clock)
    paper.run.callbacks = (EarlyStopping("loss", higher_is_better=False),)
    paper.begin()
    for _ in range(2):
        clock.move(3)
        paper.epoch()
    assert paper.texts[-1].endswith("at most 24 s left")


def test_more_epochs_take_more_time_while_the_run_goes_on(clock):
    paper = made(clock).begin()
    for _ in range(2):
        clock.move(3)
        paper.epoch()
    paper.run.config = dataclasses.replace(paper.run.config, epochs=100)
    clock.move(3)
    paper.epoch()
    assert paper.texts[1].endswith(" 24 s left")
    assert paper.texts[2] == "epoch   3/100  [..........]  loss 1.0000  4 min 51 s left"


def test_another_batch_size_is_measured_anew(clock):
    paper = made(clock, batches=6).begin()
    for _ in range(2):
        clock.move(6)
        paper.epoch()
    paper.run.config = dataclasses.replace(paper.run.config, batch_size=12)
    paper.batches = paper.state.batches = 2
    paper.begin()
    for _ in range(2):
        clock.move(4)
        paper.epoch()
    assert paper.texts[1].endswith(" 48 s left")
    assert paper.texts[-1].endswith(" 24 s left")


def test_time_that_the_run_was_paused_for_is_not_counted(clock):
    paper = made(clock).begin()
    clock.move(2)
    paper.epoch()
    clock.move(1002)
    paper.run.paused_s += 1000
    paper.epoch()
    assert paper.texts[-1].endswith(" 16 s left")


@dataclasses.dataclass(frozen=True)
class TimedEval:
    """An evaluation that tells how long it took."""

    event: EvalEnd
    seconds: float
    hook = Hook.EVAL_END

    def __getattr__(self, name):
        return getattr(self.event, name)


def test_evaluations_are_counted_that_are_still_to_come(clock):
    paper = made(clock, config=Config(10, 4, 0.1, 0, eval_every=4), batches=1)
    paper.run.evaluates = True
    tell = paper.tell
    paper.tell = lambda event: tell(TimedEval(event, 7.0) if isinstance(event, EvalEnd) else event)
    paper.begin()
    for epoch in range(1, 5):
        clock.move(2)
        if epoch == 4:
            clock.move(7)
        paper.epoch(val={"loss": 1.0} if epoch == 4 else None)
    assert paper.texts[2].endswith("at least 14 s left")
    # Six epochs of two seconds, and the evaluation after the eighth.
    assert paper.texts[3].endswith(" 19 s left")


def test_a_run_that_ends_says_nothing_of_the_time_left(clock):
    paper = made(clock).begin()
    for _ in range(2):
        clock.move(1)
        paper.epoch()
    paper.state.request_stop("enough")
    clock.move(1)
    paper.epoch()
    assert paper.texts[-1] == "epoch  3/10  [###.......]  loss 1.0000"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_a_terminal_gets_colours_and_better_glyphs_and_a_pipe_gets_neither(clock, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    paper = made(clock).begin()
    assert "\x1b[36m█" in paper.epoch().texts[0]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "[█─────────]" in made(clock).begin().epoch().texts[0]
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert "[#.........]" in made(clock).begin().epoch().texts[0]


@pytest.mark.parametrize("options", [{"width": -1}, {"batch_every": -1}])
def test_a_negative_number_is_refused(options):
    with refused(ConfigurationError, f"`{next(iter(options))}` must be", "got -1"):
        Progress(**options)


def test_batches_that_accumulate_are_not_taken_for_updates(clock):
    paper = made(clock, batches=4).begin()
    paper.run.accum_steps = 2
    batches = itertools.count()

    def work():
        clock.move(1)
        if next(batches) % 2:  # the second of a window: the first one made no update
            paper.state.global_step -= 1

    for _ in range(3):
        paper.epoch(during=work)
    assert paper.state.global_step == 6
    assert paper.texts[-1].endswith(" 28 s left")


def test_evaluations_within_epochs_are_still_to_come(clock):
    config = Config(4, 4, 0.1, 0, eval_every=0, eval_every_steps=3)
    paper = made(clock, config=config, batches=6).begin()
    paper.run.evaluates = True
    for _ in range(2):
        for _ in range(2):
            clock.move(5)
            paper.tell(EvalEnd(paper.run, paper.state.epoch, paper.state.val, 5.0))
        paper.epoch(during=lambda: clock.move(1))
    # Two epochs of six seconds, and in each two evaluations of five.
    assert paper.texts[-1].endswith(" 32 s left")
