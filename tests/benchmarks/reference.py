"""The same training in numpy and float64: what every contender must compute.

A speed says nothing if what ran was another computation, so each contender's first losses are held
against these. Only the loss of each step before its update is reported, hence ten steps judge nine
updates, among them those where a forgotten bias correction of Adam shows most.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.workloads import BETA1, BETA2, EPSILON, LEARNING_RATE, Labels, Problem

Doubles: TypeAlias = NDArray[np.float64]

CHECKED_STEPS: Final = 10

# Half of 1e-3, so that any two contenders that pass agree with each other to 1e-3.
TOLERANCE: Final = 5e-4


def reference_losses(problem: Problem, steps: int = CHECKED_STEPS) -> list[float]:
    """Train for ``steps`` steps and return the loss of each, taken before its update."""
    params = [array.astype(np.float64) for array in (*problem.weights, *problem.biases)]
    first = [np.zeros_like(param) for param in params]
    second = [np.zeros_like(param) for param in params]
    losses: list[float] = []
    for step in range(steps):
        at = step % len(problem.rows)
        loss, grads = loss_and_grads(
            params, problem.rows[at].astype(np.float64), problem.labels[at]
        )
        losses.append(loss)
        for param, m, v, grad in zip(params, first, second, grads, strict=True):
            m += (1 - BETA1) * (grad - m)
            v += (1 - BETA2) * (grad * grad - v)
            m_hat = m / (1 - BETA1 ** (step + 1))
            v_hat = v / (1 - BETA2 ** (step + 1))
            param -= LEARNING_RATE * m_hat / (np.sqrt(v_hat) + EPSILON)
    return losses


def loss_and_grads(
    params: list[Doubles], rows: Doubles, labels: Labels
) -> tuple[float, list[Doubles]]:
    """Return the mean cross-entropy, and its gradients in the order of ``params``.

    ``params`` holds the weights of all layers, then the biases of all layers.
    """
    depth = len(params) // 2
    weights, biases = params[:depth], params[depth:]
    inputs = [rows]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        inputs.append(np.maximum(inputs[-1] @ weight + bias, 0))
    logits = inputs[-1] @ weights[-1] + biases[-1]

    shifted = logits - logits.max(axis=1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    picked = np.arange(len(labels)), labels
    loss = -float(log_softmax[picked].mean())

    flowing = np.exp(log_softmax)
    flowing[picked] -= 1
    flowing /= len(labels)
    weight_grads: list[Doubles] = []
    bias_grads: list[Doubles] = []
    for layer in reversed(range(depth)):
        weight_grads.insert(0, inputs[layer].T @ flowing)
        bias_grads.insert(0, flowing.sum(axis=0))
        if layer:
            flowing = (flowing @ weights[layer].T) * (inputs[layer] > 0)
    return loss, weight_grads + bias_grads


def disagreement(losses: list[float], expected: list[float]) -> str | None:
    """Say where ``losses`` leave ``expected`` by more than the tolerance; None if nowhere."""
    if len(losses) != len(expected):
        return f"reported {len(losses)} losses instead of {len(expected)}"
    for step, (loss, wanted) in enumerate(zip(losses, expected, strict=True), start=1):
        if not abs(loss - wanted) <= TOLERANCE * abs(wanted):  # so written, NaN disagrees
            return f"computes another thing: step {step} has loss {loss:.6g}, not {wanted:.6g}"
    return None
