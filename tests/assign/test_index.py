from hypothesis import given
from hypothesis import strategies as st

from workbench.assign.index import Affine, Axis, at

AXES = tuple(Axis(extent) for extent in (2, 3, 5, 7))

affines = st.builds(
    lambda coefficients, offset: Affine(
        tuple((axis, c) for axis, c in zip(AXES, coefficients, strict=False) if c), offset
    ),
    st.lists(st.integers(-3, 3), max_size=4),
    st.integers(-5, 5),
)


def value(index: Affine, point: dict[Axis, int]) -> int:
    return index.offset + sum(c * point[axis] for axis, c in index.terms)


@given(index=affines, replacements=st.dictionaries(st.sampled_from(AXES), affines), data=st.data())
def test_substitution_is_evaluation_at_the_replaced_point(index, replacements, data):
    point = {axis: data.draw(st.integers(-9, 9)) for axis in AXES}
    moved = {axis: value(replacements.get(axis, at(axis)), point) for axis in AXES}
    substituted = index.substitute(replacements)
    assert value(substituted, point) == value(index, moved)
    assert all(coefficient for _, coefficient in substituted.terms)


def test_only_an_axis_itself_is_simple():
    i, j = AXES[:2]
    assert at(i).axis is i
    assert [Affine(terms, offset).axis for terms, offset in _others(i, j)] == [None] * 4


def _others(i: Axis, j: Axis) -> list[tuple[tuple[tuple[Axis, int], ...], int]]:
    return [((), 0), (((i, 1),), 1), (((i, -1),), 0), (((i, 1), (j, 1)), 0)]


def test_axes_of_one_extent_are_still_two():
    assert Axis(3) != Axis(3)
    assert at(AXES[0]) == at(AXES[0])
    assert at(Axis(2)) != at(Axis(2))
    assert Affine(((AXES[0], 2), (AXES[1], 1))).axes() == {AXES[0], AXES[1]}
