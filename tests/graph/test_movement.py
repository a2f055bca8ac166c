import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import shapes
from workbench.errors import DTypeError, ShapeError
from workbench.graph import movement as ops
from workbench.graph.extent import batch
from workbench.graph.leaf import input_, parameter
from workbench.graph.tensor import Tensor


def tensor(shape=(2, 3), dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


def counted(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.float64).reshape(shape)


def same(found: Tensor, expected: np.ndarray) -> None:
    (value,) = evaluate([found], {})
    assert value.shape == expected.shape
    np.testing.assert_array_equal(value, expected)


@given(shape=shapes(), factors=st.permutations([2, 3, 2]), hole=st.integers(-1, 2))
def test_reshape_is_numpys_with_one_extent_left_open(shape, factors: list[int], hole: int):
    values = counted((*shape, 12))
    rest = values.size // math.prod(factors)
    target: list[int] = [*factors, rest]
    if hole >= 0:
        target[hole] = -1
    same(parameter(values).reshape(target), values.reshape(target))


@pytest.mark.parametrize(
    ("shape", "target", "result"),
    [
        ((batch, 6), (-1, 2, 3), (batch, 2, 3)),
        ((batch, 6), (batch, -1, 2), (batch, 3, 2)),
        ((batch, 2, 6), (-1, 6), (batch * 2, 6)),
        ((batch * 2, 6), (batch, -1), (batch, 12)),
        ((batch, 6), (-1,), (batch * 6,)),
        ((batch, 6), (6, batch), (6, batch)),
        ((batch, 0), (0,), (0,)),
    ],
)
def test_reshape_works_out_extents_beside_the_batch(shape, target, result):
    assert tensor(shape).reshape(target).shape == result


@pytest.mark.parametrize(
    ("shape", "target", "named"),
    [
        ((2, 3), (4, -1), "do not divide into (4, -1)"),
        ((batch, 3), (2, -1), "batch*3 elements"),
        ((2, 3), (batch, -1), "6 elements"),
        ((2, 3), (-1, -1), "more than one -1"),
        ((2, 3), (7,), "(7,) has 7"),
        ((batch, 3), (3,), "has batch*3 elements"),
        ((2, 3), (-2, -3), "negative"),
        ((0, 3), (0, -1), "do not divide"),
        ((2, 3), (2.0, 3), "`2.0` is not an extent"),
    ],
)
def test_a_shape_of_another_size_is_refused(shape, target, named: str):
    with refused(ShapeError, named):
        tensor(shape).reshape(target)


def test_reshaping_to_the_same_shape_is_nothing():
    x = tensor()
    assert x.reshape(2, -1) is x


@given(shape=shapes(most_rank=4), data=st.data())
def test_transposition_is_numpys(shape: tuple[int, ...], data: st.DataObject):
    values = counted(shape)
    order = data.draw(st.permutations(range(len(shape))))
    signed = [a - len(shape) if data.draw(st.booleans()) else a for a in order]
    same(parameter(values).transpose(signed), values.transpose(order))
    same(parameter(values).T, values.T)


@pytest.mark.parametrize("axes", [(0,), (0, 0), (0, 2), (-3, 1), (0, 1, 2), ("a", 1)])
def test_what_is_no_permutation_is_refused(axes):
    with refused(ShapeError, "transpose:", str(axes), "`x` of shape (2, 3)"):
        tensor().transpose(axes)


@given(shape=shapes(least_rank=1), data=st.data())
def test_reversal_is_numpys(shape: tuple[int, ...], data: st.DataObject):
    values = counted(shape)
    axes = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1)).map(tuple))
    same(ops.flip(parameter(values), axes), np.flip(values, axes))


def test_the_batch_is_not_reversed():
    x = tensor((batch, 3), label="rows")
    assert ops.flip(x, 1).shape == (batch, 3)
    with refused(ShapeError, "flip:", "batch axis 0 of `rows`"):
        ops.flip(x)


@given(shape=shapes(), data=st.data())
def test_a_new_axis_is_where_numpy_puts_it(shape: tuple[int, ...], data: st.DataObject):
    values = counted(shape)
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(ops.expand_dims(parameter(values), axis), np.expand_dims(values, axis))


@pytest.mark.parametrize("axis", [3, -4, 0.5])
def test_a_new_axis_far_outside_is_refused(axis):
    with refused(ShapeError, "expand_dims:", "`x`", repr(axis)):
        ops.expand_dims(tensor(), axis)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> object:
    """Draw an index of numpy's that this engine takes."""
    ends = st.none() | st.integers(-6, 6)
    slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, -1]))
    entries: list[object] = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        numbers = st.integers(-extent, extent - 1)
        entries.append(draw(st.one_of(slices, numbers, numbers.map(np.int64))))
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    whole = [e for e in entries if e is not Ellipsis and e is not None]
    if Ellipsis in entries and len(whole) < len(shape):
        # What follows an ellipsis indexes the last axes, so numbers must fit there.
        place = entries.index(Ellipsis)
        entries[place + 1 :] = [
            e if e is None or isinstance(e, slice) else draw(slices) for e in entries[place + 1 :]
        ]
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


@given(shape=shapes(most_rank=4), data=st.data())
def test_indexing_is_numpys(shape: tuple[int, ...], data: st.DataObject):
    values = counted(shape)
    key: Any = data.draw(keys(shape))
    same(parameter(values)[key], values[key])


def test_the_batch_is_indexed_whole():
    x = tensor((batch, 3, 4))
    assert x[:, 1].shape == (batch, 4)
    assert x[0:, ..., ::-1].shape == (batch, 3, 4)
    assert x[..., None].shape == (batch, 3, 4, 1)
    assert x[:] is x


@pytest.mark.parametrize("key", [0, slice(1, None), slice(None, 2), slice(None, None, -1), -1])
def test_the_batch_is_not_cut(key):
    with refused(ShapeError, "getitem:", "`rows`", "batch"):
        tensor((batch, 3), label="rows")[key]


@pytest.mark.parametrize(
    ("key", "named"),
    [
        (2, "2 is outside an axis of extent 2"),
        (-3, "-3 is outside"),
        ((0, 0, 0), "3 indices"),
        ((..., ...), "2 `...`"),
        (slice(None, None, 2), "step 2"),
        (slice(None, None, 0), "slice step cannot be zero"),
        (slice(0.5, None), "slice indices must be integers"),
        (True, "`True`"),
        (1.0, "`1.0`"),
        ("a", "`'a'`"),
        ([0, 1], "`[0, 1]`"),
        (np.array([0, 1]), "array([0, 1])"),
        (np.array([True, False]), "array([ True, False])"),
    ],
)
def test_an_index_that_cannot_be_known_now_is_refused_naming_it(key, named: str):
    with refused(ShapeError, "getitem:", "`x` of shape (2, 3)", named):
        tensor()[key]


def test_an_index_that_is_a_tensor_is_refused_with_what_to_write():
    x = tensor()
    with pytest.raises(ShapeError, match=r"getitem: `x`.*was indexed by `i`") as caught:
        x[tensor((2,), "int32", "i")]
    assert "wb.take" in caught.value.remedy


@pytest.mark.parametrize(
    ("begin", "size", "named"),
    [
        ((0,), (2, 3), "do not name the 2 axes"),
        ((0, 0), (2,), "do not name the 2 axes"),
        ((1, 0), (2, 3), "1:3 is outside an axis of extent 2"),
        ((-1, 0), (2, 3), "-1:1 is outside"),
        ((0, 0.5), (2, 3), "not all whole numbers"),
    ],
)
def test_a_block_outside_is_refused(begin, size, named: str):
    with refused(ShapeError, "slice:", "`x`", named):
        ops.slice_(tensor(), begin, size)


def test_a_block_keeps_the_batch_whole():
    x = tensor((batch, 3), label="rows")
    assert ops.slice_(x, (0, 1), (batch, 2)).shape == (batch, 2)
    for begin, size in (((1, 0), (batch, 3)), ((0, 0), (2, 3))):
        with refused(ShapeError, "slice:", "batch axis of `rows`"):
            ops.slice_(x, begin, size)


@given(shape=shapes(least_rank=1), data=st.data())
def test_padding_puts_zeros_around(shape: tuple[int, ...], data: st.DataObject):
    values = counted(shape) + 1
    widths = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in shape]
    target = tuple(e + a + b for e, (a, b) in zip(shape, widths, strict=True))
    same(ops.pad(parameter(values), [a for a, _ in widths], target), np.pad(values, widths))


@pytest.mark.parametrize(
    ("shape", "before", "target"),
    [
        ((2, 3), (0, 1), (2, 3)),
        ((2, 3), (-1, 0), (4, 3)),
        ((2, 3), (0,), (2, 3)),
        ((batch, 3), (1, 0), (batch, 3)),
        ((batch, 3), (0, 0), (9, 3)),
    ],
)
def test_padding_without_room_is_refused(shape, before, target):
    with refused(ShapeError, "pad:", "`x`", "does not fit"):
        ops.pad(tensor(shape), before, target)


@given(shape=shapes(least_rank=1), extents=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_joining_is_numpys(shape: tuple[int, ...], extents: list[int]):
    axis = extents[0] % len(shape)
    parts = [counted((*shape[:axis], e, *shape[axis + 1 :])) + i for i, e in enumerate(extents)]
    expected = np.concatenate(parts, axis - len(shape))
    same(ops.concat([parameter(p) for p in parts], axis - len(shape)), expected)


@given(shape=shapes(), number=st.integers(1, 3), data=st.data())
def test_stacking_is_numpys(shape: tuple[int, ...], number: int, data: st.DataObject):
    parts = [counted(shape) + i for i in range(number)]
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(ops.stack([parameter(p) for p in parts], axis), np.stack(parts, axis))


def test_joins_keep_the_batch_beside_the_joined_axis():
    x = tensor((batch, 3))
    assert ops.concat([x, x], 1).shape == (batch, 6)
    assert ops.stack([x, x], 1).shape == (batch, 2, 3)
    assert ops.concat([x]) is x
    with refused(ShapeError, "concat:", "batch axis of `x`"):
        ops.concat([x, x], 0)


@pytest.mark.parametrize("join", [ops.concat, ops.stack])
def test_parts_that_do_not_fit_are_refused_naming_both(join):
    name = join.__name__
    with refused(ShapeError, f"{name}:", "`a` of shape (2, 3)", "`b` of shape (2, 4)"):
        join([tensor(label="a"), tensor((2, 4), label="b")])
    with refused(ShapeError, f"{name}:", "`a`", "`b` of shape (2,)"):
        join([tensor(label="a"), tensor((2,), label="b")])
    with refused(DTypeError, f"{name}:", "float32", "float64"):
        join([tensor(), tensor(dtype="float64")])
    with refused(ShapeError, f"{name}: there is nothing to join"):
        join([])


def test_joins_outside_the_axes_are_refused():
    with refused(ShapeError, "concat: axis 2", "`x`"):
        ops.concat([tensor(), tensor()], 2)
    with refused(ShapeError, "stack:", "axis 4"):
        ops.stack([tensor(), tensor()], 4)
    with refused(ShapeError, "concat:", "not one axis"):
        ops.concat([tensor(), tensor()], (0, 1))  # pyright: ignore[reportArgumentType]
