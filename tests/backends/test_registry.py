"""Backends by name: what is asked of each, and which one is taken."""

import os
import subprocess
import sys
import types
from dataclasses import fields
from typing import Any

import pytest

import workbench as wb
from tests.refusal import refused
from workbench.backends import graphics
from workbench.backends.facts import HardwareLimits
from workbench.backends.host import host_capabilities, processor
from workbench.backends.interpreter.backend import Interpreter
from workbench.backends.registry import (
    DRIVERS,
    ORDER,
    Driver,
    backend_facts,
    driver,
    first_available,
    is_unavailable,
)


class Runtime(types.SimpleNamespace):
    """As much of CuPy's view of a driver as is asked for, with two devices."""

    is_hip = False
    current = 0

    def getDeviceCount(self):
        return 2

    def getDevice(self):
        return self.current

    def setDevice(self, ordinal):
        self.current = ordinal

    def memGetInfo(self):
        return (1000 + self.current, 2000)

    def getDeviceProperties(self, ordinal):
        return {
            "name": b"Device X" if ordinal == 0 else b"Device Y",
            "major": 9,
            "maxThreadsPerBlock": 512,
            "sharedMemPerBlock": 65536,
            "warpSize": 64 if self.is_hip else 32,
            "pciBusID": 7,
        }


@pytest.fixture
def cupy(monkeypatch):
    """Install a driver that answers; return it."""

    def install(runtime):
        module: Any = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setattr(graphics.util, "find_spec", lambda name: object())
        return runtime

    return install


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setattr(graphics.util, "find_spec", lambda name: None)


# -- which one is taken


def failing(fault):
    def open_(ordinal, threads):
        raise fault

    return Driver(open=open_, facts=backend_facts("cpu"), properties=lambda: ())


def unavailable(text):
    return failing(wb.BackendUnavailable(text, remedy="none"))


WORKS = Driver(
    open=lambda ordinal, threads: Interpreter(),
    facts=backend_facts("interpreter"),
    properties=lambda: (),
)


def test_the_first_that_is_available_is_taken():
    drivers = {"a": unavailable("no a"), "b": WORKS, "c": failing(AssertionError("never asked"))}
    taken = first_available(order=("a", "b", "c"), drivers=drivers)
    assert type(taken) is Interpreter


def test_none_available_lists_what_was_tried_and_why():
    drivers = {"a": unavailable("no card"), "b": unavailable("no driver")}
    with refused(
        wb.BackendUnavailable, "tried a (no card), b (no driver)", remedy="install what one"
    ):
        first_available(order=("a", "b"), drivers=drivers)


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("cudaErrorECCUncorrectable"), AssertionError("broken"), KeyboardInterrupt()],
    ids=["driver", "assertion", "interrupt"],
)
def test_only_unavailability_moves_on_to_the_next(fault):
    drivers = {"a": failing(fault), "b": WORKS}
    assert not is_unavailable(fault)
    with pytest.raises(type(fault)) as caught:
        first_available(order=("a", "b"), drivers=drivers)
    assert caught.value is fault


def test_unavailability_is_one_kind_of_error_and_not_its_relatives():
    assert is_unavailable(wb.BackendUnavailable("no card", remedy="buy one"))
    assert not is_unavailable(wb.ExecutionError("not yet", remedy="wait"))
    assert not is_unavailable(RuntimeError("unavailable"))


def test_a_configured_backend_is_taken_and_its_errors_are_kept():
    assert type(first_available(configured="interpreter")) is Interpreter
    with refused(wb.BackendUnavailable, "Metal", remedy="Context.cpu"):
        first_available(configured="metal")


def test_the_order_is_that_of_the_fastest_and_every_name_in_it_is_known():
    assert ORDER == ("metal", "cuda", "hip", "cpu")
    assert set(ORDER) | {"interpreter"} == set(DRIVERS)


def test_a_name_that_is_none_is_refused_with_the_nearest():
    for ask in (driver, backend_facts):
        with refused(
            wb.ConfigurationError, "no backend `cudaa`", "nearest is `cuda`", remedy="`hip`"
        ):
            ask("cudaa")


# -- what is missing


def test_without_cupy_both_graphics_backends_name_the_package(no_cupy):
    for kind, remedy in (("cuda", "training-workbench[gpu]"), ("hip", "ROCm")):
        with refused(wb.BackendUnavailable, "`cupy`, which is not installed", remedy=remedy):
            driver(kind).open(0, None)
        assert driver(kind).properties() == ()
        assert driver(kind).identity(0) is None
        assert driver(kind).memory(0) is None
        assert driver(kind).limits(0) == HardwareLimits()


@pytest.mark.parametrize("is_hip", [False, True])
def test_cupy_of_the_other_build_is_named(cupy, is_hip):
    cupy(Runtime()).is_hip = is_hip
    other = ("hip", "HIP", "CUDA") if not is_hip else ("cuda", "CUDA", "HIP")
    kind, wanted, built = other
    with refused(
        wb.BackendUnavailable, f"a CuPy built for {wanted}", f"built for {built}", remedy="install"
    ):
        driver(kind).open(0, None)


@pytest.mark.parametrize("name", ["cudaErrorNoDevice", "cudaErrorInsufficientDriver"])
def test_a_driver_without_devices_is_unavailable(cupy, name):
    def count():
        raise RuntimeError(f"{name}: said the driver")

    cupy(Runtime()).getDeviceCount = count
    with refused(wb.BackendUnavailable, name, remedy="nvidia-smi"):
        driver("cuda").open(0, None)
    assert driver("cuda").properties() == ()


def test_a_driver_that_is_there_and_fails_is_not_unavailable(cupy):
    def count():
        raise RuntimeError("cudaErrorInitializationError")

    cupy(Runtime()).getDeviceCount = count
    with pytest.raises(RuntimeError, match="cudaErrorInitializationError") as caught:
        driver("cuda").open(0, None)
    assert not is_unavailable(caught.value)


def test_a_device_that_the_driver_does_not_know_is_refused_with_how_many_there_are(cupy):
    cupy(Runtime())
    with refused(
        wb.BackendUnavailable, "no CUDA device 2: the driver knows 2", remedy="a number below 2"
    ):
        driver("cuda").open(2, None)


def test_metal_is_never_available_and_says_why(monkeypatch):
    with refused(wb.BackendUnavailable, "needs macOS", f"{sys.platform}", remedy="Context.cpu"):
        driver("metal").open(0, None)
    monkeypatch.setattr(graphics.sys, "platform", "darwin")
    with refused(wb.BackendUnavailable, "no Metal renderer yet", remedy="Context.cpu"):
        driver("metal").open(0, None)


def test_processors_are_one_device():
    for name in ("cpu", "interpreter"):
        with refused(wb.BackendUnavailable, "device 1", "are device 0", remedy="threads"):
            driver(name).open(1, None)


# -- what a driver says


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_properties_limits_identity_and_memory_come_from_the_driver(cupy, kind):
    runtime = cupy(Runtime())
    runtime.is_hip = kind == "hip"
    first, second = driver(kind).properties()
    assert (first.name, first.ordinal, second.ordinal) == (f"{kind}:0", 0, 1)
    assert first.attributes["model"] == "Device X"
    assert first.attributes["maxThreadsPerBlock"] == "512"
    warp = 64 if kind == "hip" else 32
    assert driver(kind).limits(0) == HardwareLimits(512, 65536, 2**31 - 1, warp)
    identity = driver(kind).identity(1)
    assert identity is not None
    assert dict(identity)["model"] == "Device Y"
    assert driver(kind).identity(2) is None
    assert driver(kind).memory(1) == (1001, 2000)
    assert runtime.current == 0
    assert driver(kind).memory(5) is None


# -- the host


def test_the_host_is_described_in_a_fixed_order_without_importing_any_device():
    program = (
        "import sys\n"
        "from workbench.backends.host import host_capabilities\n"
        "print(host_capabilities())\n"
        "assert not {'cupy', 'numba', 'torch'} & set(sys.modules)\n"
    )
    paths = os.pathsep.join(sys.path)
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert said == repr(host_capabilities())
    names = [name for name, _ in host_capabilities()]
    assert len(set(names)) == len(names)
    assert {"processor", "features", "numba", "cupy", "cuda headers", "rocm headers"} <= set(names)
    assert all(value for name, value in host_capabilities() if name != "features")


@pytest.mark.parametrize(
    ("machine", "said"), [("x86_64", "count as 0"), ("riscv64", "computed with")]
)
def test_the_host_says_what_becomes_of_subnormal_numbers(monkeypatch, machine, said):
    monkeypatch.setattr("platform.machine", lambda: machine)
    processor.cache_clear()
    try:
        assert dict(host_capabilities())["subnormal numbers"] == said
    finally:
        processor.cache_clear()


def test_a_header_tree_that_appears_is_seen(monkeypatch, tmp_path):
    monkeypatch.setenv("ROCM_HOME", str(tmp_path))
    assert dict(host_capabilities())["rocm headers"] == "absent"
    header = tmp_path / "include" / "hip" / "hip_runtime.h"
    header.parent.mkdir(parents=True)
    header.touch()
    assert dict(host_capabilities())["rocm headers"] == str(tmp_path)


def test_the_processor_is_who_it_is_and_the_same_for_both_that_run_on_it():
    compiled, interpreted = (driver(name).identity(0) for name in ("cpu", "interpreter"))
    assert compiled is not None
    assert interpreted is not None
    assert compiled[0] == ("device", "cpu:0")
    assert compiled[1:] == interpreted[1:]
    assert set(processor()) <= set(compiled)
    assert "numba" in dict(compiled)
    assert driver("cpu").identity(1) is None


def test_the_processor_has_no_limits_of_a_workgroup_and_does_not_tell_free_memory():
    assert driver("cpu").limits(0) == HardwareLimits()
    assert all(getattr(driver("cpu").limits(0), f.name) is None for f in fields(HardwareLimits))
    assert driver("cpu").memory(0) is None
    (device,) = driver("cpu").properties()
    assert device.name == "cpu:0"
    assert int(device.attributes["processors"]) >= 1


def test_facts_tell_backends_apart_by_what_they_can():
    assert backend_facts("cpu").makes_code
    assert not backend_facts("interpreter").makes_code
    assert backend_facts("cuda").tells_memory
    assert not backend_facts("cpu").tells_memory
    assert all(DRIVERS[name].facts.frees_memory for name in DRIVERS)
