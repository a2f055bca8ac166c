"""Whatever a training is made of and wherever it is broken off, it ends as if it had not been."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.interruptions import OPTIMIZERS, RATES, Job, broken_off, go_on, result
from workbench.train.events import Hook

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
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


def process(path, hook="EPOCH_END", number=0):
    """Train in a process of its own; return its exit code and what it left behind, if it ended."""
    script = Path(__file__).with_name("interruptions.py")
    ended = subprocess.run(
        [sys.executable, str(script), str(path), hook, str(number)],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )
    last = ended.stdout.rpartition("\n")[2]
    return ended.returncode, json.loads(last) if ended.returncode == 0 else ended.stderr


def survives(folder, kills):
    code, expected = process(folder / "whole.ckpt")
    assert code == 0, expected
    assert isinstance(expected, dict)
    assert expected["stop"][2] == "EarlyStopping(loss)"
    path = folder / "killed.ckpt"
    killed = 0
    for hook, number in kills:
        code, said = process(path, hook, number)
        assert code in (0, -signal.SIGKILL), said
        killed += code != 0
    found = process(path)[1]
    assert found == expected
    return killed


def test_a_process_that_is_killed_ends_with_the_best_parameters_and_where_it_was_to_stop(tmp_path):
    assert survives(tmp_path, [("BATCH_END", 5), ("EVAL_END", 2)]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_processes_that_are_killed_anywhere_end_as_one_that_was_not(seed, tmp_path):
    drawn = random.Random(seed)
    hooks = [hook.name for hook in BREAKABLE]
    kills = [(drawn.choice(hooks), drawn.randint(1, 9)) for _ in range(4)]
    assert survives(tmp_path, kills) > 0
