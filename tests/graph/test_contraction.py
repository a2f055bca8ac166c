import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from workbench.errors import DTypeError, ShapeError
from workbench.graph.contraction import einsum, matmul
from workbench.graph.extent import batch
from workbench.graph.leaf import input_, parameter
from workbench.graph.tensor import Tensor


def tensor(shape, dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


def outer_shapes(rank: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, 3), repeat=rank))


@pytest.mark.parametrize("left_rank", range(1, 5))
@pytest.mark.parametrize("right_rank", range(1, 5))
def test_products_broadcast_as_in_numpy_for_all_ranks(left_rank: int, right_rank: int):
    left_outer, right_outer = (outer_shapes(max(0, r - 2)) for r in (left_rank, right_rank))
    for a_outer, b_outer in itertools.product(left_outer, right_outer):
        a = numbers((*a_outer, *(2, 4)[2 - min(left_rank, 2) :]), 1)
        b = numbers((*b_outer, *((4, 5) if right_rank > 1 else (4,))), 2)
        (found,) = evaluate([parameter(a) @ parameter(b)], {})
        np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((batch, 4), (4, 5), (batch, 5)),
        ((batch, 1, 4), (4, 5), (batch, 1, 5)),
        ((batch, 2, 4), (3, 1, 4, 5), (3, batch, 2, 5)),
        ((batch, 2, 4), (batch, 4, 5), (batch, 2, 5)),
        ((3, batch), (batch, 5), (3, 5)),
        ((batch,), (batch,), ()),
        ((1, 4), (batch, 4, 5), (batch, 1, 5)),
        ((2, 0), (0, 3), (2, 3)),
    ],
)
def test_products_keep_or_sum_over_the_batch(left, right, shape):
    assert (tensor(left) @ tensor(right)).shape == shape


def test_numpy_arrays_multiply_from_both_sides():
    x = tensor((2, 3))
    assert (x @ np.ones((3, 4), np.float32)).shape == (2, 4)
    assert (np.ones((4, 2), np.float32) @ x).shape == (4, 3)
    assert (x @ [1.0, 2.0, 3.0]).shape == (2,)


@pytest.mark.parametrize(
    ("left", "right", "named"),
    [
        ((2, 3), (4, 5), "inner extents 3 and 4 differ"),
        ((3,), (4,), "inner extents 3 and 4 differ"),
        ((batch, 3), (batch, 5), "inner extents 3 and batch differ"),
        ((), (4, 5), "right is `b` of shape (4, 5)"),
        ((2, 7, 3), (5, 3, 4), "extents 2 and 5 of axis -3 differ"),
        ((batch, 7, 3), (5, 3, 4), "extents batch and 5 of axis -3 differ"),
    ],
)
def test_products_that_do_not_fit_are_refused_naming_both(left, right, named: str):
    with refused(ShapeError, "matmul:", "left is `a`", "right is `b`", named):
        matmul(tensor(left, label="a"), tensor(right, label="b"))


@pytest.mark.parametrize("types", [("float32", "float64"), ("int32", "int32"), ("bool", "bool")])
def test_products_are_of_one_floating_type(types: tuple[str, str]):
    a, b = (tensor((2, 2), dtype, name) for dtype, name in zip(types, "ab", strict=True))
    with refused(DTypeError, "matmul:", "`a`", "`b`", *types):
        _ = a @ b
    with refused(DTypeError, "einsum `ij,jk->ik`:", types[0]):
        einsum("ij,jk->ik", a, b)


def test_a_product_is_one_node_however_it_was_written():
    x, w = tensor((2, 3)), tensor((3, 4))
    assert x @ w is matmul(x, w) is einsum("ij,jk->ik", x, w) is einsum("Bq, qT -> BT", x, w)


@st.composite
def specifications(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Draw subscripts for one to four operands, and their shapes."""
    letters = draw(st.permutations("aAbBcd"))[: draw(st.integers(1, 5))]
    extents = {c: draw(st.integers(1, 3)) for c in letters}
    some = st.lists(st.sampled_from(letters), unique=True, max_size=4)
    inputs = draw(st.lists(some, min_size=1, max_size=4))
    used = sorted({c for group in inputs for c in group})
    result = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    spec = ",".join("".join(group) for group in inputs)
    if draw(st.booleans()):
        spec += "->" + "".join(result)
    return spec, [tuple(extents[c] for c in group) for group in inputs]


@given(specifications())
def test_einstein_sums_are_numpys(case: tuple[str, list[tuple[int, ...]]]):
    spec, shapes = case
    arrays = [numbers(shape, i) for i, shape in enumerate(shapes)]
    (found,) = evaluate([einsum(spec, *map(parameter, arrays))], {})
    np.testing.assert_allclose(found, np.einsum(spec, *arrays), rtol=1e-12)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("ij->i", "1 operands are named and 2 were given"),
        ("ij,jk,kl->il", "3 operands are named and 2 were given"),
        ("i,jk->ik", "`i` does not name the 2 axes of `a`"),
        ("i.,jk->ik", "`i.` does not name"),
        ("...j,jk->...k", "`...j` does not name"),
        ("ii,jk->ik", "`ii` names one axis of `a`"),
        ("ij,jk->iz", "the result `iz`"),
        ("ij,jk->ii", "the result `ii`"),
        ("ij,ik->jk", "extents 2 and 3 of `i` differ"),
    ],
)
def test_subscripts_that_do_not_fit_are_refused(spec: str, named: str):
    with refused(ShapeError, f"einsum `{spec}`:", named):
        einsum(spec, tensor((2, 3), label="a"), tensor((3, 4), label="b"))


def test_two_batch_axes_in_a_result_are_refused():
    with refused(ShapeError, "'a'", "'b'", "(batch, batch)", "twice"):
        einsum("ij,kj->ik", tensor((batch, 3), label="a"), tensor((batch, 3), label="b"))
