"""Programs whose loops and kernels are kept as golden texts."""

import numpy as np

import workbench as wb
from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation


def training_step() -> Computation:
    """Return a step of Adam for a perceptron of two layers, as digits are learned with."""
    params = {
        "w1": wb.parameter(np.zeros((64, 32), np.float32), "w1"),
        "b1": wb.parameter(np.zeros(32, np.float32), "b1"),
        "w2": wb.parameter(np.zeros((32, 10), np.float32), "w2"),
        "b2": wb.parameter(np.zeros(10, np.float32), "b2"),
    }
    fresh = wb.adam(params)
    m = {name: wb.parameter(value, f"m_{name}") for name, value in fresh.m.items()}
    v = {name: wb.parameter(value, f"v_{name}") for name, value in fresh.v.items()}
    t = wb.parameter(fresh.t, "t")
    opt = wb.OptState("adam", m, v, t, fresh.b1, fresh.b2, fresh.eps)
    x, y = wb.input("x", (wb.batch, 64)), wb.input("y", (wb.batch,), "int32")

    def loss(p: dict[str, wb.Tensor], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
        hidden = wb.relu(x @ p["w1"] + p["b1"])
        return wb.cross_entropy(hidden @ p["w2"] + p["b2"], y)

    result = wb.default_step(params, opt, x, y, wb.input("lr", ()), loss)
    updates = {t: result.opt.t}
    for old, new in ((params, result.params), (m, result.opt.m), (v, result.opt.v)):
        updates |= {old[name]: new[name] for name in old}
    return computation([result.loss], updates, name="step")


def softmax_rows() -> Computation:
    """Return a softmax along the rows of a batch."""
    return computation([wb.softmax(wb.input("x", (wb.batch, 100))).named("softmax")])


def column_sums() -> Computation:
    """Return sums down the columns, which are added row by row."""
    return computation([wb.input("x", (wb.batch, 100)).sum(0).named("sums")])


def embedding() -> Computation:
    """Return rows of a table chosen by number, their mean, and the table after a step."""
    table = wb.parameter(np.zeros((50, 8), np.float32), "table")
    tokens = wb.input("tokens", (wb.batch, 4), "int32")
    rows = wb.take(table, tokens)
    loss = wb.square(rows).mean().named("loss")
    gradient = wb.backward(loss, [table])[table]
    return computation([loss], {table: table - 0.5 * gradient})


PROGRAMS = {
    "training_step": training_step,
    "softmax_rows": softmax_rows,
    "column_sums": column_sums,
    "embedding": embedding,
}
