import gc
import json
import sys
import threading
import time
import weakref
from typing import Any, cast

import numpy as np
import pytest

import workbench as wb
from workbench_widgets.panel import Panel
from workbench_widgets.panel_frame import (
    POINTS,
    describe_charts,
    describe_stretch,
    joined,
)
from workbench_widgets.pump import Teller, pace

DATA = wb.data.Dataset(
    np.linspace(-1, 1, 40, dtype=np.float32)[:, None],
    np.linspace(-2, 2, 40, dtype=np.float32)[:, None],
)


def _loss(params, x, y):
    return wb.mse(x @ params["w"], y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, _loss)


def metrics(params, x, y):
    return {"loss": _loss(params, x, y)}


class Slow(wb.Callback):
    def on_batch_end(self, event):
        time.sleep(0.002)


def _run(epochs=3, **options):
    params = {"w": np.zeros((1, 1), np.float32)}
    return wb.Run(params, wb.sgd(params), wb.Config(epochs, 8, 0.05, 1, verbose=False, **options))


@pytest.fixture
def watched():
    """``watched(run)`` is a panel that keeps what it sends."""
    panels = []

    def watch(run):
        panel: Any = Panel(run)
        panel.sent = []
        panel.send = lambda content, buffers=None: panel.sent.append((content, buffers))
        panels.append(panel)
        return panel

    yield watch
    for panel in panels:
        panel.run.stop()
        if panel.pump is not None:
            panel.pump.remove(panel)
        panel.close()


def _told(teller, **options):
    told = teller.told(**options)
    assert told is not None
    return told


def _asks(panel, question, **more):
    panel._receive(panel, {"ask": question, **more}, [])


def test_a_message_holds_the_whole_curve_however_late_a_page_asks():
    run = _run(4)
    wb.fit(run, [], DATA, DATA, step, metrics)
    content, floats = _told(Teller(run), everything=True)
    (chart,) = content["charts"]
    assert [line["n"] for line in chart["lines"]] == [20, 4]
    assert floats.nbytes == 4 * (3 * 20 + 4 * 4)
    json.dumps(content, allow_nan=False)


def test_a_message_of_a_long_run_is_no_greater_than_one_of_a_short():
    run = _run()
    for _ in range(400):
        run.store.add(np.ones(1000, np.float32), {})
    charts, floats = describe_charts(run)
    assert charts[0]["lines"][0]["n"] <= POINTS + 2
    assert joined(floats).nbytes <= 12 * (POINTS + 2)


def test_a_closer_look_is_as_fine_as_what_is_kept():
    run = _run()
    run.store.add(np.arange(5000, dtype=np.float32), {})
    line, floats = describe_stretch(run, 0, 1000.2, 1100.7)
    assert line is not None
    assert (line["first"], line["width"]) == (999, 1)
    assert floats[2][1] == 1000


@pytest.mark.parametrize(("chart", "first", "last"), [(5, 0, 1), (-1, 0, 1), (0, float("nan"), 1)])
def test_a_closer_look_at_nothing_is_none(chart, first, last):
    run = _run()
    run.store.add(np.ones(10, np.float32), {})
    assert describe_stretch(run, chart, first, last) == (None, [])


def test_numbers_that_json_has_not_travel_by_name():
    run = _run()
    run.state.lr = float("nan")
    run.state.val.update("loss", float("inf"), 1)
    content, _ = _told(Teller(run), everything=True)
    assert content["status"]["lr"] == "NaN"
    assert content["status"]["metrics"] == [["loss", "Infinity"]]


def test_what_has_not_changed_is_not_sent_again_but_a_sign_of_life_is():
    now = [0.0]
    teller = Teller(_run(), clock=lambda: now[0])
    assert "charts" in _told(teller)[0]
    assert teller.told() is None
    now[0] = 1.5
    content, floats = _told(teller)
    assert "charts" not in content
    assert floats.nbytes == 0


def test_a_panel_steers_the_run_by_its_own_methods(watched):
    run = _run(1000)
    stopping = wb.EarlyStopping("loss", 10_000, higher_is_better=False)
    run.start([stopping, Slow()], DATA, DATA, step, metrics)
    panel = watched(run)
    _asks(panel, "pause")
    _asks(panel, "rate", value=0.01)
    _asks(panel, "patience", value=7)
    _asks(panel, "resume")
    _asks(panel, "stop", after="epoch")
    run.wait()
    assert (run.lr, stopping.patience, run.status) == (0.01, 7, "stopped")
    assert not run.in_epoch
    assert [action.code for action in run.history.actions] == [
        "run.pause()",
        "run.lr = 0.01",
        "run.patience = 7",
        "run.resume()",
        'run.stop(after="epoch")',
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"ask": "rate", "value": "fast"},
        {"ask": "rate", "value": True},
        {"ask": "rate", "value": None},
        {"ask": "rate"},
        {"ask": "patience", "value": 1.5},
        {"ask": "patience", "value": 3},
        {"ask": "checkpoint"},
        {"ask": "best"},
        {"ask": "version", "number": 99},
        {"ask": "version", "number": "x" * 10_000},
        {"ask": "window", "view": 3, "chart": 0, "first": 0, "last": 1},
        {"ask": "window", "view": "a", "chart": "0", "first": 0, "last": 1},
    ],
)
def test_what_cannot_be_done_is_refused_in_words_and_the_run_is_as_before(watched, message):
    run = _run()
    panel = watched(run)
    panel._receive(panel, message, [])
    told = [content for content, _ in panel.sent if content["t"] == "refused"]
    assert len(told) == 1
    assert len(told[0]["text"]) < 300
    assert run.lr == 0.05


def test_when_the_run_ends_each_panel_has_become_a_record(watched):
    run = _run(5)
    panels = [watched(run), watched(run)]
    run.start([Slow()], DATA, DATA, step, metrics)
    run.wait()
    assert all(panel.comm is None for panel in panels)
    assert panels[0].text().startswith("Run completed: epoch 5 of 5, step 25; loss ")
    names = [thread.name for thread in threading.enumerate()]
    assert "wb-panel" not in names or not run.is_training


def test_a_run_that_is_over_is_not_held_by_the_panels_that_it_had():
    run = _run(3)
    panel = Panel(run)
    run.start([], DATA, DATA, step, metrics)
    run.wait()
    gone = weakref.ref(run)
    del run, panel
    gc.collect()
    assert gone() is None


def test_a_panel_stays_until_each_page_that_shows_it_has_the_record(watched):
    run = _run(5)
    panel = watched(run)
    for _ in range(2):
        _asks(panel, "here")
    run.start([Slow()], DATA, DATA, step, metrics)
    run.wait()
    frame, sealed = (content for content, _ in panel.sent[-2:])
    assert frame["status"]["status"] == "completed"
    assert sealed["t"] == "sealed"
    assert "<img" in sealed["record"]["text/html"]
    for is_there in (True, False):
        _asks(panel, "sealed")
        assert (panel.comm is not None) is is_there


def test_the_record_of_a_run_that_goes_on_shows_it_as_far_as_it_is(watched):
    run = _run(1000)
    panel = watched(run)
    run.start([Slow()], DATA, DATA, step, metrics)
    run.store.add(np.ones(10, np.float32), {})
    record = panel.record()
    assert record["text/plain"].startswith("Run running: epoch ")
    assert "<img alt=" in record["text/html"]
    assert "<img" not in panel.html()


def test_in_a_terminal_a_panel_tells_how_the_run_stands_each_time(watched, capsys):
    run = _run(1000)
    panel = watched(run)
    assert "Run ready: epoch 0 of 1000" in repr(panel)
    run.start([Slow()], DATA, None, step)
    time.sleep(0.1)
    panel._ipython_display_()
    assert "Run running: epoch " in capsys.readouterr().out


def test_a_panel_of_a_run_that_is_over_is_a_record_at_once(watched):
    run = _run(2)
    wb.fit(run, [], DATA, DATA, step, metrics)
    panel = watched(run)
    assert "<img" in panel.html()
    assert "<script" not in panel.html()


def test_what_a_live_panel_says_as_text_does_not_depend_on_when_it_is_asked(watched):
    run = _run(1000)
    panel = watched(run)
    before = panel.text()
    run.start([Slow()], DATA, None, step)
    assert panel.text() == before == "Run of 1000 epochs, shown live in JupyterLab"


def test_watching_changes_no_bit():
    plain, shown = _run(4), _run(4)
    wb.fit(plain, [], DATA, DATA, step, metrics)
    panel = wb.watch(shown)
    shown.start([], DATA, DATA, step, metrics)
    shown.wait()
    assert isinstance(panel.panel, Panel)
    assert plain.params["w"].tobytes() == shown.params["w"].tobytes()


def test_what_is_no_run_cannot_be_watched():
    with pytest.raises(wb.ConfigurationError, match="`int` cannot be watched"):
        wb.watch(cast("wb.Run", 3))


def test_without_notebook_libraries_a_run_is_watched_as_text(monkeypatch):
    for module in ("workbench_widgets.watch", "workbench_widgets.panel", "workbench_widgets.frame"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    run = _run(2)
    wb.fit(run, [], DATA, DATA, step, metrics)
    shown = wb.watch(run)
    assert repr(shown).startswith("[########################]  Run completed: epoch 2 of 2")
    assert "loss of each batch: first " in repr(shown)
    assert "<img alt=" in shown._repr_html_()


def test_a_record_escapes_names_and_holds_no_time():
    run = _run(2)
    wb.fit(run, [], DATA, DATA, step, metrics)
    run.store.evaluated({"<img src=x onerror=harm()>": 1.0}, 0.0)
    again = _run(2)
    wb.fit(again, [], DATA, DATA, step, metrics)
    again.store.evaluated({"<img src=x onerror=harm()>": 1.0}, 0.0)
    page = Panel(run).html()
    assert "<img src=x" not in page
    assert page == Panel(again).html()


class Page:
    """An audience whose page draws for so long, and where somebody is until so late."""

    def __init__(self, drawing_s, attended_until=100.0):
        self.drawing_s = drawing_s
        self.attended_until = attended_until

    def show(self, content, floats):
        pass

    def seal(self):
        pass


@pytest.mark.parametrize(
    ("sending_s", "drawings_s", "pause_s"),
    [
        (0.0001, [], 0.2),
        (0.0001, [0.0005], 0.2),
        (0.001, [0.0005], 0.5),
        (0.0001, [0.0005, 0.004], 0.8),
        (0.0001, [0.5], 1.0),
        (9.0, [0.0], 1.0),
    ],
)
def test_a_page_that_draws_slowly_is_told_seldomer_but_each_second(sending_s, drawings_s, pause_s):
    pages = [Page(seconds) for seconds in drawings_s]
    assert pace(sending_s, pages or [Page(0.0)], 50.0) == pytest.approx(pause_s)


def test_pages_where_nobody_moves_any_more_may_be_told_half_as_often():
    pages = [Page(0.5, 30.0), Page(0.5, 40.0)]
    assert [pace(0.001, pages, now) for now in (35.0, 45.0)] == [1.0, 2.0]
    assert pace(0.0001, [Page(0.0005, 0.0)], 45.0) == 0.2


def test_a_panel_takes_somebody_to_be_there_for_a_while_after_a_move(watched):
    panel = watched(_run())
    assert panel.attended_until < time.monotonic()
    _asks(panel, "attended")
    assert panel.attended_until == pytest.approx(time.monotonic() + 30, abs=5)


@pytest.mark.parametrize(("ms", "seconds"), [(4.0, 0.004), (-1, 0.0), (1e9, 1.0)])
def test_a_panel_takes_a_pages_word_for_its_drawing_within_reason(watched, ms, seconds):
    panel = watched(_run())
    _asks(panel, "pace", ms=ms)
    assert panel.drawing_s == seconds
    _asks(panel, "pace", ms="fast")
    assert panel.drawing_s == seconds
