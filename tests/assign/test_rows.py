"""Which computations treat each row by itself."""

import pytest

import workbench as wb
from workbench.assign.rows import bytes_of_a_row, is_row_by_row

X = wb.input("x", (wb.batch, 6))
IMAGES = wb.input("images", (wb.batch, 4, 4))
LABELS = wb.input("labels", (wb.batch,), "int64")
W = wb.parameter([[0.5] * 5] * 6, "w")
TABLE = wb.parameter([[0.5] * 5] * 9, "table")
SQUARE = wb.parameter([[0.5] * 6] * 6, "square")

BY_ROWS = {
    "elementwise": lambda: wb.tanh(X) * 2.0,
    "product": lambda: wb.relu(X @ W),
    "softmax": lambda: wb.softmax(X @ W),
    "mean over features": lambda: X.mean(1),
    "look-up by label": lambda: wb.take(TABLE, LABELS),
    "loss of each row": lambda: wb.cross_entropy_rows(X, LABELS),
    "flattened images": lambda: wb.reshape(IMAGES, (wb.batch, 16)).sum(1),
    "positions of each image": lambda: wb.reshape(
        wb.reshape(IMAGES, (wb.batch * 4, 4)) @ wb.parameter([[1.0] * 4] * 4, "v"),
        (wb.batch, 4, 4),
    ),
    "transposed image": lambda: wb.transpose(IMAGES, (0, 2, 1)),
    "features turned round": lambda: wb.flip(X, 1),
    "joined features": lambda: wb.concat([X, X * 2.0], 1),
    "the rows themselves": lambda: X,
    "no rows at all": lambda: SQUARE @ W,
}

ACROSS_ROWS = {
    "mean over rows": lambda: X - X.mean(0),
    "largest of all": lambda: X / wb.max(X),
    "rows as features": lambda: wb.transpose(X),
    "product of rows": lambda: wb.transpose(X) @ X,
    "sum of all": lambda: X * X.sum(),
    "noise": lambda: X + wb.normal(X.shape, seed=3),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_what_treats_each_row_by_itself_is_known(name):
    assert is_row_by_row(wb.computation([BY_ROWS[name]()]))


@pytest.mark.parametrize("name", ACROSS_ROWS)
def test_what_looks_at_other_rows_is_known(name):
    assert not is_row_by_row(wb.computation([ACROSS_ROWS[name]()]))


def test_the_widest_result_says_how_large_a_row_is():
    wide = wb.computation([(X @ wb.parameter([[1.0] * 40] * 6, "wide")).sum(1)])
    assert bytes_of_a_row(wide) == 160
    assert bytes_of_a_row(wb.computation([wb.reshape(IMAGES, (wb.batch * 16,)) * 2.0])) == 64
    assert bytes_of_a_row(wb.computation([SQUARE @ W])) == 0
