"""Whatever a training is made of and wherever it is broken off, it ends as if it had not been."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.interruptions import OPTIMIZERS, RATES, Job, broken_off, go_on, result
from workbench.train.events import Hook

BREAKABLE = [Hook.EPOCH_BEGIN, Hook.BATCH_BEGIN, Hook.BATCH_END, Hook.EVAL_END, Hook.EPOCH_END]


@st.composite
def jobs(draw):
    config = {
        "accum_steps": draw(st.sampled_from([1, 2, 3])),
        "eval_every": draw(st.sampled_from([0, 1, 2])),
        "eval_every_steps": draw(st.sampled_from([0, 1, 3])),
        "steps_per_epoch": draw(st.sampled_from([0, 3])),
        "shuffle": draw(st.booleans()),
        "batch_size": draw(st.sampled_from([5, 8])),
        "epochs": draw(st.integers(1, 5)),
        "lr": 0.05,
    }
    return Job(
        rate=draw(st.sampled_from(sorted(RATES))),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        patience=draw(st.sampled_from([None, 0, 2])),
        restore_best=draw(st.booleans()),
        best_file=draw(st.booleans()),
        every_steps=draw(st.sampled_from([0, 1, 2])),
        config=config,
    )


breaks = st.lists(
    st.tuples(
        st.sampled_from(BREAKABLE),
        st.integers(1, 12),
        st.sampled_from(["stop", "exception"]),
        st.sampled_from([10, 20, 30, 40, 50]),
    ),
    min_size=1,
    max_size=3,
)


def ends_alike(job, where):
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = Path(folder, "whole", "c.ckpt"), Path(folder, "parts", "c.ckpt")
        expected = result(*go_on(job, whole), whole)
        found = result(*broken_off(job, parts, where), parts)
    assert found == expected


@given(job=jobs(), where=breaks)
@settings(max_examples=20, deadline=None)
def test_a_training_that_is_broken_off_ends_as_one_that_was_not(job, where):
    ends_alike(job, where)


@pytest.mark.slow
@given(job=jobs(), where=breaks)
@settings(max_examples=600, deadline=None)
def test_hundreds_of_trainings_that_are_broken_off_end_as_those_that_were_not(job, where):
    ends_alike(job, where)
