"""What a parameter tree is apart from its leaves: containers, keys and static fields.

In: nodes, as `workbench.train.tree` finds them.  Out: paths, texts and comparisons.  Invariant: two
structures that compare equal order their leaves alike.  Nodes lie in a flat list, each container
before its children, so that every walk is a loop and depth is not limited by the call stack.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, final

from workbench.errors import TracingError

__all__ = ["EMPTY", "LEAF", "Node", "Structure", "key_text", "paths", "require_same", "shorten"]

_SHOWN_CHARACTERS: Final = 400
# What no other key of a dict can be mistaken for, number or truth value.
_PLAIN_WORD: Final = re.compile(r"(?!(?:True|False|None)$)[^\W\d][\w/-]*")


@final
class _LeafMark:
    """The kind of a node that is a leaf."""


@final
@dataclass(frozen=True, slots=True)
class Node:
    """One container or leaf of a tree, without the leaf's value.

    Attributes
    ----------
    kind
        The container's type; for a leaf a mark of its own, for an empty place ``NoneType``.
    keys
        Dict keys (sorted), positions or field names of the children.
    static
        Names and values of a dataclass's static fields, which are part of the structure.
    written
        The keys of a dict in the order they were written in; not compared.
    """

    kind: type[Any]
    keys: tuple[Hashable, ...] = ()
    static: tuple[tuple[str, Hashable], ...] = ()
    written: tuple[Hashable, ...] = field(default=(), compare=False)

    @property
    def is_leaf(self) -> bool:
        """Whether the node stands for a value rather than for a container."""
        return self.kind is _LeafMark


LEAF: Final = Node(_LeafMark)
EMPTY: Final = Node(type(None))


@final
@dataclass(frozen=True, slots=True, repr=False)
class Structure:
    """What a tree is apart from its leaves: containers, keys and static fields.

    Structures compare equal, and hash alike, when a tree of the one can be used as a tree of the
    other.  The order in which a dict was written makes no difference.

    Attributes
    ----------
    nodes
        The nodes of the tree, each container before its children.
    """

    nodes: tuple[Node, ...]

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return sum(node.is_leaf for node in self.nodes)

    def __repr__(self) -> str:
        return _show(self)


def paths(structure: Structure) -> list[str]:
    """Return the path of each leaf, such as ``"layers.0.weight"``, in the order of `flatten`.

    Paths are unique within a tree: a key that is not a plain word is shown as Python would write
    it.  The path of a tree that is itself a leaf is the empty text.

    Examples
    --------
    >>> paths(Structure((Node(list, (0, 1)), LEAF, Node(dict, ("w",)), LEAF)))
    ['0', '1.w']
    """
    return [path for node, path in _walk(structure) if node.is_leaf]


def require_same(expected: Structure, found: Structure, *, what: str) -> None:
    """Refuse a structure that differs from the expected one.

    Parameters
    ----------
    expected, found
        The structures to compare.
    what
        What ``found`` is, for the error's text: ``"what the step returned as params"``.

    Raises
    ------
    TracingError
        Naming the first path that differs, what stands there on both sides, and both structures.
    """
    if expected == found:
        return
    for (left, path), (right, _) in zip(_walk(expected), _walk(found), strict=False):
        if left != right:
            _refuse(path, left, right, expected, found, what)
    raise AssertionError("structures with equal nodes are equal")


def _refuse(
    path: str, left: Node, right: Node, expected: Structure, found: Structure, what: str
) -> NoReturn:
    where = f"at `{path}`" if path else "at its root"
    problem, remedy = _difference(left, right)
    raise TracingError(
        f"{what} has another structure: {where}, {problem}; "
        f"expected {shorten(repr(expected))}, found {shorten(repr(found))}",
        remedy=remedy,
    )


def _difference(left: Node, right: Node) -> tuple[str, str]:
    """Return what differs between two nodes at one path, and what to do about it."""
    remedy = "return containers of the same types, keys and lengths as were given"
    if left.kind is not right.kind:
        problem = f"expected {_noun(left)}, found {_noun(right)}"
        if left.kind.__qualname__ == right.kind.__qualname__:
            return (
                f"{problem}, two classes of one name",
                "the class was defined again after the tree was made: make the tree anew",
            )
        return problem, remedy
    if left.static != right.static:
        name, before, after = next(
            (name, before, after)
            for (name, before), (_, after) in zip(left.static, right.static, strict=True)
            if before != after
        )
        return (
            f"the static field `{name}` was {before!r} and is {after!r}",
            "keep static fields as they are during a run; what changes is a leaf",
        )
    if not issubclass(left.kind, dict):
        return f"expected {len(left.keys)} entries, found {len(right.keys)}", remedy
    missing = [key for key in left.keys if key not in right.keys]
    extra = [key for key in right.keys if key not in left.keys]
    parts = [
        f"{verb} {', '.join(repr(key) for key in keys)}"
        for verb, keys in (("missing keys", missing), ("unexpected keys", extra))
        if keys
    ]
    return ", ".join(parts), remedy


def _noun(node: Node) -> str:
    if node.is_leaf:
        return "a leaf"
    if node.kind is type(None):
        return "None"
    return f"`{node.kind.__qualname__}` of {len(node.keys)}"


def _walk(structure: Structure) -> Iterator[tuple[Node, str]]:
    """Give each node with its path, containers before their children."""
    waiting = [""]
    for node in structure.nodes:
        path = waiting.pop()
        yield node, path
        prefix = f"{path}." if path else ""
        waiting.extend(prefix + key_text(node.kind, key) for key in reversed(node.keys))


def key_text(kind: type, key: Hashable) -> str:
    """Return how a path shows ``key`` of a container of type ``kind``."""
    if not isinstance(key, str) or not issubclass(kind, dict):
        return str(key) if isinstance(key, (str, int)) else repr(key)
    return key if _PLAIN_WORD.fullmatch(key) else repr(key)


def _show(structure: Structure) -> str:
    """Return the structure as Python would write it, with ``*`` for each leaf."""
    pieces: list[str] = []
    # What remains to be written: text, or the place of the next node.
    waiting: list[str | None] = [None]
    nodes = iter(structure.nodes)
    while waiting:
        text = waiting.pop()
        if text is not None:
            pieces.append(text)
            continue
        node = next(nodes)
        if node.is_leaf or node.kind is type(None):
            pieces.append("*" if node.is_leaf else "None")
            continue
        before, after = _brackets(node)
        pieces.append(before)
        waiting.append(after)
        for position, key in reversed(list(enumerate(node.keys))):
            waiting.append(None)
            waiting.append((", " if position else "") + _label(node, key))
    return "".join(pieces)


def _brackets(node: Node) -> tuple[str, str]:
    if node.kind is dict:
        return "{", "}"
    if node.kind is list:
        return "[", "]"
    if node.kind is tuple:
        return "(", ",)" if len(node.keys) == 1 else ")"
    if node.kind is OrderedDict:
        return "OrderedDict({", "})"
    fixed = ", ".join(f"{name}={value!r}" for name, value in node.static)
    comma = ", " if fixed and node.keys else ""
    return f"{node.kind.__qualname__}(", f"{comma}{fixed})"


def _label(node: Node, key: Hashable) -> str:
    if issubclass(node.kind, dict):
        return f"{key!r}: "
    return f"{key}=" if isinstance(key, str) else ""


def shorten(text: str) -> str:
    """Return ``text``, its middle left out if it is too long for an error."""
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    half = _SHOWN_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"
