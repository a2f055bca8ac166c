"""How the time of a computation grows with its size, on a machine that does other things too."""

import gc
import time
from collections.abc import Callable

SHORT, LONG = 2_500, 10_000


def assert_linear(prepare: Callable[[int], Callable[[], None]]) -> None:
    """Check that four times the size takes nothing like sixteen times the time.

    ``prepare(size)`` returns what is timed. Processor time is measured, the best of three, with the
    cyclic collector held back: its passes take as long as what other tests left is large.
    """

    def seconds(size: int) -> float:
        timed = prepare(size)
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            timed()
            return time.process_time() - start
        finally:
            gc.enable()

    short, long = (min(seconds(size) for _ in range(3)) for size in (SHORT, LONG))
    assert long < 10 * short, f"{SHORT}: {short:.3f} s, {LONG}: {long:.3f} s"
