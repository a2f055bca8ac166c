"""What a run learns, where it lies: leaves, and the context that holds their memory.

In: trees of arrays. Out: trees of arrays, read and written between two batches. Invariant: a leaf
keeps its place in memory for as long as the run lives, since compiled steps hold its address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.gate import Gate
from workbench.train.step import State
from workbench.train.trace import Leaves, as_leaves
from workbench.train.tree import flatten, require_same, unflatten

__all__ = ["Resident"]

Array = npt.NDArray[Any]
T = TypeVar("T")


@final
class Resident:
    """Parameters and optimizer state of one run.

    Parameters
    ----------
    params, opt
        Trees of arrays: the first values.
    context
        Where they will lie.

    Attributes
    ----------
    params, opt
        The leaves in force.
    context
        Of what was compiled last; all leaves that the run has had have their memory in it.
    gate
        Keeps readers and writers apart from the batches.
    """

    def __init__(self, params: object, opt: State, context: Context) -> None:
        self.params = as_leaves(params)
        self.opt = as_leaves(opt, "opt.")
        self.context = self._base = context
        self.gate = Gate()
        self._compiling = threading.RLock()

    def compiled(self, leaves: Sequence[Tensor], make: Callable[[Context], tuple[Context, T]]) -> T:
        """Return what ``make`` compiles in a context that holds leaves alone.

        So a program does not depend on those compiled before it, and its memory is given back when
        nobody needs it any more. One thread compiles at a time.

        Parameters
        ----------
        leaves
            What it is compiled over; their memory is kept.
        make
            Returns the context that was made, or the one it was given if nothing was compiled.
        """
        with self._compiling:
            context, made = make(self._base)
            if context is not self._base:
                self.context = context
                self._keep(leaves)
        return made

    def _keep(self, leaves: Sequence[Tensor]) -> None:
        """Let what is compiled later find the memory that leaves have now."""
        base, held = self._base, self.context
        new = [n for n in leaves if n in held.buffers and n not in base.buffers]
        if new:
            self._base = base.derived(
                "keep",
                buffers={**base.buffers, **{n: held.buffers[n] for n in new}},
                initialized=base.initialized | frozenset(new),
                placements={
                    **base.placements,
                    **{n: held.placements[n] for n in new if n in held.placements},
                },
            )

    def read(self, leaves: Leaves) -> Any:
        """Return the values of ``leaves`` as a tree of arrays, copied.

        They are read-only: what is written into a copy would reach nothing.
        """
        with self.gate.visiting():
            values = [self.context.get_values(leaf) for leaf in leaves.tensors]
        for value in values:
            value.flags.writeable = False
        return unflatten(leaves.structure, values)

    def are_finite(self, leaves: Leaves) -> bool:
        """Return whether no floating number of ``leaves`` is NaN or infinite."""
        with self.gate.visiting():
            return all(
                bool(np.isfinite(self.context.get_values(leaf)).all())
                for leaf in leaves.tensors
                if leaf.dtype.is_float
            )

    def write(self, leaves: Leaves, tree: object, what: str) -> None:
        """Give ``leaves`` the values of a tree of the same structure, shapes and types."""
        values, found = flatten(tree)
        require_same(leaves.structure, found, what=what)
        written = dict(zip(leaves.tensors, values, strict=True))
        # Compiled steps hold the buffers' addresses, and those stay: shapes cannot change.
        with self.gate.visiting():
            if all(leaf in self.context.buffers for leaf in leaves.tensors):
                # In place: no need to wait for what another thread compiles.
                self.context.set_values(written)
                return
        with self._compiling, self.gate.visiting():
            self.context = self.context.set_values(written)
            self._keep(leaves.tensors)

    def load(self, params: object, opt: object) -> None:
        """Take over trees of the shapes that are there, the optimizer's static fields included."""
        tensors: Sequence[Tensor] = (*self.params.tensors, *self.opt.tensors)
        if not any(tensor in self.context.buffers for tensor in tensors):
            # Nothing was compiled: as initial values they get their places in memory together.
            self.params, self.opt = as_leaves(params), as_leaves(opt, "opt.")
            return
        _, structure = flatten(opt)
        # Compiled steps hold the hyper-parameters as constants.
        self.opt = Leaves(structure, self.opt.tensors)
        self.write(self.params, params, "the parameters assigned")
        self.write(self.opt, opt, "the optimizer state assigned")
