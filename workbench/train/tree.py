"""Parameter trees: nested containers whose leaves are arrays, tensors or numbers.

In: dicts, lists, tuples, named tuples and dataclasses, nested in any way.  Out: the flat list of
leaves and a `Structure` that can put leaves back.  Invariant: two structures that compare equal
order their leaves alike, so leaves flattened by one may be put back by the other.  A dict is
therefore walked in the order of its sorted keys; putting back restores the order it was written in.

Every walk is a loop, never a recursion: depth is not limited by Python's call stack.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, NoReturn, TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray

from workbench.errors import TracingError
from workbench.graph.tensor import Tensor
from workbench.train.structure import (
    EMPTY,
    LEAF,
    Node,
    Structure,
    key_text,
    paths,
    require_same,
    shorten,
)

__all__ = [
    "Leaf",
    "Structure",
    "flatten",
    "map_tree",
    "paths",
    "require_same",
    "static",
    "unflatten",
]

Leaf: TypeAlias = "Tensor | NDArray[Any] | np.generic | float"

# A list that contains itself would be walked for ever; no model is nested this deeply.
_DEEPEST: Final = 10_000
# Text, dates, complex numbers and Python objects: nothing that can be trained.
_REFUSED_KINDS: Final = "OSUMmc"


def static(default: Any) -> Any:
    """Return a dataclass field that belongs to the structure of a tree, not to its leaves.

    Use it for what a step reads as a plain Python value, such as a hyper-parameter.  Two trees
    whose static fields differ have different structures.

    Parameters
    ----------
    default
        The field's default, which is hashable like every value the field is given.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Scaled:
    ...     weight: float
    ...     factor: float = static(2.0)
    >>> flatten(Scaled(0.5))[0]
    [0.5]
    """
    return field(default=default, metadata={"static": True})


def flatten(tree: object) -> tuple[list[Leaf], Structure]:
    """Return the leaves of ``tree`` in a fixed order, and the structure that holds them.

    Parameters
    ----------
    tree
        A leaf (tensor, numpy array, number), or a dict, list, tuple, named tuple or dataclass of
        trees.  ``None`` is a tree without leaves.  A dataclass field made with `static` (or with
        ``metadata={"static": True}``) belongs to the structure.

    Raises
    ------
    TracingError
        If something else is met, naming its path and type, or if the tree contains itself.

    Examples
    --------
    >>> leaves, structure = flatten({"w": 1.0, "layers": [2.0, (3.0, None)]})
    >>> leaves
    [2.0, 3.0, 1.0]
    >>> structure
    {'layers': [*, (*, None)], 'w': *}
    """
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    stack: list[_Place] = [_Place(tree, None, "", 0)]
    while stack:
        place = stack.pop()
        node, children = _open(place)
        nodes.append(node)
        if node.is_leaf:
            leaves.append(place.value)
            continue
        if place.depth >= _DEEPEST and children:
            raise TracingError(
                f"the tree is nested more than {_DEEPEST} levels deep",
                remedy="look for a container that contains itself",
            )
        for key, child in zip(reversed(node.keys), reversed(children), strict=True):
            stack.append(_Place(child, place, key_text(node.kind, key), place.depth + 1))
    return leaves, Structure(tuple(nodes))


def unflatten(structure: Structure, leaves: Iterable[object]) -> Any:
    """Return the tree of ``structure`` with ``leaves`` in their places.

    Dataclasses are rebuilt field by field without calling ``__init__`` or ``__post_init__``, since
    those may check or convert values that a tensor does not have.

    Parameters
    ----------
    structure
        From `flatten`.
    leaves
        One value for each leaf, in the order of `flatten`; of any type.

    Raises
    ------
    TracingError
        If the number of leaves is not that of the structure.

    Examples
    --------
    >>> leaves, structure = flatten({"w": 1.0, "b": 2.0})
    >>> unflatten(structure, [10 * leaf for leaf in leaves])
    {'w': 10.0, 'b': 20.0}
    """
    values = list(leaves)
    if len(values) != structure.leaf_count:
        raise TracingError(
            f"{len(values)} leaves were given for {structure.leaf_count} places: "
            f"{shorten(repr(structure))}",
            remedy="pass one value for each leaf, in the order of `flatten`",
        )
    # From the back, the children of a container are on top of the stack when it is reached.
    built: list[object] = []
    for node in reversed(structure.nodes):
        if node.is_leaf:
            built.append(values.pop())
        else:
            built.append(_close(node, [built.pop() for _ in node.keys]))
    return built.pop()


def map_tree(function: Callable[..., object], tree: object, *more: object) -> Any:
    """Return a tree of ``function(leaf, *leaves_of_more)``, in the structure of ``tree``.

    Raises
    ------
    TracingError
        If a further tree has another structure, naming the first path that differs.

    Examples
    --------
    >>> map_tree(lambda a, b: a + b, {"w": 1, "b": 2}, {"b": 20, "w": 10})
    {'w': 11, 'b': 22}
    """
    leaves, structure = flatten(tree)
    columns: list[Sequence[Leaf]] = [leaves]
    for number, other in enumerate(more, start=2):
        others, found = flatten(other)
        require_same(structure, found, what=f"tree {number} of map_tree")
        columns.append(others)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


# -- opening and closing containers


@final
@dataclass(frozen=True, slots=True)
class _Place:
    """A value on its way into the flat form, linked to its parent so that a path costs nothing."""

    value: Any
    parent: "_Place | None"
    key: str
    depth: int

    @property
    def path(self) -> str:
        keys: list[str] = []
        place, parent = self, self.parent
        while parent is not None:
            keys.append(place.key)
            place, parent = parent, parent.parent
        return ".".join(reversed(keys))


def _open(place: _Place) -> tuple[Node, Sequence[object]]:
    """Return the node of a value, and its children in the order of the node's keys."""
    value = place.value
    kind = _kind_of(value)
    if value is None:
        return EMPTY, ()
    if _is_leaf(value):
        return LEAF, ()
    if kind in (dict, OrderedDict):
        return _open_dict(kind, value)
    if kind is list or kind is tuple:
        return Node(kind, tuple(range(len(value)))), value
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return Node(kind, cast("Any", value)._fields), cast("tuple[object, ...]", value)
    if is_dataclass(kind):
        return _open_dataclass(place, kind)
    _refuse_value(place)


def _kind_of(value: object) -> type[Any]:
    return type(value)


def _refuse_value(place: _Place) -> NoReturn:
    where = f"at `{place.path}`" if place.path else "at the root of a tree"
    described = f"`{type(place.value).__qualname__}`"
    if _is_numpy(place.value):
        described += f" of dtype {place.value.dtype}"
    raise TracingError(
        f"{where} stands a {described}, which is neither a leaf nor a container",
        remedy="leaves are tensors, numpy arrays of numbers, and numbers; containers are dicts, "
        "lists, tuples, named tuples and dataclasses; mark other dataclass fields with `static`",
    )


def _is_numpy(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _is_leaf(value: Any) -> bool:
    if _is_numpy(value):
        return value.dtype.kind not in _REFUSED_KINDS
    return isinstance(value, (Tensor, int, float))


def _open_dict(kind: type, value: Mapping[Hashable, object]) -> tuple[Node, Sequence[object]]:
    written = tuple(value)
    keys = tuple(sorted(written, key=_sort_key))
    return Node(kind, keys, written=written), [value[key] for key in keys]


def _sort_key(key: Hashable) -> tuple[str, Any]:
    # Keys of one type are compared among themselves only: 1 < "a" has no answer.
    return type(key).__qualname__, key if isinstance(key, (str, int, float)) else repr(key)


def _open_dataclass(place: _Place, kind: type) -> tuple[Node, Sequence[object]]:
    names: list[str] = []
    fixed: list[tuple[str, Hashable]] = []
    for entry in fields(kind):
        value = getattr(place.value, entry.name)
        if not entry.metadata.get("static", False):
            names.append(entry.name)
            continue
        try:
            hash(value)
        except TypeError:
            raise TracingError(
                f"the static field `{entry.name}` of `{kind.__qualname__}` holds "
                f"{value!r}, which is not hashable",
                remedy="use numbers, text or tuples in static fields; arrays are leaves",
            ) from None
        fixed.append((entry.name, value))
    node = Node(kind, tuple(names), tuple(fixed))
    return node, [getattr(place.value, name) for name in names]


def _close(node: Node, children: list[object]) -> object:
    kind, make = node.kind, cast("Callable[..., object]", node.kind)
    if kind is type(None):
        return None
    if kind is dict or kind is OrderedDict:
        held = dict(zip(node.keys, children, strict=True))
        return make((key, held[key]) for key in node.written)
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if issubclass(kind, tuple):
        return make(*children)
    made: object = object.__new__(kind)
    for name, value in (*zip(node.keys, children, strict=True), *node.static):
        # A frozen dataclass has no other way to fill its fields.
        object.__setattr__(made, cast("str", name), value)
    return made
