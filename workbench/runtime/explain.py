"""Any stage of the pipeline as text, without running anything.

Invariant: explaining changes nothing: no context, placement or memory is touched, no kernel is
compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation as computation_from
from workbench.assign.show import node_names, show_computation
from workbench.backends.numba_cpu.render import render
from workbench.errors import ConfigurationError
from workbench.graph.extent import show_shape
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor, topological_order
from workbench.loops.kernel import Kernel
from workbench.loops.lower import lower
from workbench.loops.policy import decide_placements
from workbench.loops.settings import current_settings
from workbench.loops.show import show_program
from workbench.runtime.aliasing import share_by_liveness
from workbench.runtime.routine import Routine

Stage = Literal["graph", "assign", "placement", "loops", "kernels"]
STAGES: tuple[Stage, ...] = get_args(Stage)


def explain(
    wanted: Tensor | Iterable[Tensor] | Computation | Routine,
    *,
    stage: Stage = "loops",
    updates: Mapping[Tensor, Tensor] | None = None,
    rows: int = 32,
) -> str:
    """Return one stage of what ``wanted`` becomes, as text.

    Parameters
    ----------
    wanted
        Tensors to compute, a computation, or a compiled routine.
    stage
        ``"graph"``: a line for each tensor; ``"assign"``: assignments; ``"placement"``: where each
        tensor lives and who decided; ``"loops"``: kernels of the loop IR; ``"kernels"``: the text
        that is compiled.
    updates
        State that receives new values, if ``wanted`` are tensors.
    rows
        The batch size to reckon with.
    """
    if stage not in STAGES:
        raise ConfigurationError(
            f"there is no stage `{stage}`", remedy=f"use one of {', '.join(STAGES)}"
        )
    made = _computation(wanted, updates)
    if stage == "graph":
        stored = made.stores().values() if made.source is not None else ()
        return show_graph([*made.outputs, *stored])
    if stage == "assign":
        return show_computation(made)
    names = node_names(made)
    caps = current_settings()
    chosen = decide_placements(made, rows, settings=caps)
    program, placements = lower(made, chosen, rows, settings=caps)
    if caps.buffer_aliasing:
        program, placements = share_by_liveness(program, placements, made, kept=())
    if stage == "placement":
        width = max((len(names[n]) for n in placements), default=0)
        return "\n".join(f"{names[n]:<{width}}  {p}" for n, p in placements.items())
    if stage == "loops":
        return show_program(program, names)
    return "\n".join(f"{_heading(kernel)}\n{render(kernel)}" for kernel in program.kernels)


def _heading(kernel: Kernel) -> str:
    """Return what a kernel computes, and the constants that it is passed."""
    passed = ", ".join(f"c{i} = {c.value!r}" for i, c in enumerate(kernel.constants))
    return f"# {kernel.label}\n# {passed}" if passed else f"# {kernel.label}"


def _computation(
    wanted: Tensor | Iterable[Tensor] | Computation | Routine,
    updates: Mapping[Tensor, Tensor] | None,
) -> Computation:
    if isinstance(wanted, Routine):
        return wanted.computation
    if isinstance(wanted, Computation):
        return wanted
    return computation_from(nodes_from("wanted", wanted), updates)


def show_graph(roots: Iterable[Tensor]) -> str:
    """Return a line for each tensor, operands first: name, shape, type, operation."""
    names: dict[Tensor, str] = {}
    taken: dict[str, int] = {}
    lines: list[str] = []
    for node in topological_order(roots):
        base = node.label or node.op
        taken[base] = taken.get(base, 0) + 1
        names[node] = base if taken[base] == 1 else f"{base}{taken[base]}"
        operands = ", ".join(names[o] for o in node.operands)
        value = f" {node.attribute('value')}" if node.op == "constant" else ""
        lines.append(
            f"{names[node]}: {show_shape(node.shape)} {node.dtype} = {node.op}({operands}){value}"
        )
    return "\n".join(lines)
