"""The training problems that every contender is timed on, and their data.

All are drawn from fixed seeds, so that every process sees the same initial values and the same rows
in the same order. The first batches do not depend on how many are drawn in all.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]
Scalar = TypeVar("Scalar", bound=np.generic)

LEARNING_RATE: Final = 1e-3
BETA1: Final = 0.9
BETA2: Final = 0.999
EPSILON: Final = 1e-8  # outside the square root, after the bias correction

# Cache lines; also what JAX asks for to use an array where it lies instead of copying it.
ALIGNMENT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Workload:
    """A classifier of ReLU layers, trained by Adam on the mean softmax cross-entropy.

    Parameters
    ----------
    name
        How it is called on the command line.
    sizes
        Widths from the input to the classes.
    batch
        Rows in a batch.
    batches
        Distinct batches; training goes round them. 468 are what MNIST has of 128 rows.
    first_step_only
        Asks how the time to the first step grows with depth, and only of ours.
    """

    name: str
    sizes: tuple[int, ...]
    batch: int
    batches: int
    first_step_only: bool = False

    @property
    def title(self) -> str:
        """The layers and the batch, for people."""
        hidden = self.sizes[1:-1]
        if len(hidden) > 3 and len(set(hidden)) == 1:
            layers = f"{self.sizes[0]}-{len(hidden)}x{hidden[0]}-{self.sizes[-1]}"
        else:
            layers = "-".join(map(str, self.sizes))
        return f"{self.name}: {layers}, batch {self.batch}"


@dataclass(frozen=True, slots=True)
class Missing:
    """A workload that cannot be built yet, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Initial values and data of a workload.

    Parameters
    ----------
    workload
        What they were drawn for.
    weights
        One ``(inputs, outputs)`` array for each layer.
    biases
        One ``(outputs,)`` array of zeros for each layer.
    rows
        ``(batches, batch, features)``, each batch contiguous and aligned to 64 bytes.
    labels
        ``(batches, batch)``.
    """

    workload: Workload
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    rows: Floats
    labels: Labels


WORKLOADS: Final[tuple[Workload | Missing, ...]] = (
    Workload("tiny_mlp", (4, 16, 3), batch=16, batches=1000),
    Workload("digits_mlp", (64, 32, 10), batch=32, batches=1000),
    Workload("mnist_mlp", (784, 128, 10), batch=128, batches=468),
    Workload("wide_mlp", (784, 512, 512, 10), batch=128, batches=468),
    Missing("mnist_cnn", "convolution and pooling do not exist yet"),
    Missing("cifar_cnn", "convolution, pooling and group norm do not exist yet"),
    Missing("char_gpt", "embedding, layer norm and attention do not exist yet"),
    Workload("layers4", (64,) * 5 + (10,), batch=32, batches=10, first_step_only=True),
    Workload("layers48", (64,) * 49 + (10,), batch=32, batches=10, first_step_only=True),
)

# Each purpose has a stream of its own, so that drawing less of one does not shift another.
_WEIGHTS, _CENTRES, _LABELS, _ROWS = range(4)
_SEED: Final = 20


def find(name: str) -> Workload | Missing:
    """Return the workload called ``name``; `KeyError` if there is none."""
    return {work.name: work for work in WORKLOADS}[name]


def draw(work: Workload, *, batches: int | None = None) -> Problem:
    """Draw initial values (He et al. 2015) and the first ``batches`` batches (default: all).

    A row is its class's centre plus unit noise. The centres lie about 2.8 apart whatever the number
    of features, so that the classes overlap and the loss stays well above zero.
    """
    count = work.batches if batches is None else batches
    features, classes = work.sizes[0], work.sizes[-1]

    weights = tuple(
        _stream(_WEIGHTS, layer).standard_normal(shape, dtype=np.float32)
        * np.float32(np.sqrt(2 / shape[0]))
        for layer, shape in enumerate(pairwise(work.sizes))
    )
    biases = tuple(np.zeros(width, np.float32) for width in work.sizes[1:])

    labels = _aligned_empty((count, work.batch), np.int32)
    labels[:] = _stream(_LABELS).integers(0, classes, labels.shape, dtype=np.int32)
    centres = _stream(_CENTRES).standard_normal((classes, features), dtype=np.float32)
    centres *= np.float32(2 / np.sqrt(features))

    rows = _aligned_empty((count, work.batch, features), np.float32)
    _stream(_ROWS).standard_normal(dtype=np.float32, out=rows)
    for batch, batch_labels in zip(rows, labels, strict=True):  # no second copy of all rows
        batch += centres[batch_labels]
    return Problem(work, weights, biases, rows, labels)


def _stream(*purpose: int) -> np.random.Generator:
    return np.random.default_rng([_SEED, *purpose])


def _aligned_empty(shape: tuple[int, ...], dtype: type[Scalar]) -> NDArray[Scalar]:
    size_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + size_bytes].view(dtype).reshape(shape)
