"""Which sums of products are matrix products, and how the BLAS is told where they lie."""

from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.loops.test_show import lowered
from workbench.assign.assignment import Assignment, Computation
from workbench.assign.from_graph import computation
from workbench.loops.kernel import For, Product
from workbench.loops.lower import lower
from workbench.loops.matrix import Arrangement, arrange
from workbench.loops.policy import decide_placements
from workbench.loops.settings import Settings

SMALL = Settings(min_product=1)


def array(*shape: int) -> wb.Tensor:
    return wb.input("x", shape)


def sums_of(made: Computation) -> list[Assignment]:
    return [s for s in made.statements if isinstance(s, Assignment) and s.combine]


def arrangement(spec: str, left: wb.Tensor, right: wb.Tensor) -> Arrangement | None:
    made = computation([wb.einsum(spec, left, right)])
    (found,) = sums_of(made)
    return arrange(found)


@pytest.mark.parametrize(
    ("spec", "flags", "leading"),
    [
        ("ik,kj->ij", (False, False, False), (4, 5, 5)),
        ("ki,kj->ij", (True, False, False), (3, 5, 5)),
        ("ik,jk->ij", (False, True, False), (4, 4, 5)),
        ("ki,jk->ij", (True, True, False), (3, 4, 5)),
        # Stored by columns: the operands change roles.
        ("ik,kj->ji", (True, True, False), (5, 4, 3)),
    ],
)
def test_a_transpose_is_a_flag_and_a_leading_extent(spec, flags, leading):
    extents = {"i": 3, "j": 5, "k": 4}
    left, right = (array(*(extents[c] for c in part)) for part in spec.split("->")[0].split(","))
    found = arrangement(spec, left, right)
    assert found is not None
    operands = (found.a, found.b, found.c)
    assert tuple(o.matrix.transposed for o in operands) == flags
    assert tuple(o.matrix.leading for o in operands) == leading


@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [
        ("abk,kc->abc", (2, 3, 4), (4, 5)),
        ("ak,kbc->abc", (2, 4), (4, 3, 5)),
        ("akl,klb->ab", (2, 3, 4), (3, 4, 5)),
        ("nik,nkj->nij", (6, 2, 3), (6, 3, 4)),
        ("nmik,nmkj->nmij", (2, 3, 2, 3), (2, 3, 3, 4)),
        ("ani,nib->anb", (2, 3, 4), (3, 4, 5)),
        ("ik,kj->ij", (1, 4), (4, 5)),
        ("ik,kj->ij", (3, 1), (1, 5)),
        ("ik,kj->ij", (3, 4), (4, 1)),
    ],
)
def test_axes_that_lie_together_are_one_axis_and_batches_are_loops(spec, left, right):
    assert arrangement(spec, array(*left), array(*right)) is not None


@pytest.mark.parametrize(
    ("spec", "left", "right", "why"),
    [
        ("ij,ij->ij", (3, 4), (3, 4), "nothing is summed"),
        ("ik,jk->", (3, 4), (5, 4), "no rows"),
        ("i,j->ij", (3,), (4,), "an outer product"),
        ("k,kj->j", (4,), (4, 5), "a vector has no rows"),
        ("akl,lkb->ab", (2, 3, 4), (4, 3, 5), "the summed axes lie in two orders"),
        ("aik,kj->iaj", (2, 3, 4), (4, 5), "rows that do not lie together"),
        ("ik,kj->i", (3, 4), (4, 5), "a summed axis of one operand alone"),
    ],
)
def test_what_would_need_a_copy_is_left_to_loops(spec, left, right, why):
    made = computation([wb.einsum(spec, array(*left), array(*right))])
    assert all(arrange(s) is None for s in sums_of(made)), why


def products(outputs, **settings):
    made = computation(outputs)
    caps = Settings(**settings)
    program, _ = lower(made, decide_placements(made, 32, settings=caps), 32, settings=caps)
    found = []

    def visit(body):
        for stmt in body:
            if isinstance(stmt, Product):
                found.append(stmt)
            if isinstance(stmt, For):
                visit(stmt.body)

    for kernel in program.kernels:
        visit(kernel.body)
    return found


@pytest.mark.parametrize(("n", "count"), [(15, 0), (16, 1)])
def test_products_from_sixteen_cubed_on_go_to_the_blas(n, count):
    assert len(products([array(n, n) @ wb.parameter(np.zeros((n, n), np.float32))])) == count


def test_a_transposed_operand_is_not_copied():
    x, w = array(32, 32), wb.parameter(np.zeros((32, 32), np.float32))
    for product, flags in (
        (x @ w, (False, False)),
        (x.T @ w, (True, False)),
        (x @ w.T, (False, True)),
        (x.T @ w.T, (True, True)),
    ):
        program = lowered([product])
        assert len(program.kernels) == 1
        (found,) = products([product])
        assert (found.transpose_a, found.transpose_b) == flags


def test_a_product_of_something_computed_reads_it_from_memory():
    x, w = array(32, 32), wb.parameter(np.zeros((32, 32), np.float32))
    program = lowered([wb.tanh(x) @ w])
    assert len(program.kernels) == 2
    assert len(products([wb.tanh(x) @ w])) == 1


SPECS = [
    ("ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ki,jk->ij", "ik,kj->ji", "ki,jk->ji"),
    ("nik,nkj->nij", "nki,njk->nij", "nik,nkj->nji", "ink,nkj->nij", "nik,knj->inj"),
    ("abk,kc->abc", "akl,klb->ab", "akl,lkb->ab", "aik,kj->iaj", "kab,kc->abc", "lak,klb->ba"),
]
EXTENTS = dict(zip("abcijklmn", (2, 3, 4, 5, 3, 4, 2, 3, 2), strict=True))


@pytest.mark.parametrize("ones", ["", "i", "j", "k", "n", "ij", "ik", "jk"])
@pytest.mark.parametrize("spec", [spec for group in SPECS for spec in group])
def test_every_arrangement_gives_what_numpy_gives(spec, ones):
    sizes = {c: 1 if c in ones else n for c, n in EXTENTS.items()}
    left, right = spec.split("->")[0].split(",")
    numbers = np.random.default_rng(3)
    a = numbers.normal(size=[sizes[c] for c in left])
    b = numbers.normal(size=[sizes[c] for c in right])
    x, y = wb.input("x", a.shape, "float64"), wb.input("y", b.shape, "float64")
    product = wb.einsum(spec, x, y)
    ctx, routine = replace(wb.Context.interpreter(), settings=SMALL).compile([product])
    plain = ctx.set_values({x: a, y: b}).run(routine).get_values(product)
    np.testing.assert_allclose(plain, np.einsum(spec, a, b), rtol=0, atol=1e-13)


@pytest.mark.parametrize("spec", [spec for group in SPECS for spec in group])
def test_every_arrangement_gives_what_numpy_gives_on_the_processor(spec):
    sizes = {c: 16 * n for c, n in EXTENTS.items()} | {"n": 3}
    left, right = spec.split("->")[0].split(",")
    numbers = np.random.default_rng(3)
    a = numbers.normal(size=[sizes[c] for c in left])
    b = numbers.normal(size=[sizes[c] for c in right])
    x, y = wb.input("x", a.shape, "float64"), wb.input("y", b.shape, "float64")
    product = wb.einsum(spec, x, y)
    ctx, routine = replace(wb.Context.cpu(2), settings=SMALL).compile([product])
    found = ctx.set_values({x: a, y: b}).run(routine).get_values(product)
    np.testing.assert_allclose(found, np.einsum(spec, a, b), rtol=0, atol=1e-10)
