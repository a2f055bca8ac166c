import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import DataError
from workbench.train.epoch_log import EpochLog
from workbench.train.epoch_row import EpochRow
from workbench.train.history import History


@pytest.fixture
def history():
    """Four epochs of which every second one was evaluated; accuracy came later."""
    return History(
        [
            EpochRow(1, 1.0443699495, 0.0025, (), 0.5),
            EpochRow(2, 0.6686445592, 0.005, (("loss", 0.5529439577),), 0.25),
            EpochRow(3, 0.3440386605, 0.0075, (), 0.25),
            EpochRow(
                4, 0.1703536279, 0.01, (("loss", 0.2009604386), ("accuracy", 0.9305556)), 0.25
            ),
        ]
    )


def test_the_text_is_aligned_rounded_and_free_of_times(history):
    assert repr(history) == (
        "epoch  train_loss        lr  val_loss  val_accuracy\n"
        "    1      1.0444  0.002500         -             -\n"
        "    2      0.6686  0.005000    0.5529             -\n"
        "    3      0.3440  0.007500         -             -\n"
        "    4      0.1704  0.010000    0.2010        0.9306"
    )


def test_two_runs_that_differ_in_time_alone_have_one_text():
    slow, fast = (History([EpochRow(1, 0.5, 0.1, (), seconds)]) for seconds in (9.0, 0.1))
    assert repr(slow) == repr(fast)
    assert slow.html() == fast.html()


def test_a_frame_has_a_row_for_each_epoch_and_nan_where_none_was_evaluated(history):
    frame = history.frame()
    assert list(frame.columns) == [
        "epoch",
        "train_loss",
        "lr",
        "val_loss",
        "val_accuracy",
        "seconds",
    ]
    assert frame["epoch"].tolist() == [1, 2, 3, 4]
    assert frame["train_loss"].tolist()[0] == 1.0443699495
    assert frame["val_loss"].isna().tolist() == [True, False, True, False]
    assert frame["val_accuracy"].tolist()[3] == 0.9305556
    assert frame["seconds"].sum() == 1.25


def test_a_frame_of_no_epochs_has_its_columns():
    assert list(History().frame().columns) == ["epoch", "train_loss", "lr", "seconds"]


def test_a_column_is_an_array_to_draw(history):
    np.testing.assert_array_equal(
        history.column("val_loss"), [np.nan, 0.5529439577, np.nan, 0.2009604386]
    )
    np.testing.assert_array_equal(history.column("epoch"), [1, 2, 3, 4])


@pytest.mark.parametrize("name", ["val_f1", "loss", "accuracy"])
def test_a_column_that_does_not_exist_is_refused_with_those_that_do(history, name):
    with pytest.raises(DataError, match=f"no column `{name}`") as caught:
        history.column(name)
    assert caught.value.remedy == "it has epoch, train_loss, lr, val_loss, val_accuracy, seconds"


def test_a_history_goes_on_from_the_rows_of_another(history):
    resumed = History(history.rows[:2])
    for row in history.rows[2:]:
        resumed.append(row)
    assert resumed.rows == history.rows
    assert len(resumed) == 4
    assert [row.epoch for row in resumed] == [1, 2, 3, 4]


@pytest.mark.parametrize("epoch", [4, 2])
def test_an_epoch_that_does_not_come_after_the_last_is_refused(history, epoch):
    with pytest.raises(DataError, match=f"the row of epoch {epoch} comes after that of epoch 4"):
        history.append(EpochRow(epoch, 0.1, 0.1))


def test_an_empty_history_says_so():
    assert repr(History()) == "History: no epoch yet"
    assert "no epoch yet" in History().html()


def test_a_notebook_shows_the_table(history):
    assert history._repr_html_() == history.html()
    assert history.html().count("<tr>") == 5


def test_of_a_long_history_the_ends_are_shown():
    history = History(EpochRow(epoch, 1.0 / epoch, 0.1) for epoch in range(1, 101))
    lines = repr(history).splitlines()
    assert len(lines) == 1 + 5 + 1 + 5
    assert [line.split()[0] for line in lines[4:9]] == ["4", "5", "...", "96", "97"]


def test_names_of_metrics_are_escaped_in_html():
    history = History([EpochRow(1, float("nan"), 0.1, (("<b>&", 0.5),))])
    html = history.html()
    assert "val_&lt;b&gt;&amp;" in html
    assert "<b>" not in html
    assert "<td>nan</td>" in html


def test_a_metric_name_cannot_break_the_table():
    text = repr(History([EpochRow(1, 0.5, 0.1, (("a\nb", 0.5),))]))
    assert len(text.splitlines()) == 2


NAMES = st.lists(st.sampled_from(["loss", "accuracy", "a", ""]), unique=True, max_size=3)
ANY_NUMBER = st.floats(width=64)


@st.composite
def any_rows(draw):
    """Rows of growing epochs whose metrics come and go."""
    rows, epoch = [], 0
    for _ in range(draw(st.integers(0, 80))):
        epoch += draw(st.integers(1, 5))
        val, train = (tuple((name, draw(ANY_NUMBER)) for name in draw(NAMES)) for _ in range(2))
        numbers = (draw(ANY_NUMBER) for _ in range(3))
        loss, lr, seconds = numbers
        rows.append(EpochRow(epoch, loss, lr, val, seconds, train))
    return rows


@settings(max_examples=40)
@given(any_rows(), st.integers(0, 80))
def test_what_was_packed_comes_back_bit_by_bit_and_goes_on(rows, cut):
    whole = History(rows)
    assert repr(whole.rows) == repr(tuple(rows))
    begun = History(rows[:cut])
    log = EpochLog.of_arrays(begun.log.arrays(), begun.log.signatures)
    resumed = History(log=log)
    for row in rows[cut:]:
        resumed.append(row)
    assert repr(resumed.rows) == repr(whole.rows)
    assert resumed.metric_names == whole.metric_names
    for name in (*(f"val_{each}" for each in whole.metric_names), "lr", "epoch"):
        np.testing.assert_array_equal(resumed.column(name), whole.column(name))


@settings(max_examples=40)
@given(any_rows())
def test_a_column_is_that_of_its_rows(rows):
    history = History(rows)
    for name in history.metric_names:
        expected = [dict(row.val).get(name, np.nan) for row in rows]
        np.testing.assert_array_equal(history.column(f"val_{name}"), expected)


def test_rows_that_were_read_stay_as_they_were(history):
    rows = history.rows
    history.append(EpochRow(9, 0.5, 0.1))
    assert len(rows) == 4
    assert [row.epoch for row in rows] == [1, 2, 3, 4]
    assert rows[-1].epoch == 4
    assert history.last == EpochRow(9, 0.5, 0.1)
    with pytest.raises(IndexError):
        rows[4]


def test_an_epoch_takes_less_than_a_hundred_octets():
    history = History()
    for epoch in range(1, 10_001):
        history.append(EpochRow(epoch, 0.5, 0.1, (("loss", 0.1), ("accuracy", 0.2)), 0.1))
    assert sum(array.nbytes for array in history.log.arrays().values()) <= 60 * 10_000


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("signature", np.array([0, 1, 2, 9], np.int32)),
        ("signature", np.array([0, 1, 0, -1], np.int32)),
        ("values", np.zeros(2)),
        ("numbers", np.zeros((4, 2))),
        ("epoch", np.array([1, 2, 2, 3])),
        ("epoch", np.array([1, 2])),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(history, name, array):
    arrays = history.log.arrays() | {name: array}
    with pytest.raises(DataError, match="does not fit together"):
        EpochLog.of_arrays(arrays, history.log.signatures)
    del arrays[name]
    with pytest.raises(DataError, match="does not fit together"):
        EpochLog.of_arrays(arrays, history.log.signatures)
