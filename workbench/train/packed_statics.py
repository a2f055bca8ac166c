"""What an optimizer state is apart from its arrays: its kind and its hyper-parameters.

In: the structure of a state, in which other states may be nested.  Out: plain values for a file;
and the structure with the values of a file.  Invariant: kinds must agree, hyper-parameters are
taken over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from workbench.train.structure import Node, Structure

__all__ = ["kind_of", "pack_statics", "unpack_statics"]

Statics = Sequence[Mapping[str, Any]]

# What tells one kind of state from another; the other static fields are numbers to compute with.
_KIND_FIELDS: Final = ("kind", "dtype")


def pack_statics(structure: Structure) -> list[dict[str, Any]]:
    """Return the type and the static fields of each container that has some, outermost first."""
    return [
        {"type": node.kind.__qualname__, "fields": dict(node.static)}
        for node in structure.nodes
        if node.static
    ]


def kind_of(statics: Statics) -> str:
    """Return what kind of state it is, for people and for comparing.

    Examples
    --------
    >>> kind_of([{"type": "OptState", "fields": {"kind": "adam", "b1": 0.9}}])
    'adam'
    >>> kind_of([{"type": "MixedState", "fields": {"dtype": "float16"}},
    ...          {"type": "OptState", "fields": {"kind": "sgd"}}])
    'MixedState float16 of sgd'
    """
    words: list[str] = []
    for entry in statics:
        named = [str(entry["fields"][name]) for name in _KIND_FIELDS if name in entry["fields"]]
        plain = entry["type"] == "OptState" and named
        words.append(" ".join(named if plain else [entry["type"], *named]))
    return " of ".join(words) or "no optimizer"


def unpack_statics(structure: Structure, statics: Statics) -> Structure:
    """Return ``structure`` with the static fields of a file, whose kind is the same."""
    waiting = list(statics)
    nodes: list[Node] = []
    for node in structure.nodes:
        saved: Mapping[str, Any] = waiting.pop(0)["fields"] if node.static else {}
        nodes.append(replace(node, static=_fields(node.static, saved)))
    return Structure(tuple(nodes))


def _fields(own: tuple[tuple[str, Any], ...], saved: Mapping[str, Any]) -> tuple[Any, ...]:
    # A field that the file does not know came with a later version, and keeps its value.
    return tuple((name, _hashable(saved.get(name, value))) for name, value in own)


def _hashable(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(_hashable(each) for each in cast("Sequence[Any]", value))
