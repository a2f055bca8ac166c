"""How long a run still takes, from the work that was done and timed here.

In: readings of how much is done and what the clock says.  Out: seconds left, or nothing while
nothing is known.  Invariant: only work done since the first reading is counted, so that a resumed
run is never credited with epochs that another process ran; warming up and pauses are left out.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from workbench.train.duration import duration

__all__ = ["TimeEstimate", "TimeLeft"]

Bound: TypeAlias = Literal["", "at most", "at least", "about"]

# Work is kept as at most so many consecutive blocks; when there are more, neighbours are joined.
_MOST_BLOCKS: Final = 16
# Where the slowest block takes more than so many times as long as the fastest, a single number
# would claim to know what it does not.
_STEADY: Final = 2.0


@final
@dataclass(frozen=True, slots=True)
class TimeLeft:
    """An estimate of the time that is left.

    Attributes
    ----------
    least_s, most_s
        Seconds; equal unless the speed varies.
    bound
        ``"at most"`` if the run may end earlier or the speed still contains warming up,
        ``"at least"`` if something is left out whose duration is not known yet, ``"about"`` if
        both, else empty.

    Examples
    --------
    >>> str(TimeLeft(120.0, 300.0)), str(TimeLeft(16.0, 16.0, "at most"))
    ('2 min to 5 min', 'at most 16 s')
    """

    least_s: float
    most_s: float
    bound: Bound = ""

    def __str__(self) -> str:
        if self.bound == "at most":
            return f"at most {duration(self.most_s)}"
        if self.bound == "at least":
            return f"at least {duration(self.least_s)}"
        least, most = duration(self.least_s), duration(self.most_s)
        shown = least if least == most else f"{least} to {most}"
        return f"{self.bound} {shown}".lstrip()


@final
@dataclass(frozen=True, slots=True)
class _Reading:
    """What was known at one moment; all but the clock counts from any beginning."""

    done: float
    now: float
    paused_s: float
    validation_s: float
    validations: int


@final
@dataclass(slots=True)
class _Block:
    """Consecutive work and how long it took."""

    units: float
    seconds: float

    @property
    def pace(self) -> float:
        """Seconds for a unit."""
        return self.seconds / self.units


@final
class TimeEstimate:
    """Readings of a run's progress, and the time left that follows from them.

    A unit is any portion of work: an update, a batch, an epoch.  It holds no clock: whoever feeds
    it reads one that never goes back.

    The time until the first reading that shows new work contains compiling, loading and a first
    step, which come only once.  It is used as an upper bound as long as there is nothing better,
    if it covers more than one unit, and is forgotten as soon as there is.

    Examples
    --------
    >>> estimate = TimeEstimate()
    >>> estimate.feed(10, now=0.0)  # ten epochs were run by another process
    >>> estimate.feed(11, now=2.0)
    >>> estimate.feed(12, now=4.0)
    >>> str(estimate.left(20 - 12))
    '16 s'
    """

    def __init__(self) -> None:
        self._last: _Reading | None = None
        self._warming: _Block | None = None
        self._blocks: list[_Block] = []
        self._span = 0.0
        self._validation_s = 0.0
        self._validations = 0

    def feed(
        self,
        done: float,
        now: float,
        *,
        paused_s: float = 0.0,
        validation_s: float = 0.0,
        validations: int = 0,
    ) -> None:
        """Take a reading.

        Parameters
        ----------
        done
            Units done in the whole run.  Fewer than before means that the run went back to an
            earlier state: measuring goes on from there.
        now
            The clock, in seconds.
        paused_s
            Seconds that the run has been paused for in all.
        validation_s, validations
            Seconds that evaluations have taken in all, and how many there were.  The time of units
            is counted without them.
        """
        reading = _Reading(done, now, paused_s, validation_s, validations)
        last = self._last
        if last is None or done < last.done:
            self._last = reading
            return
        if validations > last.validations:
            self._validations += validations - last.validations
            self._validation_s += validation_s - last.validation_s
        units = done - last.done
        if not units:
            # The time since belongs to the next unit; the evaluations in it were counted above.
            since = last.now + (validation_s - last.validation_s)
            self._last = _Reading(done, since, last.paused_s, validation_s, validations)
            return
        busy = now - last.now - (paused_s - last.paused_s) - (validation_s - last.validation_s)
        self._last = reading
        self._note(_Block(units, max(busy, 0.0)))

    def _note(self, block: _Block) -> None:
        if self._warming is None:
            self._warming = block
            return
        if self._blocks and self._blocks[-1].units < self._span:
            self._blocks[-1].units += block.units
            self._blocks[-1].seconds += block.seconds
        else:
            self._blocks.append(block)
        if len(self._blocks) > _MOST_BLOCKS:
            self._join_neighbours()

    def _join_neighbours(self) -> None:
        # The newest block may be incomplete, so it stays as it is.
        *complete, newest = self._blocks
        pairs = zip(complete[::2], complete[1::2], strict=True)
        joined = [_Block(a.units + b.units, a.seconds + b.seconds) for a, b in pairs]
        self._span = sum(block.units for block in joined) / len(joined)
        self._blocks = [*joined, newest]

    def restart(self) -> None:
        """Forget the speed, because from now on a unit is another amount of work."""
        self._last = self._warming = None
        self._blocks = []
        self._span = 0.0
        self._validation_s, self._validations = 0.0, 0

    def left(
        self, units: float, *, validations: int = 0, may_stop: bool = False
    ) -> TimeLeft | None:
        """Return how long ``units`` more and ``validations`` more take; None if it is not known.

        Parameters
        ----------
        units
            Units that are left to do.
        validations
            Evaluations that are left to do.
        may_stop
            Whether the run may end before all of them are done.
        """
        if self._blocks:
            paces, warm = self._paces(), True
        elif self._warming is not None and self._warming.units > 1:
            paces, warm = (self._warming.pace, self._warming.pace), False
        else:
            return None
        per_validation = self._validation_s / self._validations if self._validations else 0.0
        extra = max(validations, 0) * per_validation
        least, most = (max(units, 0.0) * pace + extra for pace in paces)
        ceiling = may_stop or not warm
        floor = validations > 0 and not self._validations
        bound: Bound = "about" if ceiling and floor else ""
        if ceiling != floor:
            bound = "at most" if ceiling else "at least"
        return TimeLeft(least, most, bound)

    def _paces(self) -> tuple[float, float]:
        """Return the seconds for a unit: twice the mean, or the extremes if they are far apart."""
        blocks = self._blocks
        # A block that has only begun may consist of one long unit.
        steady = [block for block in blocks if block.units >= self._span] or blocks
        fastest, slowest = min(b.pace for b in steady), max(b.pace for b in steady)
        if slowest > _STEADY * fastest:
            return fastest, slowest
        mean = sum(block.seconds for block in blocks) / sum(block.units for block in blocks)
        return mean, mean
