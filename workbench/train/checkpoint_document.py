"""What the document of a checkpoint must be, value by value, before anything of it is used.

In: a document as it was read.  Out: nothing, or the first value that cannot be.  Invariant: what
passes can be shown by `inspect` and taken over by `restore` without a look at its types again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, cast

import numpy.typing as npt

from workbench.errors import DataError, WorkbenchError
from workbench.train.config import Config

__all__ = ["check_document", "check_losses", "check_statics"]

Array = npt.NDArray[Any]
Rule = tuple[Callable[[object], bool], str]

_MOST: Final = 1 << 63


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_finite(value: object) -> bool:
    return _is_number(value) and math.isfinite(cast("float", value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


_WHOLE: Final[Rule] = (_is_whole, "a whole number from 0 on")
_TEXT: Final[Rule] = (_is_text, "text")
_TRUTH: Final[Rule] = (lambda value: isinstance(value, bool), "True or False")
_LIST: Final[Rule] = (_is_list, "a list")
_DICT: Final[Rule] = (_is_dict, "a dict")
_FINITE: Final[Rule] = (_is_finite, "a finite number")
_AMOUNT: Final[Rule] = (
    lambda value: _is_finite(value) and cast("float", value) >= 0,
    "a finite number from 0 on",
)
_MEASURED: Final[Rule] = (_is_number, "a number")

_RULES: Final[Mapping[str, Rule]] = {
    "note": _TEXT,
    "created": _TEXT,
    "config": _DICT,
    "state": _DICT,
    "state.epoch": _WHOLE,
    "state.epochs": _WHOLE,
    "state.batch": _WHOLE,
    "state.batches": _WHOLE,
    "state.rows": _WHOLE,
    "state.global_step": _WHOLE,
    "state.lr": _FINITE,
    "state.train_loss": _MEASURED,
    "state.val_loss": _MEASURED,
    "state.best_path": _TEXT,
    "state.stop": _TRUTH,
    "state.stop_reason": _TEXT,
    "state.stop_after": (lambda value: value in ("batch", "epoch"), "`batch` or `epoch`"),
    "state.stopped_by": _TEXT,
    "val": _LIST,
    "position": _DICT,
    "position.in_epoch": _TRUTH,
    "position.batches_done": _WHOLE,
    "position.evaluated_step": _WHOLE,
    "position.measured_step": (lambda value: value is None or _is_whole(value), "a step or None"),
    "position.pending_stop": (lambda value: value is None or _is_text(value), "text or None"),
    "position.meter": _LIST,
    "position.carried_s": _AMOUNT,
    "optimizer": _LIST,
    "signatures": _LIST,
    "callbacks": (lambda value: value is None or isinstance(value, list), "a list or None"),
    "best": (lambda value: value is None or isinstance(value, dict), "a dict or None"),
    "extras": _DICT,
    "environment": _DICT,
    "environment.training-workbench": _TEXT,
    "environment.python": _TEXT,
    "environment.numpy": _TEXT,
}


def check_document(document: Mapping[str, Any], path: object) -> None:
    """Refuse a document in which a value is missing, of another type or out of range.

    Parameters
    ----------
    document
        What a checkpoint holds besides its arrays, of the format that this version writes.
    path
        The file, for the error's text.

    Raises
    ------
    DataError
        Naming the first such value.
    """
    for name, rule in _RULES.items():
        _require(path, name, _found(document, name), rule)
    _check_config(path, document["config"])
    state, position = document["state"], document["position"]
    for at, entry in enumerate(document["val"]):
        _check_row(path, f"val[{at}]", entry, (_TEXT, _MEASURED, _AMOUNT))
    _check_row(path, "position.meter", position["meter"], (_MEASURED, _AMOUNT))
    for name, value, most in (
        ("position.evaluated_step", position["evaluated_step"], state["global_step"]),
        ("position.measured_step", position["measured_step"] or 0, state["global_step"]),
        ("position.batches_done", position["batches_done"], state["batches"]),
        ("state.batch", state["batch"], state["batches"]),
    ):
        _require(path, name, value, _up_to(most))
    for at, entry in enumerate(document["optimizer"]):
        _check_dict(path, f"optimizer[{at}]", entry, {"type": _TEXT, "fields": _DICT})
    for at, names in enumerate(document["signatures"]):
        _require(path, f"signatures[{at}]", names, (_is_signature, "a list of names"))
    for at, entry in enumerate(document["callbacks"] or ()):
        memory = {"name": _TEXT, "number": _WHOLE, "state": _DICT, "arrays": _LIST}
        _check_dict(path, f"callbacks[{at}]", entry, memory)
    if document["best"] is not None:
        rules = {"monitor": _TEXT, "value": _FINITE, "epoch": _WHOLE}
        _check_dict(path, "best", document["best"], rules)
        _require(path, "best.epoch", document["best"]["epoch"], _up_to(state["epoch"]))
    _check_steering(path, document["extras"].get("run", {}))


def check_losses(
    losses: Mapping[str, Array], history: Array, document: Mapping[str, Any], path: object
) -> None:
    """Refuse losses of batches, or epochs of a history, that do not fit where the run is.

    Raises
    ------
    DataError
        Naming the array.
    """
    done, epoch = document["position"]["batches_done"], document["state"]["epoch"]
    for name, array in losses.items():
        if array.dtype.kind != "f" or array.shape != (done,):
            raise _wrong(path, name, f"floats of shape ({done},)", f"{array.dtype} {array.shape}")
    if len(history) and not 1 <= int(history[0]) <= int(history[-1]) <= epoch:
        raise _wrong(path, "history.epoch", f"epochs from 1 to {epoch}", str(history[-1]))


def check_statics(own: Sequence[Any], saved: Sequence[Mapping[str, Any]], path: object) -> None:
    """Refuse settings of an optimizer of other types than this run's, or not finite.

    Parameters
    ----------
    own, saved
        What `pack_statics` returned of the run's optimizer, and what a file holds.
    path
        The file, for the error's text.

    Raises
    ------
    DataError
        Naming the first such setting.
    """
    if len(own) != len(saved):
        raise _wrong(path, "optimizer", f"{len(own)} entries", str(len(saved)))
    for at, (mine, theirs) in enumerate(zip(own, saved, strict=True)):
        for name, value in theirs["fields"].items():
            where = f"optimizer[{at}].fields.{name}"
            if name not in mine["fields"]:
                raise _wrong(path, where, "a setting of this optimizer", repr(value))
            _require(path, where, value, _setting_like(name, mine["fields"][name]))


def _setting_like(name: str, mine: object) -> Rule:
    if isinstance(mine, (bool, str)):
        kind = type(mine)
        return (lambda value: type(value) is kind, f"of type {kind.__name__}")
    if name in _SHARES:
        return (lambda value: _is_finite(value) and 0 <= cast("float", value) < 1, "in [0, 1)")
    if isinstance(mine, int):
        return _WHOLE
    if isinstance(mine, float):
        return _AMOUNT
    return (lambda value: True, "anything")


_PLAIN: Final[Rule] = (lambda value: _is_number(value) or isinstance(value, bool), "a number")
_SHARES: Final = frozenset({"b1", "b2", "mu"})


def _check_config(path: object, config: Mapping[str, Any]) -> None:
    for each in fields(Config):
        _require(path, f"config.{each.name}", config.get(each.name, _MISSING), _PLAIN)
    try:
        Config(**config)
    except (WorkbenchError, TypeError) as fault:
        raise _wrong(path, "config", "a configuration", str(fault).partition("\n")[0]) from fault
    for name in ("shuffle", "verbose", "drop_last"):
        _require(path, f"config.{name}", config[name], _TRUTH)


def _check_steering(path: object, own: object) -> None:
    """Check what was done by hand."""
    _require(path, "extras.run", own, _DICT)
    told = cast("dict[str, object]", own)
    _require(path, "extras.run.step", told.get("step", ""), _TEXT)
    held = told.get("rate_held")
    _require(path, "extras.run.rate_held", held, (lambda v: v is None or _is_finite(v), "a rate"))
    actions = told.get("actions", [])
    _require(path, "extras.run.actions", actions, _LIST)
    for at, action in enumerate(cast("list[object]", actions)):
        _check_row(path, f"extras.run.actions[{at}]", action, (_TEXT, _WHOLE, _WHOLE, _TEXT))


def _is_signature(value: object) -> bool:
    if not isinstance(value, list):
        return False
    names = cast("list[object]", value)
    return names.count(None) <= 1 and all(n is None or isinstance(n, str) for n in names)


def _up_to(most: int) -> Rule:
    return (lambda value: cast("int", value) <= most, f"at most {most}")


def _found(document: Mapping[str, Any], name: str) -> object:
    value: Any = document
    for key in name.split("."):
        is_dict = isinstance(value, Mapping)
        value = cast("Mapping[str, Any]", value).get(key, _MISSING) if is_dict else _MISSING
    return cast("object", value)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


def _check_row(path: object, name: str, entry: object, rules: Sequence[Rule]) -> None:
    words = f"a list of {len(rules)} values"

    def is_row(value: object) -> bool:
        return isinstance(value, list) and len(cast("list[object]", value)) == len(rules)

    _require(path, name, entry, (is_row, words))
    values = cast("list[object]", entry)
    for at, (value, rule) in enumerate(zip(values, rules, strict=True)):
        _require(path, f"{name}[{at}]", value, rule)


def _check_dict(path: object, name: str, entry: object, rules: Mapping[str, Rule]) -> None:
    _require(path, name, entry, _DICT)
    told = cast("dict[str, object]", entry)
    for key, rule in rules.items():
        _require(path, f"{name}.{key}", told.get(key, _MISSING), rule)


def _require(path: object, name: str, value: object, rule: Rule) -> None:
    fits, words = rule
    if not fits(value):
        raise _wrong(path, name, words, _shown(value))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _wrong(path: object, name: str, words: str, found: str) -> DataError:
    return DataError(
        f"`{path}` is damaged: `{name}` must be {words}, got {found}",
        remedy="use another checkpoint; no run of this version wrote this one",
    )
