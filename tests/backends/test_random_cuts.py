"""Random graphs under other decisions: what is stored, what the BLAS does, how launches are cut.

None of this may change a result by more than rounding, and the number of threads not by a bit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.oracle.agreement import assert_agree
from tests.oracle.numpy_graph import evaluate, rows_of
from tests.strategies import random_graph
from workbench.backends.numba_cpu import backend
from workbench.loops.settings import Settings

SETTINGS = {
    "all products in BLAS": Settings(min_product=1),
    "no product in BLAS": Settings(min_product=10**9),
    "store all": Settings(
        max_visits=0,
        max_inline_reduction=1,
        max_inline_fanin=1,
        max_shared_cost=0,
        max_inline_cost=0,
        local_bytes=0,
    ),
    "inline most": Settings(
        max_visits=8,
        max_inline_reduction=64,
        max_inline_fanin=20,
        max_shared_cost=60,
        max_inline_cost=1000,
        min_product=1,
    ),
}
QUICK = range(40)
REST = range(40, 400)

Array = np.ndarray


def results(seed: int, context: wb.Context) -> tuple[Sequence[Array], Sequence[Array]]:
    """Return what the context finds, and what numpy does."""
    outputs, feeds = random_graph(seed, "float64")
    rows = rows_of(feeds)
    ctx, routine = context.compile(outputs, rows=rows)
    ctx = ctx.set_values(feeds).run(routine)
    return [ctx.get_values(node) for node in outputs], evaluate(outputs, feeds, rows)


def check(seed: int, context: wb.Context) -> None:
    for number, (found, expected) in enumerate(zip(*results(seed, context), strict=True)):
        assert_agree(found, np.asarray(expected), f"seed {seed}, output {number}")


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", QUICK)
def test_what_is_stored_changes_no_result(seed: int, settings: str) -> None:
    check(seed, replace(wb.Context.interpreter(), settings=SETTINGS[settings]))


@pytest.fixture
def cut_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every launch that can be cut, however small."""
    monkeypatch.setattr(backend, "CHUNK_WORK", 4.0)
    monkeypatch.setattr(backend, "PRODUCT_STEPS", ((1.0, 4),))
    monkeypatch.setattr(backend, "PRODUCT_WIDTH", 1)
    monkeypatch.setattr(backend, "PROCESSORS", 4)


def check_cuts(seed: int) -> None:
    blas = SETTINGS["all products in BLAS"]
    two, expected = results(seed, replace(wb.Context.cpu(2), settings=blas))
    one, _ = results(seed, replace(wb.Context.cpu(1), settings=blas))
    for number, (a, b, c) in enumerate(zip(two, one, expected, strict=True)):
        assert_agree(a, np.asarray(c), f"seed {seed}, output {number}")
        assert a.tobytes() == b.tobytes(), f"seed {seed}, output {number}: threads change bits"


@pytest.mark.usefixtures("cut_finely")
@pytest.mark.parametrize("seed", QUICK[:10])
def test_launches_that_are_cut_finely_give_the_same_results(seed: int) -> None:
    check_cuts(seed)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", REST)
def test_what_is_stored_changes_no_result_in_many_more_graphs(seed: int, settings: str) -> None:
    check(seed, replace(wb.Context.interpreter(), settings=SETTINGS[settings]))


@pytest.mark.slow
@pytest.mark.usefixtures("cut_finely")
@pytest.mark.parametrize("seed", [*QUICK[10:], *REST[:200]])
def test_launches_that_are_cut_finely_give_the_same_results_in_many_more(seed: int) -> None:
    check_cuts(seed)
