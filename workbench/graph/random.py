"""Random numbers addressed by position: the same seed, counter and element give the same number.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011). Its key is the 64-bit seed; its counter holds the element's position and the
64-bit counter of the draw, so that any draw of any step can be reached at once.
"""

from __future__ import annotations

from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.elementwise import cast, computed, describe
from workbench.graph.extent import Batch, as_shape, show_shape, whole_number
from workbench.graph.leaf import scalar
from workbench.graph.tensor import Operand, Tensor, as_tensor


def _word(op: str, name: str, value: Operand) -> Tensor:
    """Return 64 bits as an int64 tensor of shape ``()``."""
    number = None if isinstance(value, Tensor) else whole_number(value)
    if number is not None:
        if not -(1 << 63) <= number < 1 << 64:
            raise DTypeError(
                f"{op}: the {name} {number} does not fit into 64 bits",
                remedy="derive a seed with `workbench.seeds`, or keep its low 64 bits",
            )
        # Seeds are unsigned, int64 is not: the bits are kept.
        return scalar(number - (1 << 64) if number >= 1 << 63 else number, DType.I64)
    word = as_tensor(value, op=op)
    if word.shape != () or not word.dtype.is_integer:
        raise DTypeError(
            f"{op}: the {name} is {describe(word)}, not one whole number",
            remedy="pass an int, or an int64 tensor of shape ()",
        )
    return cast(word, DType.I64)


def _draw(op: str, shape: object, seed: Operand, counter: Operand, dtype: object) -> Tensor:
    element = as_dtype(dtype)
    if not element.is_float:
        raise DTypeError(
            f"{op}: {element} is not a floating type", remedy="draw float32 and convert"
        )
    extents = as_shape(shape)
    if any(isinstance(extent, Batch) for extent in extents[1:]):
        raise ShapeError(
            f"{op}: the batch is not the first axis of {show_shape(extents)}",
            remedy="draw with the batch first and transpose: an element's number depends on its "
            "position, which must not depend on the number of rows",
        )
    words = (_word(op, "seed", seed), _word(op, "counter", counter))
    return computed(op, words, extents, element, {"shape": extents})


def uniform(
    shape: object, *, seed: Operand, counter: Operand = 0, dtype: object = "float32"
) -> Tensor:
    """Return independent numbers in [0, 1), multiples of 2**-24 (float32) or 2**-53 (float64).

    Parameters
    ----------
    shape
        Extents of the result; the batch can only be the first.
    seed
        A whole number of 64 bits, or an int64 tensor of shape ().
    counter
        Which draw under this seed: the step, say.
    dtype
        A floating type; 16-bit numbers are rounded float32 ones.
    """
    return _draw("uniform", shape, seed, counter, dtype)


def normal(
    shape: object, *, seed: Operand, counter: Operand = 0, dtype: object = "float32"
) -> Tensor:
    """Return independent standard normal numbers (Box and Muller 1958, the cosine branch).

    Parameters are those of `uniform`.
    """
    return _draw("normal", shape, seed, counter, dtype)
