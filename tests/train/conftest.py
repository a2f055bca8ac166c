"""What the tests of the training values share: graphs evaluated in numpy, and the linear toy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.graph.leaf import scalar_value
from workbench.graph.tensor import Tensor, topological_order
from workbench.train import tree

ORACLES = Path(__file__).resolve().parents[1] / "oracles"

# Only what losses and optimizers of these tests are made of; anything else is a KeyError.
FORMULAS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "div": np.divide,
    "mul": np.multiply,
    "neg": np.negative,
    "pow": np.power,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
}


def _value(node: Tensor, operands: list[Any], rows: int) -> Any:
    attributes = dict(node.attributes)
    if node.op in ("parameter", "array"):
        return node.value
    if node.op == "constant":
        return np.array(scalar_value(node), node.dtype.numpy)
    if node.op == "extent":
        return np.array(rows, node.dtype.numpy)
    if node.op == "cast":
        return operands[0].astype(node.dtype.numpy)
    if node.op == "sum":
        return operands[0].sum(attributes["axes"])
    if node.op in ("broadcast", "reshape"):
        shape = tuple(e if isinstance(e, int) else e.factor * rows for e in node.shape)
        change = np.broadcast_to if node.op == "broadcast" else np.reshape
        return change(operands[0], shape)
    if node.op == "einsum":
        spec = "{left},{right}->{result}".format(**attributes)
        return np.einsum(spec, *operands)
    return FORMULAS[node.op](*operands)


def evaluate_graph(outputs: object, feed: dict[Tensor, Any], rows: int = 1) -> Any:
    """Return ``outputs`` with each tensor replaced by its value, computed by numpy alone."""
    leaves, structure = tree.flatten(outputs)
    values: dict[int, Any] = {leaf.uid: np.asarray(value) for leaf, value in feed.items()}
    for node in topological_order(leaf for leaf in leaves if isinstance(leaf, Tensor)):
        if node.uid not in values:
            operands = [values[operand.uid] for operand in node.operands]
            values[node.uid] = np.asarray(_value(node, operands, rows))
    return tree.unflatten(
        structure,
        [values[leaf.uid] if isinstance(leaf, Tensor) else leaf for leaf in leaves],
    )


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., Any]:
    return evaluate_graph


@pytest.fixture(scope="session")
def toy() -> dict[str, Any]:
    """The linear toy with its trajectories."""
    return json.loads((ORACLES / "linear_toy.json").read_text(encoding="utf-8"))
