"""What was asked of a run and what a checkpoint puts in its place: told, and left to choose.

In: a run as it was made, and the document of a file.  Out: the settings that the file replaces, a
sentence about them, and those that are to stay.  Invariant: nothing that was asked for is replaced
without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

from workbench.errors import ConfigurationError
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.container import Document
from workbench.train.rates import sets_rate
from workbench.train.reports import Report
from workbench.train.run import Run
from workbench.train.structure import Structure

__all__ = ["Asked"]

_RATE: Final = "lr"
_PATIENCE: Final = "patience"
# They tell of what kind a state is, and a file of another kind is refused.
_KIND_FIELDS: Final = ("kind", "dtype", "gradient", "steps")


@final
class Asked:
    """The settings that a run was made with, where a checkpoint has its own.

    Parameters
    ----------
    run
        The run, before anything of the file is in it.
    callbacks
        Those that it goes on with.
    keep
        Names of the settings that stay as they were asked for.

    Raises
    ------
    ConfigurationError
        If a name is that of no setting that a file replaces.
    """

    def __init__(self, run: Run, callbacks: Sequence[object], keep: Collection[str]) -> None:
        self.keep = (keep,) if isinstance(keep, str) else tuple(keep)
        self._stopping = [each for each in callbacks if isinstance(each, EarlyStopping)]
        # A schedule sets the rate whatever the file says; a plateau begins at that of the file.
        self._is_scheduled = any(
            sets_rate(each) and not isinstance(each, PlateauSchedule) for each in callbacks
        )
        self._rate = run.config.lr
        self._statics = run.opt_leaves.structure
        self._is_another_step = False
        self._patience = [each.asked_patience for each in self._stopping]
        names = [_RATE, *self._hyper_parameters(), *[_PATIENCE] * bool(self._stopping)]
        for name in self.keep:
            if name not in names:
                raise ConfigurationError(
                    f"`keep` names {name!r}, which is no setting that a checkpoint replaces",
                    remedy=f"use {', '.join(names)}",
                )

    def _hyper_parameters(self) -> list[str]:
        found = [name for node in self._statics.nodes for name, _ in node.static]
        return [name for name in dict.fromkeys(found) if name not in _KIND_FIELDS]

    def kept_in(self, structure: Structure) -> Structure:
        """Return an optimizer state's structure from the file with the settings that stay."""
        pairs = zip(self._statics.nodes, structure.nodes, strict=True)
        kept = Structure(tuple(replace(new, static=self._fields(own, new)) for own, new in pairs))
        self._is_another_step = kept != structure
        return kept

    def _fields(self, own: Any, new: Any) -> tuple[Any, ...]:
        asked = dict(own.static)
        return tuple(
            (name, asked[name] if name in self.keep else value) for name, value in new.static
        )

    def put_back(self, run: Run) -> None:
        """Give a run that was restored the rate and the patience that stay."""
        if self._is_another_step:
            # Its numbers are others, which was asked for: it is not the step that was saved.
            run.edits.expect("")
        if _RATE in self.keep:
            run.rate_held = None
            run.state.lr = self._rate
        if _PATIENCE in self.keep:
            for stopping in self._stopping:
                stopping.forget_patience()

    def report(self, run: Run, document: Document) -> Report | None:
        """Return what is said of the settings that were replaced in ``run``, if any were."""
        replaced: dict[str, tuple[Any, Any]] = {}
        rate_changed = document["config"][_RATE] != self._rate and run.state.lr != self._rate
        if rate_changed and not self._is_scheduled and _RATE not in self.keep:
            replaced[_RATE] = run.state.lr, self._rate
        for own, new in zip(self._statics.nodes, run.opt_leaves.structure.nodes, strict=True):
            used: Mapping[str, Any] = dict(new.static)
            for name, asked in own.static:
                if used[name] != asked:
                    replaced[name] = used[name], asked
        for asked, stopping in zip(self._patience, self._stopping, strict=True):
            if stopping.patience != asked:
                replaced[_PATIENCE] = stopping.patience, asked
        if not replaced:
            return None
        told = ", ".join(
            f"{name} {used} (asked for: {asked})" for name, (used, asked) in replaced.items()
        )
        names = ", ".join(f'"{name}"' for name in replaced) + "," * (len(replaced) == 1)
        return Report(
            f"the checkpoint's settings hold: {told}; "
            f"`wb.restore(..., keep=({names}))` keeps what was asked for",
            severity="warning",
        )
