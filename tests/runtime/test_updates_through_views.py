"""Updates whose new values read other state, or their own, in another shape."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import workbench as wb

M = np.arange(4.0).reshape(2, 2) + 1.0
A = np.arange(4.0) * 0.5

Updates = Callable[[wb.Tensor, wb.Tensor], Mapping[wb.Tensor, wb.Tensor]]


def both_ways(first: wb.Tensor, second: wb.Tensor) -> Mapping[wb.Tensor, wb.Tensor]:
    return {first: second.reshape(2, 2) + first.T, second: second + first.reshape(4)}


def both_ways_reversed(first: wb.Tensor, second: wb.Tensor) -> Mapping[wb.Tensor, wb.Tensor]:
    return dict(list(both_ways(first, second).items())[::-1])


def flipped(x: np.ndarray) -> np.ndarray:
    return (x.reshape(4)[::-1] * 2.0).reshape(2, 2)


CASES: dict[str, tuple[Updates, np.ndarray, np.ndarray]] = {
    "one reads the other after it changed": (
        lambda m, a: {m: m * 10.0, a: a - wb.sin(m.reshape(4))},
        M * 10.0,
        A - np.sin(M.reshape(4)),
    ),
    "each reads the other": (both_ways, A.reshape(2, 2) + M.T, A + M.reshape(4)),
    "each reads the other, listed in reverse": (
        both_ways_reversed,
        A.reshape(2, 2) + M.T,
        A + M.reshape(4),
    ),
    "one reads itself transposed": (lambda m, a: {m: m.T * 1.0, a: a}, M.T, A),
    "one reads itself reversed through a view": (
        lambda m, a: {m: (wb.flip(m.reshape(4)) * 2.0).reshape(2, 2), a: a},
        flipped(M),
        A,
    ),
    "the two swap": (
        lambda m, a: {m: a.reshape(2, 2), a: m.reshape(4)},
        A.reshape(2, 2),
        M.reshape(4),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "context", [wb.Context.interpreter(), wb.Context.cpu(1)], ids=["interpreter", "cpu"]
)
def test_new_values_are_computed_from_old_ones(case: str, context: wb.Context) -> None:
    updates, expected_m, expected_a = CASES[case]
    m, a = wb.parameter(M, "m"), wb.parameter(A, "a")
    ctx, routine = context.compile([], updates=updates(m, a), name="update")
    ctx = ctx.run(routine)
    np.testing.assert_array_equal(ctx.get_values(m), expected_m)
    np.testing.assert_allclose(ctx.get_values(a), expected_a, rtol=1e-15)
