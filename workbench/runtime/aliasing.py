"""Bytes shared among stored nodes that nobody asked for, by liveness.

In: a program as lowered, with memory of its own for each stored node. Out: the same kernels, with
some nodes moved to the routine's local memory, where those whose lives do not meet share bytes.
Invariant: values stay the same; what is moved can no longer be read from outside.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import LEAVES
from workbench.graph.tensor import Tensor
from workbench.loops.intent import intent_of
from workbench.loops.kernel import Program
from workbench.loops.placement import Placement

_BY_REQUEST: Final = ("28", "66")
"""Codes of what a person declared or decided to store: it is stored to be read."""


def share_by_liveness(
    program: Program,
    placements: Mapping[Tensor, Placement],
    computation: Computation,
    *,
    kept: Container[Tensor],
) -> tuple[Program, dict[Tensor, Placement]]:
    """Return the program and the placements with the nodes that nobody asked for sharing bytes.

    Parameters
    ----------
    program
        As lowered.
    placements
        Of its nodes.
    computation
        What it computes: its inputs, outputs and updates keep memory of their own, and so do
        gradients that it adds to or zeroes.
    kept
        Nodes that have memory in the context already. What a person declared observable or asked
        to be stored is kept, too.
    """
    asked = {
        *computation.inputs,
        *computation.outputs,
        *computation.updates,
        *computation.accumulates,
        *computation.zeroes,
    }
    asked |= {root for view, root in program.views.items() if view in asked or view in kept}
    moved = [
        node
        for node in program.device
        if node not in asked
        and node not in kept
        and node.op not in LEAVES
        and not intent_of(node).observable
        and placements[node].code not in _BY_REQUEST
    ]
    if not moved:
        return program, dict(placements)
    gone = set(moved)
    return (
        replace(
            program,
            device=tuple(node for node in program.device if node not in gone),
            local=(*program.local, *moved),
        ),
        {
            node: replace(place, is_aliased=True) if node in gone else place
            for node, place in placements.items()
        },
    )
