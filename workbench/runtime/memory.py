"""Memory of a routine: arenas for what stays, one shared arena for what lives within a run.

In: a program and the batch size. Out: flat arrays by node. Invariant: nodes that one kernel text
walks in the same way lie side by side, in the same order in each arena, so that a launch over all
of them is one launch over one range; local nodes share bytes only if no kernel needs both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from workbench.backends.device import LINE, Device, aligned
from workbench.graph.extent import count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.flatness import walking_buffers
from workbench.loops.kernel import Kernel, Program
from workbench.loops.placement import WIDE
from workbench.loops.show import canonical_text

Array = npt.NDArray[Any]

PAD = 64
"""Elements to whose multiple each node is padded, so that all arenas have one pitch."""


def padded(node: Tensor, rows: int | None) -> int:
    """Return the elements set aside for ``node``."""
    return -(-max(1, resolve(count(node.shape), rows)) // PAD) * PAD


def families(kernels: Sequence[Kernel]) -> list[list[Tensor]]:
    """Return lists of nodes that want to lie side by side: operands of equal kernels."""
    by_text: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        if walking_buffers(kernel) is not None:
            by_text.setdefault(canonical_text(kernel), []).append(kernel)
    found: list[list[Tensor]] = []
    taken: set[Tensor] = set()
    for equal in by_text.values():
        walking = walking_buffers(equal[0])
        if len(equal) < 2 or walking is None:
            continue
        for position in sorted(walking):
            nodes = [b for b in (k.buffers[position] for k in equal) if isinstance(b, Tensor)]
            if any(node.op == WIDE for node in nodes):
                continue  # side by side, each would live as long as the last of them
            if len(set(nodes)) == len(equal) and not taken & set(nodes):
                found.append(nodes)
                taken.update(nodes)
    return found


def arena_bytes(nodes: Iterable[Tensor], rows: int | None) -> int:
    """Return the bytes that `arena` requests; none for no nodes."""
    sizes = [padded(node, rows) * node.dtype.itemsize for node in nodes]
    return sum(sizes) + LINE if sizes else 0


def arena(nodes: Iterable[Tensor], rows: int | None, device: Device) -> dict[Tensor, Array]:
    """Return memory on ``device`` for ``nodes``, one after another in one allocation, zeroed."""
    wanted = list(nodes)
    if not wanted:
        return {}
    raw = aligned(device.allocate(arena_bytes(wanted, rows)))
    offset = 0
    memory: dict[Tensor, Array] = {}
    for node in wanted:
        size = padded(node, rows) * node.dtype.itemsize
        memory[node] = raw[offset : offset + size].view(node.dtype.numpy)
        offset += size
    return memory


def device_order(nodes: Iterable[Tensor], groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return ``nodes`` with those of one family side by side."""
    wanted = dict.fromkeys(nodes)
    ordered = [node for group in groups for node in group if node in wanted]
    return list(dict.fromkeys([*ordered, *wanted]))


def local_memory(
    program: Program, rows: int | None, groups: Sequence[Sequence[Tensor]], device: Device
) -> tuple[dict[Tensor, Array], int]:
    """Return memory on ``device`` for the program's local nodes, and its size in bytes.

    Nodes whose lifetimes (first to last kernel that touches them) do not meet share bytes. The
    largest blocks are placed first, each at the lowest offset that is free during its life (first
    fit decreasing).
    """
    blocks, offsets, total = local_layout(program, rows, groups)
    if not total:
        return {}, 0
    raw = aligned(device.allocate(total + LINE))
    memory: dict[Tensor, Array] = {}
    for block, at in zip(blocks, offsets, strict=True):
        for node in block:
            size = padded(node, rows) * node.dtype.itemsize
            memory[node] = raw[at : at + size].view(node.dtype.numpy)
            at += size
    return memory, total


def local_layout(
    program: Program, rows: int | None, groups: Sequence[Sequence[Tensor]]
) -> tuple[list[list[Tensor]], list[int], int]:
    """Return the blocks of local memory, their offsets and the bytes of all; nothing is allocated.

    Parameters are those of `local_memory`.
    """
    local = set(program.local)
    blocks = [[n for n in group if n in local] for group in groups]
    grouped = {n for block in blocks for n in block}
    blocks = [b for b in blocks if b] + [[n] for n in program.local if n not in grouped]
    life = lifetimes(program)
    spans = [(min(life[n][0] for n in b), max(life[n][1] for n in b)) for b in blocks]
    sizes = [sum(padded(n, rows) * n.dtype.itemsize for n in b) for b in blocks]
    offsets = place(sizes, spans)
    total = max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)
    return blocks, offsets, total


def lifetimes(program: Program) -> Mapping[Tensor, tuple[int, int]]:
    """Return the first and the last kernel that touches each node."""
    found: dict[Tensor, tuple[int, int]] = {}
    for number, kernel in enumerate(program.kernels):
        for buffer in kernel.buffers:
            if isinstance(buffer, Tensor):
                first, _ = found.get(buffer, (number, number))
                found[buffer] = (first, number)
    return found


def place(sizes: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return an offset for each block such that blocks alive together do not overlap."""
    offsets = [0] * len(sizes)
    placed: list[int] = []
    for block in sorted(range(len(sizes)), key=lambda b: (-sizes[b], b)):
        first, last = spans[block]
        busy = sorted(
            (offsets[p], offsets[p] + sizes[p])
            for p in placed
            if spans[p][0] <= last and first <= spans[p][1]
        )
        offset = 0
        for start, stop in busy:
            if offset + sizes[block] <= start:
                break
            offset = max(offset, stop)
        offsets[block] = offset
        placed.append(block)
    return offsets
