"""The small problems of the tables: steps on a fixed gradient, and a linear model of four rows."""

from functools import partial

import numpy as np

import workbench as wb

CONTEXTS = {"interpreter": wb.Context.interpreter, "two threads": partial(wb.Context.cpu, 2)}
DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-8, "float32": 2e-6}
"""The tables have eight digits; float32 has seven, after a few steps six."""

START = (1.0, -2.0, 0.25)
SLOPE = (0.5, -1.5, 2.0)


def sloped(dtype="float64", label="p"):
    """Return a parameter, and a loss whose gradient is `SLOPE` wherever it is."""
    p = wb.parameter(np.array(START, dtype), label)
    return p, (p * wb.constant(np.array(SLOPE, dtype))).sum().named("loss")


def table(rows, columns, left, right, period, unit, shift):
    b, d = np.mgrid[:rows, :columns]
    return ((left * b + right * d) % period) / unit + shift


X = table(4, 3, 13, 7, 11, 5.5, -1.0)
T = table(4, 2, 5, 3, 7, 3.5, -1.0)
W = table(2, 3, 17, 29, 13, 6.5, -1.0)
BIAS = (7 * np.arange(2) % 5) / 5 - 0.4


class Linear:
    """``sum((bias + x @ w.T - t)**2) / rows``, with ``w`` frozen if asked for."""

    def __init__(self, dtype="float64", *, frozen=False, rows=4):
        self.dtype = dtype
        self.w = wb.parameter(W.astype(dtype), "w")
        self.bias = wb.parameter(BIAS.astype(dtype), "bias")
        self.x = wb.input("x", (rows, 3), dtype)
        self.t = wb.input("t", (rows, 2), dtype)
        w = wb.stop_gradient(self.w) if frozen else self.w
        error = self.bias + self.x @ w.T - self.t
        self.loss = (wb.square(error).sum() / float(rows)).named("loss")
        self.rows = rows

    def feed(self, ctx, first=0):
        rows = slice(first, first + self.rows)
        return ctx.set_values(
            {self.x: X[rows].astype(self.dtype), self.t: T[rows].astype(self.dtype)}
        )

    def gradients(self, ctx):
        return tuple(ctx.get_values(wb.gradient_of(p)) for p in (self.w, self.bias))

    def values(self, ctx):
        return tuple(ctx.get_values(p) for p in (self.w, self.bias))


def run(ctx, computation, times=1, name="part"):
    """Compile and run a computation."""
    ctx, routine = ctx.compile(computation, name=name)
    for _ in range(times):
        ctx = ctx.run(routine)
    return ctx


def buffer(computation, label):
    """Return the state that a computation writes under a label."""
    (found,) = [leaf for leaf in computation.updates if leaf.label == label]
    return found
