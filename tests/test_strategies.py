import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.oracle.agreement import assert_agree
from tests.oracle.numpy_graph import OPERATIONS, evaluate, rows_of
from tests.strategies import random_graph
from workbench.assign.from_graph import computation
from workbench.assign.show import show_computation
from workbench.graph.tensor import Tensor, topological_order

SEEDS = range(300)
ROOT = Path(__file__).parent.parent


def digest(seed: int) -> str:
    """Return what identifies a drawn graph and its arrays."""
    outputs, feeds = random_graph(seed)
    text = show_computation(computation(outputs))
    arrays = b"".join(array.tobytes() for array in feeds.values())
    return hashlib.sha256(text.encode() + arrays).hexdigest()


def in_another_process(hash_seed: str) -> str:
    program = "from tests.test_strategies import digest; print([digest(s) for s in range(8)])"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_a_seed_draws_the_same_graph_in_every_process():
    assert (
        in_another_process("1") == in_another_process("2") == f"{[digest(s) for s in range(8)]}\n"
    )


def test_seeds_draw_different_graphs():
    assert len({digest(seed) for seed in range(50)}) == 50


def test_every_operation_is_drawn():
    drawn = {node.op for seed in SEEDS for node in topological_order(random_graph(seed)[0])}
    assert drawn == OPERATIONS | {"parameter", "input", "array"}


def test_half_of_the_graphs_have_a_batch():
    sizes = [rows_of(random_graph(seed)[1]) for seed in SEEDS]
    assert 100 < len([rows for rows in sizes if rows is not None]) < 200
    assert {rows for rows in sizes if rows is not None} == {1, 2, 3, 4, 5}


def _draws_normals(node: Tensor) -> bool:
    # In float64 they come from other bits than in float32.
    return any(t.op == "normal" for t in topological_order([node]))


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_values_are_moderate_and_rounding_decides_nothing(start: int):
    for seed in range(start, start + 50):
        outputs, feeds = random_graph(seed, "float32")
        wide_outputs, wide_feeds = random_graph(seed, "float64")
        wide = evaluate(wide_outputs, wide_feeds)
        for node, value, exact in zip(outputs, evaluate(outputs, feeds), wide, strict=True):
            assert np.isfinite(value).all(), f"seed {seed}: {node!r}"
            assert np.abs(value).max(initial=0) <= 1e4, f"seed {seed}: {node!r}"
            if not _draws_normals(node):
                assert_agree(value, exact.astype(value.dtype), f"seed {seed}: {node!r}")


def test_only_leaves_that_are_read_are_fed():
    for seed in range(50):
        outputs, feeds = random_graph(seed)
        assert feeds.keys() <= set(topological_order(outputs))
