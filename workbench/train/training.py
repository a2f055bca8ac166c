"""What a call of ``fit`` or ``start`` trains on and with, as one value.

In: data sets, functions and callbacks. Out: a `Training`, checked against the run's configuration.
Invariant: this is the one place that lists the arguments of every way to begin a training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast, final

from workbench.arguments import refusal
from workbench.data.dataset import Dataset
from workbench.data.partition import split
from workbench.data.stream import Stream
from workbench.errors import ConfigurationError, DataError
from workbench.graph.tensor import Tensor
from workbench.train.config import Config
from workbench.train.row_orders import RowOrder
from workbench.train.statistic import Statistic
from workbench.train.step import StepResult

__all__ = ["EvalBatch", "Parts", "Step", "Training", "takes_training"]

Step = Callable[..., StepResult]
EvalBatch = Callable[..., Mapping[str, Tensor | Statistic]]

Owner = TypeVar("Owner")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What a run is trained on and with.

    Parameters
    ----------
    callbacks
        Objects with hooks such as ``on_epoch_end``; see `explain_order`.
    train
        The rows to learn from, or a `workbench.data.Stream` of batches.
    val
        The rows to evaluate on after every ``config.eval_every`` epochs and every
        ``config.eval_every_steps`` updates; empty for none. None is none too, or the rows that
        ``config.validation_split`` holds out of ``train``.
    step
        ``step(params, opt, x, y, lr) -> StepResult``: forward, loss, gradients and optimizer, as
        graph code. It is traced, not called for each batch. Where rows have weights it is
        ``step(params, opt, x, y, lr, weights)``. May be left out if the run was given one with
        ``@run.step`` or a loss with ``@run.loss``.
    eval_batch
        ``eval_batch(params, x, y) -> {name: mean over the batch's rows}``, as graph code; without
        it nothing is evaluated. With a parameter ``weights`` it gets those of the rows, for
        `weighted_mean`.
    row_order
        ``row_order(epoch)`` gives the row numbers of an epoch, or with ``config.steps_per_epoch``
        those of each pass over the rows; by default they are shuffled by the run's seed.
    """

    callbacks: Sequence[object]
    train: Dataset | Stream
    val: Dataset | None
    step: Step | None = None
    eval_batch: EvalBatch | None = None
    _: KW_ONLY
    row_order: RowOrder | None = None

    def check(self, config: Config) -> None:
        """Refuse data that the configuration has no use for.

        Raises
        ------
        DataError
            If a set is no data set, or nothing is left to train on.
        ConfigurationError
            If a stream is given settings that it has no use for.
        """
        if isinstance(cast("object", self.callbacks), (str, bytes, type)) or not isinstance(
            cast("object", self.callbacks), Iterable
        ):
            raise refusal(
                "callbacks",
                "a list of callbacks",
                self.callbacks,
                remedy="pass a list, or [] for none",
            )
        train = self.train
        if self.val is not None:
            _require_dataset("validation", self.val)
        if isinstance(train, Stream):
            self._check_stream(train, config)
        else:
            _require_dataset("training", train)
            if train.n == 0:
                raise DataError("the training set is empty", remedy="give it at least one row")

    def _check_stream(self, stream: Stream, config: Config) -> None:
        if config.batch_size != stream.batch_size:
            raise ConfigurationError(
                f"batch_size is {config.batch_size}, and the stream's batches have "
                f"{stream.batch_size} rows",
                remedy="give both the same number",
            )
        if config.steps_per_epoch not in (0, stream.steps_per_epoch):
            raise ConfigurationError(
                f"steps_per_epoch is {config.steps_per_epoch}, and the stream has "
                f"{stream.steps_per_epoch}",
                remedy="leave it out of the Config, the stream knows it",
            )
        if config.validation_split and self.val is None:
            raise ConfigurationError(
                f"validation_split is {config.validation_split}, and a stream cannot be split",
                remedy="pass a validation set",
            )
        if self.row_order is not None:
            raise ConfigurationError(
                "row_order is given, and a stream has an order of its own",
                remedy="let `batches(epoch, start)` yield the rows in the order that is wanted",
            )


@final
class Parts:
    """The rows to train on and those held out, the same objects each time."""

    def __init__(self) -> None:
        self._known: tuple[tuple[object, ...], tuple[Dataset, Dataset]] | None = None

    def of(self, training: Training, config: Config) -> tuple[Dataset | Stream, Dataset | None]:
        """Return the rows to train on and those to evaluate on."""
        train, val = training.train, training.val
        if val is not None or isinstance(train, Stream) or not config.validation_split:
            return train, val
        key = (train, config.validation_split, config.seed)
        if self._known is None or self._known[0] != key:
            self._known = key, split(train, 1.0 - config.validation_split, seed=config.seed)
        return self._known[1]


_THOSE_OF_A_TRAINING: Final = "<those of a training>"
"""Where a docstring has this, `takes_training` puts the descriptions of the arguments."""

_TRAINING_PARAMETERS: Final = tuple(inspect.signature(Training).parameters.values())


def takes_training(
    made: Callable[Arguments, Training],
) -> Callable[
    [Callable[[Owner, Training], Result]], Callable[Concatenate[Owner, Arguments], Result]
]:
    """Let a function of an owner and a `Training` be called with the training's own arguments.

    Parameters
    ----------
    made
        `Training` itself, whose parameters the function gets.
    """

    def around(
        function: Callable[[Owner, Training], Result],
    ) -> Callable[Concatenate[Owner, Arguments], Result]:
        own = inspect.signature(function)
        first = next(iter(own.parameters.values()))
        signature = own.replace(parameters=[first, *_TRAINING_PARAMETERS])

        @wraps(function)
        def called(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                signature.bind(owner, *args, **kwargs)
            except TypeError as fault:
                raise TypeError(f"{function.__name__}: {fault}") from None
            return function(owner, made(*args, **kwargs))

        described = (inspect.getdoc(made) or "").partition("----------\n")[2]
        text = inspect.getdoc(function) or ""
        called.__doc__ = text.replace(_THOSE_OF_A_TRAINING, described.rstrip())
        called.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` shows
        return called

    return around


def _require_dataset(what: str, data: object) -> None:
    if not isinstance(data, Dataset):
        raise DataError(
            f"the {what} set is a `{type(data).__name__}`, not a Dataset",
            remedy="pass `wb.data.Dataset(x, y)`",
        )
