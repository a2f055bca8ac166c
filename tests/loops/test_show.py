"""Loops as text: golden, short, and the same for equal work."""

import numpy as np
import pytest

import workbench as wb
from tests.loops.programs import PROGRAMS
from workbench.assign.from_graph import computation
from workbench.loops.kernel import Program
from workbench.loops.lower import lower
from workbench.loops.policy import decide_placements
from workbench.loops.show import canonical_text, show_kernel


def lowered(outputs, updates=None, rows: int = 32) -> Program:
    made = computation(outputs, updates)
    return lower(made, decide_placements(made, rows), rows)[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_read_as_they_did(golden, name):
    golden(f"loops/{name}", wb.explain(PROGRAMS[name](), stage="loops"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_placements_read_as_they_did(golden, name):
    golden(f"loops/{name}_placements", wb.explain(PROGRAMS[name](), stage="placement"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_does_not_depend_on_what_was_built_before(name):
    first = wb.explain(PROGRAMS[name](), stage="loops")
    for _ in range(3):
        wb.softmax(wb.input("x", (3,), "float64") + wb.parameter(np.ones(3), "w"))
    assert wb.explain(PROGRAMS[name](), stage="loops") == first


def dense(width: int, name: str = "w") -> Program:
    x = wb.input("x", (wb.batch, width))
    w = wb.parameter(np.zeros((width, width), np.float32), name)
    return lowered([wb.tanh(x @ w)])


def texts(program: Program) -> list[str]:
    return [canonical_text(kernel) for kernel in program.kernels]


def test_names_and_sizes_do_not_enter_the_text_that_kernels_are_shared_by():
    assert texts(dense(64)) == texts(dense(200, "other"))


def test_small_extents_are_written_into_the_text():
    assert texts(dense(4)) != texts(dense(5))


def test_layers_of_one_shape_share_their_kernels():
    x = wb.input("x", (wb.batch, 64))
    for i in range(12):
        w = wb.parameter(np.zeros((64, 64), np.float32), f"w{i}")
        b = wb.parameter(np.zeros(64, np.float32), f"b{i}")
        x = wb.relu(x @ w + b)
    found = texts(lowered([x]))
    assert len(found) >= 12
    assert len(set(found)) <= 4


def test_another_element_type_is_another_text():
    def doubled(dtype: str) -> list[str]:
        return texts(lowered([wb.input("x", (100,), dtype) * 2]))

    assert len({tuple(doubled(dtype)) for dtype in ("float32", "float64", "int32", "int64")}) == 4


def test_a_kernel_shows_its_buffers_by_name_only_for_people():
    (kernel,) = lowered([wb.input("speed", (100,)) * 2.0]).kernels
    names = {node: node.label or node.op for node in kernel.buffers if isinstance(node, wb.Tensor)}
    assert "speed" in show_kernel(kernel, names)
    assert "speed" not in show_kernel(kernel)
    assert "speed" not in canonical_text(kernel)
