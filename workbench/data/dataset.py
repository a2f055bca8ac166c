"""The data set: features and targets, row by row.

What the loaders of this package return and the training loop consumes.  Invariant: ``x`` and
``y`` have the same number of rows, and both may be walked by address (see `admit`).
"""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from workbench.data.admit import admit, floating_dtype
from workbench.data.labels import check_labels
from workbench.errors import DataError

__all__ = ["Dataset", "empty"]


# Compared by identity: element-wise equality of two arrays has no truth value.
@final
@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Dataset:
    """Rows of features with their targets.

    Parameters
    ----------
    x
        Features, shape ``(n, ...)``: numbers in an array of any layout and byte order, a list of
        rows, a frame.  Copied where native code could not walk them, shared otherwise.
    y
        Targets, shape ``(n, ...)``: integer labels or floating values.
    names
        The names of the classes, label 0 first.  Where they are given, ``y`` must hold integers
        that each name one of them.
    source, licence
        Where the data come from and under what terms.
    weights
        How much each row counts in training, shape ``(n,)``: finite and not negative, see
        `class_weights`. A step gets those of its batch as ``weights``, and so does an evaluation
        that has such a parameter.
    dtype
        The element type of floating ``x`` and ``y``: float32 unless told otherwise, since models
        are float32 by default.  ``np.float64`` asks for float64, ``None`` keeps what is given.
        Integers stay integers (int32 or int64), whatever ``dtype`` says.

    Raises
    ------
    DataError
        If the rows of ``x`` and ``y`` differ in number, if a value does not fit the element
        type, if a label has no name, or if weights are of another number, negative or not finite.

    Notes
    -----
    NaN is allowed, since a model may be meant to see it; `nan_count` and `report` tell of it.
    A data set of no rows is allowed too: as validation data it means "no validation".

    Examples
    --------
    >>> data = Dataset([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [0, 1, 0])
    >>> data
    Dataset: 3 rows, x float32 (2,), y int64 ()
    """

    x: NDArray[Any]
    y: NDArray[Any]
    names: tuple[str, ...]
    source: str
    licence: str
    weights: NDArray[Any] | None

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        names: tuple[str, ...] | list[str] = (),
        source: str = "",
        licence: str = "",
        weights: ArrayLike | None = None,
        dtype: DTypeLike | None = np.float32,
    ) -> None:
        floating = floating_dtype(dtype)
        features, targets = admit(x, "x", floating), admit(y, "y", floating)
        if len(features) != len(targets):
            raise DataError(
                f"x has {len(features)} rows and y has {len(targets)}",
                remedy="give every row of x one row of y.",
            )
        if names:
            check_labels(targets, len(names))
        # A frozen class has no other way to fill its fields.
        for field, value in (
            ("x", features),
            ("y", targets),
            ("names", tuple(names)),
            ("source", source),
            ("licence", licence),
            ("weights", None if weights is None else _weights(weights, features, floating)),
        ):
            object.__setattr__(self, field, value)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.x)

    @property
    def nan_count(self) -> int:
        """How many entries of ``x`` and ``y`` are NaN."""
        return _count_nan(self.x) + _count_nan(self.y)

    def take(self, rows: ArrayLike) -> Self:
        """Return the data set of the given rows, in the given order.

        Parameters
        ----------
        rows
            Row numbers in ``[-n, n)`` as integers of shape ``(m,)``, or a boolean per row.

        Raises
        ------
        DataError
            If a row does not exist, or if ``rows`` are neither integers nor one boolean per row.
        """
        picked = _checked_rows(self.n, np.asarray(rows))
        weights = None if self.weights is None else self.weights[picked]
        return self._with(self.x[picked], self.y[picked], weights)

    def report(self) -> str:
        """Return a few lines of text on what the data set holds.

        One line for the size, one each for ``x`` and ``y`` with the range of their finite values
        and how many entries are NaN or infinite, then the classes, the source and the licence
        where they are known.
        """
        lines = [f"{self.n} rows", f"x  {_describe(self.x)}", f"y  {_describe(self.y)}"]
        if self.names:
            lines.append("classes  " + ", ".join(self.names))
        if self.source:
            lines.append("source  " + self.source)
        if self.licence:
            lines.append("licence  " + self.licence)
        return "\n".join(lines)

    def __repr__(self) -> str:
        x, y = self.x, self.y
        return f"Dataset: {self.n} rows, x {x.dtype} {x.shape[1:]}, y {y.dtype} {y.shape[1:]}"

    def _with(self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None) -> Self:
        return type(self)(
            x,
            y,
            names=self.names,
            source=self.source,
            licence=self.licence,
            weights=weights,
            dtype=None,
        )


def empty() -> Dataset:
    """Return the data set of no rows, which as validation data means "no validation".

    Examples
    --------
    >>> empty().n
    0
    """
    return Dataset(np.empty(0, np.float32), np.empty(0, np.float32))


def _weights(
    weights: ArrayLike, features: NDArray[Any], floating: np.dtype[Any] | None
) -> NDArray[Any]:
    """Return weights of the features' own type, which a loss multiplies with them."""
    n = len(features)
    if features.dtype.kind == "f":
        floating = features.dtype
    array = admit(np.asarray(weights, np.float64), "weights", floating or np.dtype(np.float32))
    if array.shape != (n,):
        raise DataError(
            f"weights have shape {array.shape}, and there are {n} rows",
            remedy="give every row one weight.",
        )
    wrong = ~(np.isfinite(array) & (array >= 0.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"weights[{row}] is {array[row]}; a weight is finite and not negative",
            remedy="use 0 for a row that is not to count.",
        )
    return array


def _checked_rows(n: int, rows: NDArray[Any]) -> NDArray[Any]:
    """Return row numbers, or a mask, that fit ``n`` rows."""
    if rows.size == 0:
        rows = rows.astype(np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iub" or (rows.dtype == bool and len(rows) != n):
        raise DataError(
            f"rows have dtype {rows.dtype} and shape {rows.shape}; there are {n} rows to take from",
            remedy="pass a one-dimensional array of row numbers, or one boolean per row.",
        )
    if rows.dtype.kind != "b":
        wrong = rows[(rows >= n) | (rows < -n)] if rows.dtype.kind == "i" else rows[rows >= n]
        if wrong.size:
            raise DataError(
                f"row {wrong[0]} does not exist; there are {n} rows",
                remedy="count rows from 0.",
            )
    return rows


def _count_nan(array: NDArray[Any]) -> int:
    if array.dtype.kind != "f" or not array.size:
        return 0
    with np.errstate(invalid="ignore"):
        # One NaN makes the greatest of all NaN: three times as quick as to ask each.
        has_nan = np.isnan(array.max())
    return int(np.isnan(array).sum()) if has_nan else 0


def _describe(array: NDArray[Any]) -> str:
    words = f"{array.dtype} {array.shape[1:]}"
    if array.dtype.kind != "f":
        return words + (f", {array.min()} to {array.max()}" if array.size else "")
    finite = array[np.isfinite(array)]
    if finite.size:
        words += f", {finite.min():.6g} to {finite.max():.6g}"
    return f"{words}, {_count_nan(array)} NaN, {int(np.isinf(array).sum())} infinite"
