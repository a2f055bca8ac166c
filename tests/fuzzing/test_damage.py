"""Damaged files of every kind that is read back: the library's own error, or what was written.

Each group runs in a process of its own, so that a crash or a hang is seen as one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzzing.damage import GROUPS

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))


def damaged(groups, count, seed, limit_s):
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzzing.damage"]
    done = subprocess.run(
        [*command, groups, str(count), str(seed)],
        check=False,
        env=os.environ | {"PYTHONPATH": PATHS},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    return done.returncode, done.stdout + done.stderr[-3000:]


@pytest.mark.skipif(sys.platform == "win32", reason="no alarm ends a process that hangs")
def test_thirty_damaged_files_of_each_kind_do_no_harm():
    code, said = damaged(",".join(GROUPS), 30, 0, 300)
    assert code == 0, said
    assert said.count(": 30\n") == len(GROUPS)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no alarm ends a process that hangs")
@pytest.mark.parametrize("group", GROUPS)
def test_a_thousand_damaged_files_do_no_harm(group):
    code, said = damaged(group, 1000, 1000, 1200)
    assert code == 0, said
