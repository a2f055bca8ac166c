"""Which statements run as one kernel, and around which loops."""

import numpy as np
import pytest

import workbench as wb
from tests.loops.test_show import lowered
from workbench.assign.from_graph import computation
from workbench.loops.inline import inline
from workbench.loops.kernel import Accumulate, For, Scratch
from workbench.loops.policy import decide_placements
from workbench.loops.schedule import schedule


def kernels(*outputs, updates=None, rows=32):
    return lowered(outputs, updates, rows).kernels


def groups(*outputs, updates=None, rows=32):
    made = computation(outputs, updates)
    inlined = inline(made, decide_placements(made, rows), rows)
    return schedule(inlined.statements, rows)


def scratch_of(kernel):
    return [buffer for buffer in kernel.buffers if isinstance(buffer, Scratch)]


def test_elementwise_operations_of_one_shape_are_one_kernel():
    x, y = wb.input("x", (100,)), wb.input("y", (100,))
    assert len(kernels(wb.exp(x) * y, wb.tanh(y) + x, x - y)) == 1


def test_a_softmax_is_one_kernel_the_intermediate_of_which_stays_in_it():
    (kernel,) = kernels(wb.softmax(wb.input("x", (wb.batch, 100))))
    (scratch,) = scratch_of(kernel)
    assert scratch.size == 100


def test_a_cross_entropy_by_rows_is_one_kernel_that_stores_no_matrix():
    logits, labels = wb.input("x", (wb.batch, 100)), wb.input("y", (wb.batch,), "int32")
    (kernel,) = kernels(wb.cross_entropy_rows(logits, labels))
    stored = [b for b in kernel.buffers if isinstance(b, wb.Tensor) and b.ndim == 2]
    assert [node is logits for node in stored] == [True]


def test_a_normalisation_of_rows_is_one_kernel():
    x = wb.input("x", (wb.batch, 64))
    centred = x - x.mean(1, keepdims=True)
    normal = centred * wb.rsqrt(wb.square(centred).mean(1, keepdims=True) + 1e-5)
    assert len(kernels(normal)) == 1


def test_a_product_is_a_kernel_of_its_own():
    x = wb.input("x", (wb.batch, 64))
    w = wb.parameter(np.zeros((64, 64), np.float32), "w")
    assert len(kernels(wb.relu(wb.tanh(x) @ w))) == 3


def test_statements_of_other_extents_are_other_kernels():
    x, y = wb.input("x", (100,)), wb.input("y", (99,))
    assert len(kernels(x * 2.0, y * 2.0)) == 2


def test_equal_extents_are_not_enough_to_share_a_loop():
    # Nothing is read by both: one loop would only mix what could run at the same time.
    x, y = wb.input("x", (100,)), wb.input("y", (100,))
    assert len(kernels(x * 2.0, y * 2.0)) == 2


def test_what_is_read_at_another_cell_waits_for_all_of_it():
    x = wb.input("x", (100,))
    curve = wb.erf(x)
    both = kernels(curve, wb.flip(curve, 0) + curve)
    assert len(both) == 2


def test_what_is_reduced_over_the_shared_axis_waits_for_all_of_it():
    x = wb.input("x", (100, 50))
    total = x.sum()
    assert len(kernels(total, x * total)) == 2


def test_scalars_share_one_kernel():
    a, b = wb.input("a", ()), wb.input("b", ())
    assert len(kernels(a + b, a * b, wb.exp(a))) == 1


def test_sums_down_the_columns_add_whole_rows():
    (kernel,) = kernels(wb.input("x", (wb.batch, 100)).sum(0))
    clear, _, _, blocks, join = kernel.body
    assert isinstance(clear, For)
    assert isinstance(join, For)
    assert isinstance(blocks, For)
    rows = blocks.body[0]
    assert isinstance(rows, For)
    assert isinstance(rows.body[0], For)
    assert isinstance(rows.body[0].body[-1], Accumulate)


def test_sums_along_the_rows_are_held_in_a_register():
    (kernel,) = kernels(wb.input("x", (wb.batch, 100)).sum(1))

    def accumulates(body):
        return any(
            isinstance(s, Accumulate) or (isinstance(s, For) and accumulates(s.body)) for s in body
        )

    assert not accumulates(kernel.body)


@pytest.mark.parametrize("shape", [(), (4,), (4, 3)])
def test_a_scatter_adds_into_memory_cell_by_cell(shape):
    indices = wb.input("i", (*shape[:1], 5), "int32") if shape else wb.input("i", (5,), "int32")
    updates = wb.input("u", (*indices.shape, *shape[1:]))
    total = wb.scatter_add(7, indices, updates)
    found = [piece for group in groups(total) for piece in group.pieces if piece.statement.combine]
    assert [piece.by_rows for piece in found] == [True]


def test_every_statement_is_in_one_kernel_and_after_what_it_reads():
    x = wb.input("x", (wb.batch, 64))
    w = wb.parameter(np.zeros((64, 10), np.float32), "w")
    loss = wb.cross_entropy(x @ w, wb.input("y", (wb.batch,), "int32"))
    grad = wb.backward(loss, [w])[w]
    order = groups(loss, updates={w: w - grad})
    written: set[wb.Tensor] = set()
    placed = 0
    for group in order:
        for piece in group.pieces:
            for read in piece.statement.reads():
                assert read.node in written or read.node.op in ("parameter", "input")
            written.add(piece.statement.target)
            placed += 1
    made = computation([loss], {w: w - grad})
    inlined = inline(made, decide_placements(made, 32), 32)
    assert placed == len(inlined.statements)


def test_a_large_graph_is_scheduled_in_time_that_grows_with_its_size():
    x = wb.input("x", (wb.batch, 64))
    for i in range(300):
        x = wb.tanh(x @ wb.parameter(np.zeros((64, 64), np.float32), f"w{i}"))
    assert len(kernels(x)) == 600
