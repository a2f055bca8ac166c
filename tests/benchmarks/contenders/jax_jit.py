"""JAX with a compiled step, called once a step from Python."""

import jax  # pyright: ignore[reportMissingImports]  # only the extra "bench" brings it

from tests.benchmarks.contender import RunSteps
from tests.benchmarks.contenders.jax_model import initial_state, step
from tests.benchmarks.workloads import Problem


def build(problem: Problem, threads: int) -> RunSteps:
    """Return what trains ``problem`` for so many steps."""
    del threads  # JAX takes it from the environment variable NPROC
    compiled = jax.jit(step, donate_argnums=0)
    state = initial_state(problem)
    # Aligned as they are, the batches are used where they lie. Picking one from a single large
    # array would be another call of JAX for each step.
    batches = jax.device_put(list(zip(problem.rows, problem.labels, strict=True)))
    done = 0

    def run_steps(steps: int) -> list[jax.Array]:
        nonlocal state, done
        losses: list[jax.Array] = []
        for at in range(done, done + steps):
            state, loss = compiled(state, *batches[at % len(batches)])
            losses.append(loss)
        done += steps
        jax.block_until_ready((state, losses))
        return losses

    return run_steps
