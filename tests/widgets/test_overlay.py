import numpy as np
import pytest

import workbench as wb
from workbench_widgets.overlay import Overlay

DATA = wb.data.Dataset(
    np.linspace(-1, 1, 40, dtype=np.float32)[:, None],
    np.linspace(-2, 2, 40, dtype=np.float32)[:, None],
)


def _loss(params, x, y):
    return wb.mse(x @ params["w"], y)


def _step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, _loss)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    params = {"w": np.zeros((1, 1), np.float32)}
    for number, rate in enumerate((0.01, 0.05, 0.1)):
        run = wb.Run(params, wb.sgd(params), wb.Config(3, 8, rate, 1, verbose=False))
        name = "<b>bold</b>" if number == 2 else f"rate {rate}"
        wb.fit(run, [wb.RunRecord(place, name=name.replace("/", "|"))], DATA, None, _step)
    return place


@pytest.fixture
def view(folder, monkeypatch):
    made = Overlay(folder)
    made_messages = []
    monkeypatch.setattr(
        made, "send", lambda content, buffers=None: made_messages.append((content, buffers))
    )
    yield made, made_messages
    made.close()


def test_the_page_gets_a_row_for_each_run_with_the_settings_that_differ(view):
    made, sent = view
    made._receive(made, {"ask": "sync"}, [])
    (content, _), *_ = sent
    assert sorted(content["names"]) == ["<b>bold<|b>", "rate 0.01", "rate 0.05"]
    assert content["columns"] == ["name", "status", "epoch", "train_loss", "lr"]
    assert content["rows"][0][1:3] == ["completed", "3"]
    assert content["metrics"] == ["train_loss", "lr", "seconds", "step_loss"]


@pytest.mark.parametrize(
    ("metric", "count", "unit"), [("train_loss", 3, "epoch"), ("step_loss", 15, "batch")]
)
def test_the_page_gets_the_curves_that_were_picked(view, metric, count, unit):
    made, sent = view
    names = ["rate 0.1", "rate 0.05", "rate 0.01"][1:]
    made._receive(made, {"ask": "curves", "metric": metric, "names": names}, [])
    ((content, buffers),) = sent
    assert [line["label"] for line in content["chart"]["lines"]] == names
    assert [line["n"] for line in content["chart"]["lines"]] == [count, count]
    assert content["unit"] == unit
    floats = np.frombuffer(buffers[0], np.float32)
    assert floats[:count].tolist() == list(range(1, count + 1))
    assert len(floats) == 2 * 4 * count


@pytest.mark.parametrize(
    "message",
    [
        {"ask": "curves", "metric": "nonsense", "names": ["rate 0.01"]},
        {"ask": "curves", "metric": "train_loss", "names": ["nobody"]},
        {"ask": "curves", "metric": 3, "names": []},
        {"ask": "curves"},
    ],
)
def test_what_is_not_there_is_refused_in_words(view, message):
    made, sent = view
    made._receive(made, message, [])
    assert [content["t"] for content, _ in sent] == ["refused"]


def test_names_are_escaped_in_plain_html(view):
    made, _ = view
    assert "<b>bold" not in made.html()
    assert "&lt;b&gt;bold" in made.html()


def test_a_folder_without_runs_is_shown_as_that(tmp_path):
    made = Overlay(tmp_path / "none")
    assert made.text() == f"no runs in {tmp_path / 'none'}"
    assert made.html().startswith("<table>")
    made.close()
