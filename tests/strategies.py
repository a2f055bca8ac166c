"""Random graphs for differential tests, the same for a seed on every platform; shapes of tensors.

In: a seed and an element type. Out: tensors to compute and arrays to feed. Invariant: every
operation can be drawn, and two right backends always agree to rounding: see `tests.graph_moves`.
"""

import random
import warnings

from hypothesis import strategies as st

from tests.graph_moves import MOVES
from tests.graph_sketch import Array, Known, Sketch
from workbench.errors import UnreachedParameterWarning
from workbench.graph import elementwise, reduction
from workbench.graph.dtype import as_dtype
from workbench.graph.gradient import backward
from workbench.graph.tensor import Tensor, topological_order


def random_graph(seed: int, dtype: object = "float32") -> tuple[list[Tensor], dict[Tensor, Array]]:
    """Return tensors to compute and the arrays to feed.

    Parameters
    ----------
    seed
        Any whole number; it decides everything, the shapes and the numbers included.
    dtype
        float32 or float64, the type of all floating tensors. It does not change what is drawn.

    Returns
    -------
    outputs
        A few tensors of the graph (floating, whole numbers and truth values), a scalar of it, and
        the gradients of that scalar.
    feeds
        Arrays for all inputs and parameters. Some seeds have a batch axis; its size is in the
        arrays' shapes.
    """
    chance = random.Random(seed)
    rows = chance.randint(1, 5) if chance.random() < 0.5 else None
    sketch = Sketch(chance, as_dtype(dtype), rows)
    anchor = sketch.leaf(sketch.shape(chance.randint(1, 3), batched=True))
    sketch.leaf(sketch.shape(chance.randint(1, 3)))
    for _ in range(chance.randint(4, 20)):
        chance.choice(MOVES)(sketch)
    outputs = [known.tensor for known in sketch.floats[-3:]]
    outputs += [*sketch.integers[-1:], *sketch.truths[-1:]]
    scalar = _scalar(sketch, anchor)
    outputs.append(scalar)
    leaves = [leaf for leaf in sketch.feeds if leaf.dtype.is_float]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachedParameterWarning)
        outputs += backward(scalar, leaves).values()
    outputs = list(dict.fromkeys(outputs))
    read = set(topological_order(outputs))
    return outputs, {leaf: value for leaf, value in sketch.feeds.items() if leaf in read}


def _scalar(s: Sketch, anchor: Known) -> Tensor:
    # The first leaf, which has the batch if there is one, so that its arrays say how many rows.
    total = reduction.mean(anchor.tensor * s.offset())
    for known in s.chance.sample(s.floats, min(8, len(s.floats))):
        total = total + reduction.mean(elementwise.sin(known.tensor * s.offset()))
    return total


@st.composite
def graphs(draw: st.DrawFn, dtype: object = "float32") -> tuple[list[Tensor], dict[Tensor, Array]]:
    """Draw a graph of `random_graph`."""
    return random_graph(draw(st.integers(0, 2**32 - 1)), dtype)


def shapes(
    *, least_rank: int = 0, most_rank: int = 3, least: int = 1, most: int = 4
) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw small fixed shapes."""
    extents = st.integers(least, most)
    return st.lists(extents, min_size=least_rank, max_size=most_rank).map(tuple)
