"""The workbench: many steps in one native call, rows gathered by an order as in ``fit``."""

import numpy as np

import workbench as wb
from tests.benchmarks.contender import RunSteps
from tests.benchmarks.workloads import BETA1, BETA2, EPSILON, LEARNING_RATE, Floats, Problem
from workbench.train.program import compile_step
from workbench.train.trace import as_leaves


def _logits(params: list[dict[str, wb.Tensor]], x: wb.Tensor) -> wb.Tensor:
    for layer in params[:-1]:
        x = wb.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def _loss(params: list[dict[str, wb.Tensor]], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
    return wb.cross_entropy(_logits(params, x), y)


def _step(
    params: list[dict[str, wb.Tensor]],
    opt: wb.OptState,
    x: wb.Tensor,
    y: wb.Tensor,
    lr: wb.Tensor,
) -> wb.StepResult:
    return wb.default_step(params, opt, x, y, lr, _loss)


def build(problem: Problem, threads: int) -> RunSteps:
    """Return what trains ``problem`` for so many steps.

    All that knows how the workbench is used is in here. The folder of compiled kernels is the one
    that the environment variable ``WORKBENCH_CACHE`` names.
    """
    params = [{"w": w, "b": b} for w, b in zip(problem.weights, problem.biases, strict=True)]
    opt = wb.adam(params, b1=BETA1, b2=BETA2, eps=EPSILON)
    batch = problem.workload.batch
    train = wb.data.Dataset(
        problem.rows.reshape(-1, problem.rows.shape[-1]), problem.labels.reshape(-1)
    )
    program = compile_step(
        wb.Context.cpu(threads),
        as_leaves(params),
        as_leaves(opt, "opt."),
        _step,
        train,
        batch,
        drop_last=False,
    )
    program.order[...] = np.arange(train.n)
    program.rates[...] = LEARNING_RATE
    position = 0

    def run_steps(count: int) -> Floats:
        nonlocal position
        losses: list[Floats] = []
        while count:
            if position == program.sweep.batches:
                position = 0
            stop = program.sweep.run(position, most=count)
            losses.append(program.losses[position:stop].copy())
            count -= stop - position
            position = stop
        return np.concatenate(losses)

    return run_steps
