"""Time updates against what they cannot be quicker than, and against torch.

Run as ``python tests/benchmarks/updates.py [--tensors N] [--millions N] [--rounds N]``:

* a clipped step of AdamW over many tensors, against copying as many bytes as it has to read and
  write, and against torch's own clipping and AdamW, in turn;
* a micro-step of accumulation on the tiny perceptron, in the native loop, against its kernels
  called one by one, and against the same step without a sum of losses.

Each figure is a median over the rounds.
"""

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter
from typing import Any, Final

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.backends.numba_cpu.backend import NativeRoutine
from workbench_kernels import LaunchPlan, Runner

THREADS: Final = 2
NATIVE_STEPS: Final = 20_000
RATE: Final = 1e-3
Tasks = dict[str, Callable[[], object]]


def in_turn(rounds: int, tasks: Tasks) -> dict[str, list[float]]:
    """Return how long each task took in each round, in seconds, after one that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            began = perf_counter()
            task()
            if number:
                taken[name].append(perf_counter() - began)
    return taken


def ours(arrays: list[np.ndarray], grads: list[np.ndarray]) -> Callable[[], object]:
    """Return a clipped step of AdamW as one routine."""
    params = [wb.parameter(array, f"p{n}") for n, array in enumerate(arrays)]
    loss = params[0].sum()
    clip = wb.clip_by_global_norm(loss, max_norm=1.0, params=params)
    step = wb.adamw_update(loss, learning_rate=RATE, grad_scale=clip.grad_scale, params=params)
    ctx, routine = wb.Context.cpu(THREADS).compile(clip.computation + step, name="clip and AdamW")
    ctx = ctx.set_values(dict(zip(map(wb.gradient_of, params), grads, strict=True)))
    bound, control = routine.bind(None, ctx.run(routine).arrays()), np.zeros(8, np.int64)
    launches = len(routine.launches(None, ctx.arrays()))
    print(f"  {len(routine.program.kernels)} kernels of ours in {launches} launches")
    return lambda: bound.run(1, control)


def of_torch(arrays: list[np.ndarray], grads: list[np.ndarray]) -> Tasks:
    """Return torch's clipping and AdamW, over lists of tensors and fused."""
    try:
        torch: Any = import_module("torch")  # only the extra "bench" brings it
    except ImportError:
        print("  torch is not installed")
        return {}
    torch.set_num_threads(THREADS)

    def step(**how: bool) -> Callable[[], None]:
        params = [torch.nn.Parameter(torch.from_numpy(a.copy())) for a in arrays]
        for param, grad in zip(params, grads, strict=True):
            param.grad = torch.from_numpy(grad.copy())
        optimizer = torch.optim.AdamW(params, lr=RATE, **how)

        def run() -> None:
            torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
            optimizer.step()

        return run

    return {"torch, foreach": step(foreach=True), "torch, fused": step(fused=True)}


def copying(size_bytes: int, threads_used: int) -> Callable[[], object]:
    """Return a copy that reads and writes so many bytes in all."""
    count = size_bytes // 2 // 4 // threads_used
    pairs = [(np.ones(count, np.float32), np.ones(count, np.float32)) for _ in range(threads_used)]
    if threads_used == 1:
        return lambda: np.copyto(pairs[0][1], pairs[0][0])

    def run() -> None:
        threads = [Thread(target=np.copyto, args=(to, source)) for source, to in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def measure_adamw(tensors: int, millions: float, rounds: int) -> None:
    """Compare a clipped step of AdamW with a copy and with torch."""
    rng = np.random.default_rng(0)
    each = int(millions * 1e6) // tensors
    rows = rng.integers(1, 200, tensors)
    shapes = [(int(r), each // int(r)) for r in rows]
    arrays, grads = (
        [rng.standard_normal(shape, dtype=np.float32) for shape in shapes] for _ in range(2)
    )
    elements = sum(array.size for array in arrays)
    print(f"clip and AdamW: {elements:,} float32 parameters in {tensors} tensors")
    # Parameters and two moments are read and written, gradients are read.
    size = 7 * 4 * elements
    tasks = {
        "copy, 1 thread": copying(size, 1),
        "copy, 2 threads": copying(size, 2),
        "ours": ours(arrays, grads),
        **of_torch(arrays, grads),
    }
    taken = in_turn(rounds, tasks)
    print(f"  copies read and write {size / 1e6:.0f} MB in all; the faster one is the measure")
    base = min(list(taken.values())[:2], key=median)
    us = taken["ours"]
    for name, times in taken.items():
        to_copy = median(t / b for t, b in zip(times, base, strict=True))
        to_ours = median(t / b for t, b in zip(times, us, strict=True))
        print(
            f"  {name:<16} {median(times) * 1e3:8.1f} ms   {to_copy:6.2f} copies   "
            f"{to_ours:6.2f} of ours   fastest round {min(times) * 1e3:6.1f} ms"
        )


def perceptron() -> wb.Tensor:
    """Return the loss of a perceptron 4-16-3 over 16 rows."""
    rng = np.random.default_rng(0)
    x = wb.parameter(rng.standard_normal((16, 4), dtype=np.float32), "x")
    y = wb.constant(rng.integers(0, 3, 16))
    sizes = (4, 16, 3)
    hidden: wb.Tensor = wb.stop_gradient(x)
    for n, (a, b) in enumerate(pairwise(sizes)):
        w = wb.parameter(rng.standard_normal((a, b), dtype=np.float32), f"w{n}")
        hidden = hidden @ w + wb.parameter(np.zeros(b, np.float32), f"b{n}")
        hidden = hidden if n else wb.relu(hidden)
    return wb.cross_entropy(hidden, y)


def bound_micro_step(loss: wb.Tensor, **options: Any) -> NativeRoutine:
    """Return a micro-step ready for the native loop."""
    micro = wb.grad_update(loss, accum_steps=4, **options)
    ctx, routine = wb.Context.cpu(1).compile(micro)
    bound = routine.bind(None, ctx.arrays())
    assert isinstance(bound, NativeRoutine)
    return bound


def kernels_alone(bound: NativeRoutine, runner: Runner) -> Callable[[], object]:
    """Return the kernels of a plan, each in a native loop of its own."""
    plan = bound.plan
    none = np.zeros((0, 3), np.int64)
    single = [
        LaunchPlan(plan.rows[first : first + count], np.array([[0, count]]), none)
        for first, count in plan.stages
    ]
    control = np.zeros(8, np.int64)

    def run() -> None:
        for each in single:
            runner.run(each, NATIVE_STEPS, control)

    return run


def measure_micro_step(rounds: int) -> None:
    """Compare a micro-step that adds up its loss with its kernels, and with one that does not."""
    loss = perceptron()
    print(f"micro-step of 4-16-3, 16 rows, one thread, {NATIVE_STEPS:,} in one native call")
    control = np.zeros(8, np.int64)
    summed = bound_micro_step(loss, accum_loss=wb.loss_accumulator())
    plain = bound_micro_step(loss)
    taken = in_turn(
        rounds,
        {
            "with a sum of losses": lambda: summed.run(NATIVE_STEPS, control),
            "its kernels one by one": kernels_alone(summed, summed.backend.runner),
            "without the sum": lambda: plain.run(NATIVE_STEPS, control),
        },
    )
    for name, times in taken.items():
        print(f"  {name:<24} {median(times) / NATIVE_STEPS * 1e6:8.3f} us a step")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--millions", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    measure_adamw(asked.tensors, asked.millions, asked.rounds)
    measure_micro_step(asked.rounds)


if __name__ == "__main__":
    main()
