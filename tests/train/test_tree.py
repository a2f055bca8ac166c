from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field, make_dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import TracingError
from workbench.graph.leaf import parameter
from workbench.train.tree import flatten, map_tree, paths, require_same, static, unflatten


class Layer(NamedTuple):
    weight: Any
    bias: Any


@dataclass(frozen=True, slots=True)
class Dense:
    weight: Any
    activation: str = static("relu")
    bias: Any = None


@dataclass
class Checked:
    weight: Any
    rate: float = field(default=0.5, metadata={"static": True})

    def __post_init__(self):
        if not isinstance(self.weight, float):
            raise TypeError("only a float will do")


CONTAINERS = st.recursive(
    st.none() | st.floats(allow_nan=False) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.builds(Layer, inner, inner)
        | st.builds(Dense, inner, st.sampled_from(["relu", "tanh"]), inner)
    ),
    max_leaves=12,
)


@given(CONTAINERS)
def test_a_tree_comes_back_as_it_was_from_its_leaves_and_structure(tree):
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert repr(unflatten(structure, leaves)) == repr(tree)
    assert structure.leaf_count == len(leaves)


@given(CONTAINERS)
def test_every_leaf_has_a_path_of_its_own(tree):
    leaves, structure = flatten(tree)
    assert len(set(paths(structure))) == len(leaves)


@given(CONTAINERS, CONTAINERS)
def test_two_structures_are_equal_exactly_when_they_are_written_alike(left, right):
    first, second = flatten(left)[1], flatten(right)[1]
    assert (first == second) == (repr(first) == repr(second))
    if first == second:
        assert hash(first) == hash(second)


def test_paths_name_keys_positions_and_fields():
    model = {"layers": [Layer(1.0, 2.0), Dense(3.0, bias=4.0)], "scale": (5.0,)}
    leaves, structure = flatten(model)
    assert dict(zip(paths(structure), leaves, strict=True)) == {
        "layers.0.weight": 1.0,
        "layers.0.bias": 2.0,
        "layers.1.weight": 3.0,
        "layers.1.bias": 4.0,
        "scale.0": 5.0,
    }


def test_keys_that_could_be_mistaken_for_others_are_quoted_in_paths():
    tree = {"a": {"b": 1}, "a.b": 2, 0: 3, "0": 4, "": 5, -1: 6, "-1": 7, True: 8, "True": 9}
    assert sorted(paths(flatten(tree)[1])) == sorted(
        ["a.b", "'a.b'", "0", "'0'", "''", "-1", "'-1'", "True", "'True'"]
    )


def test_the_path_of_a_lone_leaf_is_empty():
    leaves, structure = flatten(2.5)
    assert (leaves, paths(structure)) == ([2.5], [""])


def test_arrays_tensors_and_numbers_are_leaves_and_stay_the_same_objects():
    given_leaves = [np.zeros((2, 3)), parameter([1.0], "w"), 1, 2.0, True, np.float32(3.0)]
    leaves, _ = flatten(given_leaves)
    assert all(leaf is other for leaf, other in zip(leaves, given_leaves, strict=True))


def test_none_is_a_tree_without_leaves():
    leaves, structure = flatten({"m": None, "v": None})
    assert leaves == []
    assert unflatten(structure, []) == {"m": None, "v": None}


def test_the_order_of_a_dict_makes_no_difference_to_leaves_or_structure():
    leaves, structure = flatten({"w": 1.0, "b": 2.0})
    others, other = flatten({"b": 2.0, "w": 1.0})
    assert (leaves, structure, hash(structure)) == (others, other, hash(other))


def test_putting_back_restores_the_order_that_the_dict_was_written_in():
    _, structure = flatten({"w": 1.0, "b": 2.0})
    assert list(unflatten(structure, [20.0, 10.0]).items()) == [("w", 10.0), ("b", 20.0)]


def test_keys_of_several_types_have_a_fixed_order():
    leaves, _ = flatten({"b": 1, 2: 2, "a": 3, 10: 4})
    assert leaves == flatten({10: 4, "a": 3, 2: 2, "b": 1})[0]


def test_an_ordered_dict_comes_back_as_one():
    tree = OrderedDict(b=1.0, a=2.0)
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert structure != flatten(dict(tree))[1]


def test_static_fields_belong_to_the_structure():
    leaves, structure = flatten(Dense(1.0, "tanh", 2.0))
    assert leaves == [1.0, 2.0]
    assert unflatten(structure, [3.0, 4.0]) == Dense(3.0, "tanh", 4.0)
    assert structure != flatten(Dense(1.0, "relu", 2.0))[1]


def test_a_dataclass_is_rebuilt_without_its_own_checks():
    leaves, structure = flatten(Checked(1.0))
    rebuilt = unflatten(structure, ["a tensor"])
    assert leaves == [1.0]
    assert (rebuilt.weight, rebuilt.rate) == ("a tensor", 0.5)


def test_map_tree_pairs_leaves_of_equal_structure():
    total = map_tree(lambda a, b: a + b, {"w": 1, "b": [2]}, {"b": [20], "w": 10})
    assert total == {"w": 11, "b": [22]}


@pytest.mark.parametrize(
    ("expected", "found", "text"),
    [
        ({"a": {"w": 1, "b": 2}}, {"a": {"w": 1}}, "at `a`, missing keys 'b'"),
        ({"a": {"w": 1}}, {"a": {"w": 1, "c": 2}}, "at `a`, unexpected keys 'c'"),
        ({"w": 1}, {"v": 1}, "at its root, missing keys 'w', unexpected keys 'v'"),
        ([1, [2, 3]], [1, [2]], "at `1`, expected 2 entries, found 1"),
        ([1, [2, 3]], [1, 2], "at `1`, expected `list` of 2, found a leaf"),
        ([1, 2], [1, None], "at `1`, expected a leaf, found None"),
        ([1], (1,), "at its root, expected `list` of 1, found `tuple` of 1"),
        (
            {"d": Dense(1)},
            {"d": Dense(1, "tanh")},
            "at `d`, the static field `activation` was 'relu' and is 'tanh'",
        ),
    ],
)
def test_a_mismatch_names_the_first_path_that_differs_and_both_structures(expected, found, text):
    first, second = flatten(expected)[1], flatten(found)[1]
    with pytest.raises(TracingError) as caught:
        require_same(first, second, what="what the step returned")
    assert f"what the step returned has another structure: {text}; " in str(caught.value)
    assert f"expected {first!r}, found {second!r}" in str(caught.value)
    assert caught.value.remedy


def test_equal_structures_are_accepted():
    require_same(flatten({"a": 1, "b": 2})[1], flatten({"b": 3, "a": 4})[1], what="it")


def test_a_class_that_was_defined_again_is_told_from_the_old_one():
    old, new = (make_dataclass("Model", ["w"]) for _ in range(2))
    with pytest.raises(TracingError, match="two classes of one name") as caught:
        map_tree(lambda a, b: a, old(1.0), new(1.0))
    assert "make the tree anew" in caught.value.remedy


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"a": [1.0, "relu"]}, "at `a.1` stands a `str`"),
        (Layer(1.0, {2.0}), "at `bias` stands a `set`"),
        (object(), "at the root of a tree stands a `object`"),
        ([1j], "at `0` stands a `complex`"),
        ({"w": np.array(["x"])}, "at `w` stands a `ndarray` of dtype <U1"),
        ({"w": np.array([None])}, "at `w` stands a `ndarray` of dtype object"),
        ({"w": np.datetime64("2020-01-01")}, r"at `w` stands a `datetime64` of dtype"),
        (defaultdict(list, w=1.0), "at the root of a tree stands a `defaultdict`"),
        (Dense, "at the root of a tree stands a `type`"),
    ],
)
def test_what_is_neither_leaf_nor_container_is_refused_by_path_and_type(tree, text):
    with pytest.raises(TracingError, match=text) as caught:
        flatten(tree)
    assert "static" in caught.value.remedy


def test_a_static_field_that_cannot_be_hashed_is_refused():
    names: Any = ["relu"]
    with pytest.raises(TracingError, match="the static field `activation` of `Dense` holds"):
        flatten(Dense(1.0, names))


@pytest.mark.parametrize("given_leaves", [[], [1.0, 2.0, 3.0]])
def test_a_wrong_number_of_leaves_is_refused(given_leaves):
    _, structure = flatten({"w": 1.0, "b": 2.0})
    with pytest.raises(TracingError, match=f"{len(given_leaves)} leaves were given for 2 places"):
        unflatten(structure, given_leaves)


def test_depth_is_not_limited_by_the_call_stack():
    tree, twin = 1.0, 1.0
    for _ in range(5000):
        tree, twin = [tree], [twin]
    leaves, structure = flatten(tree)
    assert leaves == [1.0]
    assert structure == flatten(twin)[1]
    assert hash(structure) == hash(flatten(twin)[1])
    assert repr(structure).count("[") == 5000
    assert paths(structure)[0].count("0") == 5000
    (inner,) = unflatten(structure, [2.0])
    assert isinstance(inner, list)


def test_a_tree_that_contains_itself_is_refused():
    tree: list[Any] = [1.0]
    tree.append(tree)
    with pytest.raises(TracingError, match="levels deep") as caught:
        flatten(tree)
    assert "contains itself" in caught.value.remedy
