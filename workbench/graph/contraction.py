"""Sums of products over shared axes: ``einsum`` is the one operation, ``@`` is written in it.

In: two or more tensors. Out: one. Invariant: in an ``einsum`` node every letter of an operand is in
the other operand or in the result, at least one letter is summed over, and none comes twice in one
place.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from workbench.errors import DTypeError, ShapeError
from workbench.graph.elementwise import (
    broadcast_shapes,
    cast,
    common_dtype,
    computed,
    describe,
    mul,
)
from workbench.graph.extent import Extent
from workbench.graph.movement import reshape_to, transpose
from workbench.graph.reduction import sum_
from workbench.graph.tensor import Operand, Tensor, as_tensors, builder


def parse(spec: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the subscripts of each operand and of the result.

    Raises
    ------
    ShapeError
        If the subscripts do not fit the operands.
    """
    text = spec.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ShapeError(
            f"einsum `{spec}`: {len(inputs)} operands are named and {len(operands)} were given",
            remedy="write one group of letters for each operand, separated by commas",
        )
    if not arrow:
        letters = "".join(inputs)
        right = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    for letters, operand in zip(inputs, operands, strict=True):
        if not all(c in string.ascii_letters for c in letters) or len(letters) != operand.ndim:
            raise ShapeError(
                f"einsum `{spec}`: `{letters}` does not name the {operand.ndim} axes of "
                f"{describe(operand)}",
                remedy="write one letter for each axis",
            )
        if len(set(letters)) < len(letters):
            raise ShapeError(
                f"einsum `{spec}`: `{letters}` names one axis of {describe(operand)} twice",
                remedy="a diagonal is not supported: multiply by an identity mask and sum",
            )
    if len(set(right)) < len(right) or not set(right) <= set("".join(inputs)):
        raise ShapeError(
            f"einsum `{spec}`: the result `{right}` repeats a letter or uses one no operand has",
            remedy="use each letter of the operands at most once in the result",
        )
    return inputs, right


def extents_of(spec: str, inputs: Sequence[str], operands: Sequence[Tensor]) -> dict[str, Extent]:
    """Return the extent of each letter, checked to agree."""
    extents: dict[str, Extent] = {}
    owner: dict[str, Tensor] = {}
    for letters, operand in zip(inputs, operands, strict=True):
        for letter, extent in zip(letters, operand.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ShapeError(
                    f"einsum `{spec}`: left is {describe(owner[letter])}, right is "
                    f"{describe(operand)}; extents {extents[letter]} and {extent} of `{letter}` "
                    "differ",
                    remedy="make the extents equal, or transpose an operand",
                )
            owner.setdefault(letter, operand)
    return extents


def einsum(spec: str, *tensors: Operand) -> Tensor:
    """Return the sum of products that ``spec`` describes, as in numpy.

    Parameters
    ----------
    spec
        Such as ``"bij,bjk->bik"``, each letter once per operand. Without an arrow, the result has
        the letters that come once.
    tensors
        One or more operands of one floating type; more than two are combined from the left.

    Raises
    ------
    ShapeError
        If the letters do not fit the operands, or the extents of a letter differ.
    DTypeError
        If the types differ or are not floating.
    """
    operands = as_tensors(tensors, f"einsum `{spec}`")
    inputs, result = parse(spec, operands)
    extents_of(spec, inputs, operands)
    dtype = common_dtype(f"einsum `{spec}`", operands)
    if not dtype.is_float:
        raise DTypeError(
            f"einsum `{spec}`: left is {describe(operands[0])}, right is {describe(operands[-1])}",
            remedy="use one floating type: `.astype('float32')`",
        )
    operands = [cast(t, dtype) for t in operands]
    while len(operands) > 2:
        needed = set(result).union(*inputs[2:])
        keep = "".join(dict.fromkeys(c for c in inputs[0] + inputs[1] if c in needed))
        operands[:2] = [_pair(inputs[0], inputs[1], keep, operands[0], operands[1])]
        inputs[:2] = [keep]
    if len(operands) == 1:
        return _single(inputs[0], result, operands[0])
    return _pair(inputs[0], inputs[1], result, operands[0], operands[1])


def _single(letters: str, result: str, x: Tensor) -> Tensor:
    """Return ``x`` with the letters that the result lacks summed over, the others in its order."""
    letters, x = _sum_alone(letters, result, x)
    return transpose(x, [letters.index(c) for c in result])


def _sum_alone(letters: str, elsewhere: str, x: Tensor) -> tuple[str, Tensor]:
    """Sum over the letters that are not found elsewhere."""
    alone = [place for place, letter in enumerate(letters) if letter not in elsewhere]
    return "".join(c for c in letters if c in elsewhere), sum_(x, alone) if alone else x


def _pair(left: str, right: str, result: str, a: Tensor, b: Tensor) -> Tensor:
    # An axis of one operand alone is summed before the product: fewer products, and what remains
    # is batch, row, column and contracted axes only.
    left, a = _sum_alone(left, right + result, a)
    right, b = _sum_alone(right, left + result, b)
    extents = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    if set(left + right) <= set(result):
        return mul(_spread(left, result, a), _spread(right, result, b))
    # Letters in the order of their first use: one product is one node, however it was spelled.
    names = dict(zip(dict.fromkeys(left + right), string.ascii_letters, strict=False))
    subscripts: dict[str, object] = {
        side: "".join(names[c] for c in letters)
        for side, letters in (("left", left), ("right", right), ("result", result))
    }
    return computed("einsum", (a, b), tuple(extents[c] for c in result), a.dtype, subscripts)


def _spread(letters: str, result: str, x: Tensor) -> Tensor:
    """Return ``x`` with its axes in the order of the result, extent 1 where it lacks a letter."""
    ordered = [c for c in result if c in letters]
    x = transpose(x, [letters.index(c) for c in ordered])
    extents = dict(zip(ordered, x.shape, strict=True))
    return reshape_to(x, tuple(extents.get(c, 1) for c in result))


@builder
def matmul(left: Operand, right: Operand) -> Tensor:
    """Return ``left @ right`` as numpy does: last two axes multiply, the others broadcast.

    Parameters
    ----------
    left
        Shape ``(..., m, k)`` or ``(k,)``.
    right
        Shape ``(..., k, n)`` or ``(k,)``.

    Raises
    ------
    ShapeError
        If an operand has no axes, the inner extents differ, or the outer axes do not broadcast.
    DTypeError
        If the types differ or are not floating.
    """
    a, b = as_tensors((left, right), "matmul")
    both = f"matmul: left is {describe(a)}, right is {describe(b)}"
    if not a.ndim or not b.ndim:
        raise ShapeError(both, remedy="multiply by a number with `*`")
    common_dtype("matmul", (a, b))
    if not a.dtype.is_float:
        raise DTypeError(both, remedy="use one floating type: `.astype('float32')`")
    inner, other = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if inner != other:
        raise ShapeError(
            f"{both}; inner extents {inner} and {other} differ",
            remedy="transpose one operand (`x.T`), or check the layer's input width",
        )
    rank = len(broadcast_shapes("matmul", (a, b), skip=2))
    outer, row, column = string.ascii_lowercase[:rank], "M" * (a.ndim > 1), "N" * (b.ndim > 1)
    a_outer, b_outer = a.shape[:-2], b.shape[:-2]
    a_letters, a = _drop_ones(a, a_outer, b_outer, outer)
    b_letters, b = _drop_ones(b, b_outer, a_outer, outer)
    return einsum(f"{a_letters}{row}K,{b_letters}K{column}->{outer}{row}{column}", a, b)


def _drop_ones(
    x: Tensor, own: Sequence[Extent], other: Sequence[Extent], letters: str
) -> tuple[str, Tensor]:
    """Drop the outer axes of extent 1 that broadcast; ``einsum`` repeats what lacks a letter."""
    lead = len(letters) - len(own)
    shorter = len(letters) - len(other)
    kept = [
        place
        for place, extent in enumerate(own, start=lead)
        if extent != 1 or place < shorter or other[place - shorter] == 1
    ]
    shape = (*(own[place - lead] for place in kept), *x.shape[len(own) :])
    return "".join(letters[place] for place in kept), reshape_to(x, shape)
