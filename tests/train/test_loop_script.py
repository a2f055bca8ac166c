"""The tutorial of the loop as a plain script; the notebook itself runs under nbval."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EPOCH = re.compile(
    r"epoch +(\d+)/60  loss \d+\.\d{4}  lr 0\.\d{6}  val_loss \d+\.\d{4}"
    r"  val_accuracy [01]\.\d{4}  val_f1 [01]\.\d{4}"
)
TIME_LEFT = re.compile(
    r"epoch +\d+/60  \[[#.]{24}\]  loss \d+\.\d{4}  at most (under )?\d+ (s|min)( \d+ s)? left"
)
STOPPED = re.compile(
    r"stopped: accuracy has not improved for 9 evaluations \(patience 8\); "
    r"best was [01]\.\d{4} at epoch (\d+)"
)


@pytest.fixture(scope="module")
def lines():
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "notebooks" / "03_the_loop.py")],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_script_prints_a_line_for_each_epoch_until_it_stops_early(lines):
    epochs = [int(found[1]) for found in map(EPOCH.fullmatch, lines) if found]
    (stopped,) = [found for found in map(STOPPED.fullmatch, lines) if found]
    assert epochs == list(range(1, int(stopped[1]) + 10))
    assert lines.index(stopped[0]) > lines.index(next(x for x in lines if EPOCH.fullmatch(x)))


def test_the_script_says_how_long_the_rest_takes_at_most(lines):
    assert any(TIME_LEFT.fullmatch(line) for line in lines)


def test_the_script_ends_with_the_same_bits_after_a_resumption(lines):
    assert [line for line in lines if "same bits" in line] == [
        f"{name} same bits: True" for name in ("w1", "b1", "w2", "b2")
    ]
    assert "greatest difference below 1e-12: True" in lines
