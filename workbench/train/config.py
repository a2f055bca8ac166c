"""What a person decides about a run before it starts.

In: numbers as they were typed.  Out: a frozen `Config`.  Invariant: a `Config` that exists is one
that a run can be made with.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final, final

from workbench.arguments import number_from, share_from, truth_from, whole_from
from workbench.seeds import seed_from

__all__ = ["Config"]

_LEAST: Final = {
    "epochs": 0,
    "batch_size": 1,
    "eval_every": 0,
    "eval_every_steps": 0,
    "steps_per_epoch": 0,
    "accum_steps": 1,
}


@final
@dataclass(frozen=True, slots=True)
class Config:
    """How long, in what portions and at what rate a run trains.

    Parameters
    ----------
    epochs
        How many epochs the whole run has, those before a resumption included; 0 or more.
    batch_size
        Rows of a batch, 1 or more.
    lr
        The learning rate that the run starts with; finite and not negative.
    seed
        Where every random choice of the run comes from: an integer of 64 bits, signed or not.
    shuffle
        Whether each epoch visits the rows in an order of its own.
    eval_every
        Evaluate after each so many epochs; 0 never evaluates.
    verbose
        Whether the run reports as it goes.
    drop_last
        Whether a last batch of fewer rows is left out.
    validation_split
        The share of the training rows that is held out for evaluation where no validation set is
        given, drawn by `workbench.data.split` under the run's seed; 0 holds out none.
    accum_steps
        Batches that make one update, as one batch of so many times the rows would; what is left at
        the end of an epoch makes one too. Schedules and ``state.global_step`` count updates, those
        that mixed precision skips included.
    eval_every_steps
        Evaluate within epochs as well, after each so many updates; 0 does not. It changes neither
        what is learned nor what the history says of an epoch.
    steps_per_epoch
        Batches of an epoch; 0 for one pass over the rows. The rows are then an endless sequence,
        one shuffled pass after another, of which each epoch takes the next ``steps_per_epoch *
        batch_size``: every batch is whole, and one may end a pass and begin the next.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or a count is not an integer.

    Examples
    --------
    >>> Config(60, 16, 0.01, 20260807, eval_every=2).batch_size
    16
    """

    epochs: int
    batch_size: int
    lr: float
    seed: int
    _: KW_ONLY
    shuffle: bool = True
    eval_every: int = 1
    verbose: bool = True
    drop_last: bool = False
    validation_split: float = 0.0
    accum_steps: int = 1
    eval_every_steps: int = 0
    steps_per_epoch: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            # Numpy's integers become Python's: a seed is computed with beyond 64 bits.
            object.__setattr__(self, name, whole_from(name, getattr(self, name), least))
        object.__setattr__(self, "seed", seed_from("seed", self.seed))
        object.__setattr__(self, "lr", number_from("lr", self.lr, 0.0, example="0.01"))
        share = share_from("validation_split", self.validation_split, below_one=True)
        object.__setattr__(self, "validation_split", share)
        for name in ("shuffle", "verbose", "drop_last"):
            object.__setattr__(self, name, truth_from(name, getattr(self, name)))
