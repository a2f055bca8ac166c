"""The training step in JAX, on pytrees, for both ways of calling it."""

from typing import Any, NamedTuple, TypeAlias

import jax  # pyright: ignore[reportMissingImports]  # only the extra "bench" brings it
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]  # the same
import numpy as np

from tests.benchmarks.workloads import BETA1, BETA2, EPSILON, LEARNING_RATE, Problem

Layers: TypeAlias = tuple[tuple[jax.Array, jax.Array], ...]


class State(NamedTuple):
    """What a step reads and replaces."""

    params: Layers
    first: Layers
    second: Layers
    steps: jax.Array


def initial_state(problem: Problem) -> State:
    """Return the state before the first step, in memory of its own: steps donate it."""
    # Host arrays: `device_put` makes the JAX arrays that the annotations of State speak of.
    params: Any = tuple(zip(problem.weights, problem.biases, strict=True))
    steps: Any = np.zeros((), np.int32)
    # Zeros come from numpy: `jnp.zeros` would compile a program for every shape.
    first, second = (jax.tree.map(np.zeros_like, params) for _ in range(2))
    state = State(params, first, second, steps)
    return jax.device_put(state, may_alias=False)


def mean_cross_entropy(params: Layers, rows: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the loss of a batch."""
    for weight, bias in params[:-1]:
        rows = jax.nn.relu(rows @ weight + bias)
    weight, bias = params[-1]
    logits = rows @ weight + bias
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)


def step(state: State, rows: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
    """Take one step of Adam; return the new state and the loss before it."""
    loss, grads = jax.value_and_grad(mean_cross_entropy)(state.params, rows, labels)
    steps = state.steps + 1
    first_scale = 1 / (1 - BETA1 ** steps.astype(jnp.float32))
    second_scale = 1 / (1 - BETA2 ** steps.astype(jnp.float32))
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state.first, grads)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state.second, grads)
    params = jax.tree.map(
        lambda p, m, v: (
            p - LEARNING_RATE * (m * first_scale) / (jnp.sqrt(v * second_scale) + EPSILON)
        ),
        state.params,
        first,
        second,
    )
    return State(params, first, second, steps), loss
