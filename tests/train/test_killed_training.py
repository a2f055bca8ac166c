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
from tests.train.training_process import train
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


def test_twenty_epochs_are_ten_a_new_process_and_ten(tmp_path):
    whole, _ = train(tmp_path / "whole", 20, wb.Context.cpu(1))
    answer(start("until", tmp_path / "run", 10))
    assert open_container(tmp_path / "run").document["state"]["epoch"] == 10
    assert answer(start("until", tmp_path / "run", 20)) == digest(whole)


def test_a_process_that_is_killed_leaves_a_run_that_ends_with_the_same_bytes(tmp_path):
    # One process of its own, killed whenever its file appears or changes.
    whole, _ = train(tmp_path / "whole", 2000, wb.Context.cpu(1))
    path, seen, kills = tmp_path / "run", None, 0
    while kills < 3:
        process = start("until", path, 2000)
        while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == seen):
            time.sleep(0.001)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        seen = path.stat().st_mtime_ns
        open_container(path).arrays()
    assert kills
    assert answer(start("until", path, 2000)) == digest(whole)


def kill(tmp_path, count, seed):
    found = json.loads(answer(start("kills", tmp_path, count, seed), limit_s=900))
    assert found["wrong"] == []
    assert found["killed"] >= count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_thirty_kills_at_random_instants_lose_nothing(tmp_path):
    kill(tmp_path, 30, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_hundred_kills_at_random_instants_lose_nothing(tmp_path):
    kill(tmp_path, 200, seed=2)
