"""What is declared of a node once and for all: that it is stored, never stored, or stays readable.

In: nodes. Out: their declared intent. Invariant: intent belongs to the node and lives as long as
it; a context may decide otherwise for its own lineage, which never changes what is declared. Equal
expressions are one node, so what is declared of one is declared of the other.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, replace
from typing import Final

from workbench.errors import PlacementError
from workbench.graph.elementwise import describe
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Mode, Placement


@dataclass(frozen=True, slots=True)
class Intent:
    """What is declared of a node.

    Attributes
    ----------
    placement
        Where it shall live and who said so; None if nothing is declared.
    observable
        Whether its value must stay readable: it is never local.
    """

    placement: Placement | None = None
    observable: bool = False


NOTHING: Final = Intent()

# A number is written in the program, an array is memory, state is memory that a step overwrites.
_BY_OPERATION: Final = {
    "constant": Intent(Placement(Mode.EFFECTIVELY_CONSTANT, "40", "it is a number of the program")),
    "array": Intent(Placement(Mode.ON_DEVICE, "49", "it holds an array of the program")),
    "parameter": Intent(Placement(Mode.ON_DEVICE, "36", "it is state")),
    "state": Intent(Placement(Mode.ON_DEVICE, "36", "it is state")),
    "merge": Intent(Placement(Mode.ON_DEVICE, "37", "it is filled by a copy")),
    "input": Intent(Placement(Mode.ON_DEVICE, "36", "it is fed from outside")),
}

# By identity number: a weak dictionary would compare tensors, and a comparison builds a graph.
_declared: dict[int, Intent] = {}
_declaring: Final = threading.Lock()


def intent_of(node: Tensor) -> Intent:
    """Return what is declared of ``node``, by a person or by the kind of leaf that it is."""
    return _declared.get(node.uid) or _BY_OPERATION.get(node.op, NOTHING)


def set_materialized(*nodes: Tensor) -> None:
    """Declare that ``nodes`` are stored on the device wherever a routine computes them.

    Raises
    ------
    PlacementError
        If one of them is declared virtual.

    Examples
    --------
    >>> import workbench as wb
    >>> hidden = wb.exp(wb.input("x", (3,)))
    >>> wb.set_materialized(hidden)
    >>> ctx, routine = wb.Context.interpreter().compile([hidden.sum()])
    >>> print(routine.placements[hidden])
    on device (28: it was declared materialized)
    """
    _declare(nodes, Placement(Mode.ON_DEVICE, "28", "it was declared materialized"))


def set_virtual(*nodes: Tensor) -> None:
    """Declare that ``nodes`` are never stored: each reader computes them anew.

    Raises
    ------
    PlacementError
        If one of them is declared to be stored, or is a parameter, an input or an array. A routine
        in which one of them cannot be computed by its readers is refused when it is compiled.
    """
    _declare(nodes, Placement(Mode.VIRTUAL, "29", "it was declared virtual"))


def set_observable(*nodes: Tensor) -> None:
    """Declare that the values of ``nodes`` must stay readable after a run.

    That forbids memory that only lives while a routine runs. It does not store a node that readers
    compute anew: reading it computes it, too.
    """
    listed = nodes_from("nodes", nodes)
    with _declaring:
        for node in listed:
            _keep(node, replace(intent_of(node), observable=True))


def _declare(nodes: tuple[Tensor, ...], wanted: Placement) -> None:
    nodes = nodes_from("nodes", nodes)
    with _declaring:
        # All are checked before one is changed.
        changed = [(node, intent_of(node)) for node in nodes]
        joined = [
            (node, replace(intent, placement=combined(node, intent.placement, wanted)))
            for node, intent in changed
        ]
        for node, intent in joined:
            _keep(node, intent)


def _keep(node: Tensor, intent: Intent) -> None:
    if node.uid not in _declared:
        weakref.finalize(node, _declared.pop, node.uid, None).atexit = False
    _declared[node.uid] = intent


def combined(node: Tensor, declared: Placement | None, wanted: Placement) -> Placement:
    """Return what two declarations about ``node`` come to.

    The later one refines the earlier: "never virtual" gives way to a place, and a constant to
    anything.

    Raises
    ------
    PlacementError
        If they contradict each other, naming both.
    """
    if declared is None or declared.mode is wanted.mode:
        return declared or wanted
    old, new = declared.mode, wanted.mode
    places = (Mode.LOCAL, Mode.ON_DEVICE)
    if old is Mode.VIRTUAL and new is Mode.EFFECTIVELY_CONSTANT:
        return declared
    if old is Mode.EFFECTIVELY_CONSTANT and new is Mode.NEVER_VIRTUAL:
        return replace(wanted, mode=Mode.ON_DEVICE)
    if old is Mode.EFFECTIVELY_CONSTANT and new in (Mode.VIRTUAL, Mode.ON_DEVICE):
        return wanted
    if old is Mode.NEVER_VIRTUAL and new in places:
        return wanted
    if new is Mode.NEVER_VIRTUAL and old in places:
        return declared
    if old is Mode.NEVER_VIRTUAL and new is Mode.VIRTUAL:
        problem = f"{describe(node)} cannot be virtual: it is {declared}"
    elif old is Mode.VIRTUAL and new is Mode.NEVER_VIRTUAL:
        problem = f"{describe(node)} is already virtual: it is {declared}"
    else:
        problem = f"{describe(node)} cannot be {wanted}: it is {declared}"
    raise PlacementError(
        problem,
        remedy="keep one of the two; for one routine only, decide in a context of its own: "
        "`ctx.decide_materialized([t])` or `ctx.decide_inline([t])`",
    )
