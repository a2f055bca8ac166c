"""JAX at its best: many steps in one compiled loop, the state donated."""

from functools import partial

import jax  # pyright: ignore[reportMissingImports]  # only the extra "bench" brings it
from jax import lax  # pyright: ignore[reportMissingImports]  # the same

from tests.benchmarks.contender import RunSteps
from tests.benchmarks.contenders.jax_model import State, initial_state, step
from tests.benchmarks.workloads import Problem


@partial(jax.jit, donate_argnums=0, static_argnums=3)
def train(state: State, rows: jax.Array, labels: jax.Array, steps: int) -> tuple[State, jax.Array]:
    """Take ``steps`` steps, going round the batches; return the new state and all losses."""

    def body(state: State, _: None) -> tuple[State, jax.Array]:
        # Picked by number, which is as fast as scanning over stacked batches, and needs no copy of
        # the data that is as long as the run.
        at = state.steps % rows.shape[0]
        batch = (lax.dynamic_index_in_dim(data, at, keepdims=False) for data in (rows, labels))
        return step(state, *batch)

    return lax.scan(body, state, None, length=steps)


def build(problem: Problem, threads: int) -> RunSteps:
    """Return what trains ``problem`` for so many steps; each number of steps is compiled anew."""
    del threads  # JAX takes it from the environment variable NPROC
    state = initial_state(problem)
    rows, labels = jax.device_put((problem.rows, problem.labels))

    def run_steps(steps: int) -> jax.Array:
        nonlocal state
        state, losses = jax.block_until_ready(train(state, rows, labels, steps))
        return losses

    return run_steps
