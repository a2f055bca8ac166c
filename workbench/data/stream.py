"""Rows that come as a stream of batches, for what does not fit in memory or is made as it is used.

In: a person's function that yields batches.  Out: the same batches, checked.  Invariant: a batch
that leaves here has the shapes and types of the first one of the stream.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, SupportsIndex, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from workbench.arguments import refusal, whole_from
from workbench.data.admit import admit, floating_dtype
from workbench.errors import DataError

__all__ = ["Batches", "Stream"]

Batches: TypeAlias = Callable[[int, int], Iterable[tuple[ArrayLike, ...]]]
Rows: TypeAlias = tuple[NDArray[Any], ...]

_NAMES: Final = ("x", "y", "weights")


@final
class Stream:
    """Batches that a function yields, to be trained on in place of a `Dataset`.

    Parameters
    ----------
    batches
        ``batches(epoch, start)`` yields the batches of an epoch from number ``start`` on, both
        counted from 0: pairs ``(x, y)`` of arrays, or triples with the rows' weights. It is called
        for each epoch, and with a ``start`` above 0 where a run goes on within one, so that the run
        goes on with the same batches if it yields the same from there. It runs in a thread of its
        own, some batches ahead of the training.
    batch_size
        Rows of every batch.
    steps_per_epoch
        Batches of an epoch; what is yielded after them is not asked for.
    dtype
        The element type of floating values: float32 unless told otherwise, as in a `Dataset`;
        ``np.float64``, or None for that of the first batch.

    Raises
    ------
    ConfigurationError
        If a number is not an integer of 1 or more, or ``dtype`` is another type.

    Examples
    --------
    >>> def batches(epoch, start):
    ...     for number in range(start, 100):
    ...         rng = np.random.default_rng((epoch, number))
    ...         x = rng.normal(size=(8, 3))
    ...         yield x, x.sum(axis=1)
    >>> stream = Stream(batches, batch_size=8, steps_per_epoch=100)
    >>> [array.shape for array in stream.example]
    [(8, 3), (8,)]
    >>> stream
    Stream: 100 batches of 8 rows, x float32 (3,), y float32 ()
    """

    __slots__ = ("_example", "batch_size", "batches", "dtype", "steps_per_epoch")

    def __init__(
        self,
        batches: Batches,
        *,
        batch_size: SupportsIndex,
        steps_per_epoch: SupportsIndex,
        dtype: DTypeLike | None = np.float32,
    ) -> None:
        if not callable(cast("object", batches)):
            raise refusal(
                "batches",
                "a function `batches(epoch, start)`",
                batches,
                remedy="pass a function that yields the batches of an epoch from number `start` "
                "on; for arrays in memory, `wb.data.Dataset(x, y)`",
            )
        self.batches = batches
        self.dtype = floating_dtype(dtype)
        self.batch_size = whole_from("batch_size", batch_size, 1)
        self.steps_per_epoch = whole_from("steps_per_epoch", steps_per_epoch, 1)
        self._example: Rows | None = None

    @property
    def n(self) -> int:
        """Rows of an epoch."""
        return self.batch_size * self.steps_per_epoch

    @property
    def example(self) -> Rows:
        """The first batch of the first epoch, which says what all look like; read once.

        Floating values are of the stream's type, integers int32 or int64.

        Raises
        ------
        DataError
            If there is none, or it is no batch.
        """
        if self._example is None:
            source = iter(self.batches(0, 0))
            try:
                first = next(source, None)
            finally:
                _close(source)
            if first is None:
                raise DataError(
                    "the stream yields no batch", remedy="let `batches(0, 0)` yield pairs (x, y)"
                )
            self._example = self._admitted(first, 0, 0)
        return self._example

    @property
    def names(self) -> tuple[str, ...]:
        """What the arrays of a batch are called: x, y and perhaps weights."""
        return _NAMES[: len(self.example)]

    def read(self, epoch: int, start: int) -> Generator[Rows]:
        """Yield the batches of an epoch from number ``start`` on, checked.

        Raises
        ------
        DataError
            If a batch is unlike the first of the stream, or there are fewer than promised.
        """
        number = start
        source = iter(self.batches(epoch, start)) if start < self.steps_per_epoch else iter(())
        try:
            while number < self.steps_per_epoch:
                batch = next(source, None)
                if batch is None:
                    raise DataError(
                        f"the stream ended after {number} of {self.steps_per_epoch} batches in "
                        f"epoch {epoch}",
                        remedy="let it yield that many, or use a smaller steps_per_epoch",
                    )
                rows = self._admitted(batch, epoch, number)
                self._check(rows, epoch, number)
                yield rows
                number += 1
        finally:
            _close(source)

    def _admitted(self, batch: object, epoch: int, number: int) -> Rows:
        where = f"batch {number} of epoch {epoch}"
        kind = type(batch).__name__
        arrays = cast("Sequence[ArrayLike]", batch if isinstance(batch, (tuple, list)) else ())
        if self._example is not None and _are_alike(arrays, self._example):
            return cast("Rows", tuple(arrays))
        if not 2 <= len(arrays) <= 3:
            raise DataError(
                f"{where} is a `{kind}`, not a pair (x, y)",
                remedy="yield two arrays, or three with the weights of the rows",
            )
        names = [f"{name} of {where}" for name in _NAMES[: len(arrays)]]
        rows = tuple(admit(a, n, self.dtype) for n, a in zip(names, arrays, strict=True))
        for name, array in zip(names, rows, strict=True):
            if len(array) != self.batch_size:
                raise DataError(
                    f"{name} has {len(array)} rows, and every batch has {self.batch_size}",
                    remedy="yield whole batches, or pass another batch_size",
                )
        if len(rows) == 3:
            weights = rows[2]
            if weights.ndim != 1 or weights.dtype.kind != "f":
                raise DataError(
                    f"{names[2]} are {weights.dtype} {weights.shape[1:]}",
                    remedy="yield one floating number for each row",
                )
            if not (np.isfinite(weights) & (weights >= 0.0)).all():
                raise DataError(
                    f"{names[2]} are not all finite and not negative",
                    remedy="use 0 for a row that is not to count",
                )
        return rows

    def _check(self, rows: Rows, epoch: int, number: int) -> None:
        """Refuse a batch that does not fit where the first one fitted."""
        example = self.example
        found, wanted = _describe(rows), _describe(example)
        if found != wanted:
            raise DataError(
                f"batch {number} of epoch {epoch} is {found}; the first batch was {wanted}",
                remedy="yield batches of one shape and type",
            )

    def __repr__(self) -> str:
        size = f"{self.steps_per_epoch} batches of {self.batch_size} rows"
        # Not read for this: a source may be slow.
        known = "" if self._example is None else f", {_describe(self._example)}"
        return f"Stream: {size}{known}"


def _are_alike(arrays: Sequence[object], example: Rows) -> bool:
    """Return whether pairs are what most are: arrays like the first ones, to be taken as they are.

    They are copied in any case, so that their layout is no matter.
    """
    return len(arrays) == len(example) == 2 and all(
        type(array) is np.ndarray and array.dtype == known.dtype and array.shape == known.shape
        for array, known in zip(arrays, example, strict=True)
    )


def _describe(rows: Rows) -> str:
    return ", ".join(f"{n} {a.dtype} {a.shape[1:]}" for n, a in zip(_NAMES, rows, strict=False))


def _close(source: object) -> None:
    """Let a generator close its files now, not when it is collected."""
    close = getattr(source, "close", None)
    if callable(close):
        close()
