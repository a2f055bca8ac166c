"""What every test shares: one Hypothesis profile, and a reason for each test that cannot run."""

import importlib
import shutil
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from tests.golden_text import check_golden

# The same examples on every machine, so that a failure is everybody's failure. Kernels compile
# inside examples, which makes the time of one example meaningless.
settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to write the golden texts instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/*.txt anew")


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares a text with the file ``tests/golden/<name>.txt``."""
    return partial(check_golden, update=bool(pytestconfig.getoption("--update-golden")))


def _chromium() -> str | None:
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None)


def _cuda_devices() -> int:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return 0
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver, or a driver without a device
        return 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine lacks the means for, saying what is missing."""
    if any(item.get_closest_marker("gpu") for item in items) and _cuda_devices() == 0:
        _skip(items, "gpu", "no CUDA device, or cupy is not installed")
    if _chromium() is None:
        _skip(items, "browser", "Chromium is not installed")


def _skip(items: list[pytest.Item], mark: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(mark):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser that tests marked ``browser`` drive."""
    path = _chromium()
    assert path is not None, "the test is not marked `browser`"
    return path
