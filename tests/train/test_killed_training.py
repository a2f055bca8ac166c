"""Trainings that go on in a new process, and trainings that were killed at any instant."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.train.training_digest import digest
from tests.train.training_process import KINDS, train
from workbench.train.container import open_container

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
SCRIPT = [sys.executable, str(Path(__file__).with_name("training_process.py"))]


def start(*arguments):
    return subprocess.Popen(
        [*SCRIPT, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": PATHS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process, limit_s=300):
    out, err = process.communicate(timeout=limit_s)
    assert process.returncode == 0, err
    return out.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_epochs_are_ten_a_new_process_and_ten(tmp_path, kind):
    whole, _ = train(tmp_path / "whole", 20, wb.Context.cpu(1), kind=kind)
    answer(start("until", tmp_path / "run", 10, kind))
    assert open_container(tmp_path / "run").document["state"]["epoch"] == 10
    assert answer(start("until", tmp_path / "run", 20, kind)) == digest(whole)


@pytest.mark.parametrize(("kind", "step"), [("adam", 31), ("f16", 32), ("accumulated f16", 21)])
def test_a_new_process_goes_on_from_the_middle_of_an_epoch(tmp_path, kind, step):
    whole, _ = train(tmp_path / "whole", 20, wb.Context.cpu(1), kind=kind)
    answer(start("until", tmp_path / "run", 20, kind, step))
    document = open_container(tmp_path / "run").document
    assert (document["position"]["in_epoch"], document["state"]["global_step"]) == (True, step)
    assert answer(start("until", tmp_path / "run", 20, kind)) == digest(whole)


def test_a_process_that_is_killed_leaves_a_run_that_ends_with_the_same_bytes(tmp_path):
    # One process of its own, killed whenever its file appears or changes.
    whole, _ = train(tmp_path / "whole", 2000, wb.Context.cpu(1))
    path, seen, kills, ended = tmp_path / "run", None, 0, ""
    while kills < 3:
        process = start("until", path, 2000)
        while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == seen):
            time.sleep(0.001)
        if process.poll() is not None:
            ended = answer(process)  # it was quicker than we looked
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        seen = path.stat().st_mtime_ns
        open_container(path).arrays()
    assert kills
    assert (ended or answer(start("until", path, 2000))) == digest(whole)


def kill(tmp_path, count, seed):
    said = answer(start("kills", tmp_path, count, seed), limit_s=900)
    found = json.loads(said.splitlines()[-1])  # after what the runs report
    assert found["wrong"] == []
    assert found["killed"] >= count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_thirty_kills_at_random_instants_lose_nothing(tmp_path):
    kill(tmp_path, 30, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_hundred_kills_at_random_instants_lose_nothing(tmp_path):
    kill(tmp_path, 200, seed=2)
