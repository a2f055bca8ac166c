"""Tallies of runs that add up: shared where they can be, right whether they are or not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.runtime.accumulation import Accumulation
from workbench.runtime.ledger import Ledger, Record


@given(st.integers(0, 2**32 - 1))
def test_counts_are_those_of_a_count_for_each_buffer_and_routine(seed):
    draw = random.Random(seed)
    accumulation, records = Accumulation(), [Record() for _ in range(4)]
    expected = [dict.fromkeys(range(3), 0) for _ in records]
    saved = None
    for _ in range(30):
        chosen = sorted(draw.sample(range(4), draw.choice([1, 2, 4, 4])))
        touched = [records[i] for i in chosen]
        routine = draw.randrange(3)
        what = draw.choice(["add", "add", "add", "reset", "save", "restore", "take back"])
        if what == "add":
            accumulation.add(routine, touched)
            for i in chosen:
                expected[i][routine] += 1
        elif what == "reset":
            accumulation.reset(touched)
            for i in chosen:
                expected[i] = dict.fromkeys(range(3), 0)
        elif what == "save":
            saved = accumulation.saved(records), [dict(counts) for counts in expected]
        elif what == "restore" and saved is not None:
            saved[0](records)
            expected = [dict(counts) for counts in saved[1]]
        elif what == "take back":
            accumulation.take_back(routine, records)
            for counts in expected:
                counts[routine] = max(0, counts[routine] - 1)
        found = [{r: accumulation.runs(record, r) for r in range(3)} for record in records]
        assert found == expected


def test_buffers_that_are_added_to_and_reset_together_share_one_tally():
    accumulation, records = Accumulation(), [Record() for _ in range(150)]
    accumulation.add(1, records)
    tally, version = accumulation.common(records), accumulation.version
    assert tally is not None
    for _ in range(5):
        accumulation.reset(records)
        accumulation.add(1, records)
        accumulation.add(2, records)
    assert accumulation.common(records) is tally
    assert accumulation.version == version
    assert tally.runs == {1: 1, 2: 1}


@pytest.mark.parametrize("change", ["add", "reset", "write"])
def test_a_buffer_that_is_treated_alone_leaves_the_tally_of_the_others(change):
    ledger, records = Ledger(), [Record() for _ in range(3)]
    accumulation = ledger.accumulation
    accumulation.add(1, records)
    before = accumulation.version
    if change == "write":
        ledger.write(records[0])
    else:
        act = {"add": lambda one: accumulation.add(1, one), "reset": accumulation.reset}[change]
        act(records[:1])
    assert accumulation.version > before
    assert accumulation.common(records) is None
    found = [accumulation.runs(record, 1) for record in records]
    assert found == [2 if change == "add" else 0, 1, 1]


def test_nothing_is_noted_of_resets_where_nothing_was_ever_added():
    accumulation, records = Accumulation(), [Record() for _ in range(3)]
    accumulation.reset(records)
    assert accumulation.version == 0
    assert [record.tally for record in records] == [None] * 3
