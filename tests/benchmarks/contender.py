"""Who is compared, and what each has to offer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias


class Losses(Protocol):
    """One loss a step, each of which `float` takes: a list, or an array of any library."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


# Train for so many steps, on from where the last call ended, and return each step's loss, taken
# before its update. When it returns, all of them are computed. Step k, counted from 0 over all
# calls, sees batch k modulo the number of batches.
RunSteps: TypeAlias = Callable[[int], Losses]

# The most steps in one timed block: what JAX gets in one `lax.scan`, the others get too.
BLOCK_STEPS: Final = 1000


class ContenderMissing(Exception):
    """The contender cannot take part, for the reason in the text."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to train.

    Parameters
    ----------
    name
        How it is called on the command line and in the results.
    module
        The module below `tests.benchmarks.contenders` that has its
        ``build(problem, threads) -> RunSteps``.
    library
        What it imports; the time of that import is reported.
    keeps_compiled
        Whether compiled code is kept on disk, so that a second process starts warm.
    whole_blocks
        Whether every length of a call is compiled by itself, so that a block always has
        `BLOCK_STEPS` steps. Otherwise slow steps get shorter blocks.
    """

    name: str
    module: str
    library: str
    keeps_compiled: bool
    whole_blocks: bool = False


OURS: Final = Contender("ours", "ours", "workbench", keeps_compiled=True)

CONTENDERS: Final = (
    OURS,
    Contender("torch", "torch_eager", "torch", keeps_compiled=False),
    Contender("jax", "jax_jit", "jax", keeps_compiled=True),
    Contender("jax_scan", "jax_scan", "jax", keeps_compiled=True, whole_blocks=True),
)


def find(name: str) -> Contender:
    """Return the contender called ``name``; `KeyError` if there is none."""
    return {contender.name: contender for contender in CONTENDERS}[name]
