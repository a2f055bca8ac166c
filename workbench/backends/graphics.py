"""Graphics processors, as far as they can be asked: NVIDIA's and AMD's through CuPy, and Apple's.

In: the CuPy that is installed, if one is. Out: what is missing, as `BackendUnavailable`, or what
its driver says. Invariant: CuPy is imported by whoever asks for one of its devices, never before;
only what means "this machine has no such device" is `BackendUnavailable`: a driver that is there
and fails is an error of its own.
"""

from __future__ import annotations

import sys
from importlib import import_module, util
from typing import Any, Final, NoReturn

from workbench.backends.facts import DeviceProperties, HardwareLimits, Identity
from workbench.errors import BackendUnavailable

_ABSENT: Final = ("cudaErrorNoDevice", "cudaErrorInsufficientDriver", "hipErrorNoDevice")
"""What a driver's runtime says where there is no device, or no driver at all."""

_ASKED: Final[tuple[str, ...]] = (
    "major",
    "minor",
    "multiProcessorCount",
    "clockRate",
    "memoryClockRate",
    "memoryBusWidth",
    "totalGlobalMem",
    "sharedMemPerBlock",
    "maxThreadsPerBlock",
    "warpSize",
    "gcnArchName",
)

_TITLES: Final = {"cuda": "CUDA", "hip": "HIP"}
_PACKAGES: Final = {
    "cuda": "install `training-workbench[gpu]` (NVIDIA), or use `Context.cpu()`",
    "hip": "install CuPy's ROCm build (AMD), or use `Context.cpu()`",
}
_CHECKS: Final = {"cuda": "nvidia-smi", "hip": "rocminfo"}


def open_metal(ordinal: int) -> NoReturn:
    """Say why there is no Metal backend here.

    Raises
    ------
    BackendUnavailable
        Always.
    """
    if sys.platform == "darwin":
        problem = f"Metal device {ordinal}: this version has no Metal renderer yet"
    else:
        problem = f"the Metal backend needs macOS, and this system is {sys.platform}"
    raise BackendUnavailable(
        problem, remedy="use `Context.cpu()`, which runs on Apple's processors, too"
    )


def open_graphics(kind: str, ordinal: int) -> NoReturn:
    """Say what is missing for ``kind``, which is ``"cuda"`` or ``"hip"``.

    Raises
    ------
    BackendUnavailable
        If the package, the driver, the device or the kernels are missing.
    """
    title, runtime = _TITLES[kind], _runtime(kind)
    devices = _count(kind, runtime)
    if not 0 <= ordinal < devices:
        raise BackendUnavailable(
            f"there is no {title} device {ordinal}: the driver knows {devices}",
            remedy=f"give a number below {devices}" if devices else "use `Context.cpu()`",
        )
    raise BackendUnavailable(
        f"{title} device {ordinal} of {devices}: this version has no {title} renderer yet",
        remedy="use `Context.cpu()`",
    )


def graphics_properties(kind: str) -> tuple[DeviceProperties, ...]:
    """Return what the driver says of each device; none where there is no driver."""
    try:
        runtime = _runtime(kind)
        devices = _count(kind, runtime)
    except BackendUnavailable:
        return ()
    found: list[DeviceProperties] = []
    for ordinal in range(devices):
        said: dict[str, Any] = runtime.getDeviceProperties(ordinal)
        model = said.get("name", b"")
        name = model.decode() if isinstance(model, bytes) else str(model)
        asked = {key: _text(said[key]) for key in _ASKED if key in said}
        found.append(DeviceProperties(f"{kind}:{ordinal}", ordinal, {"model": name, **asked}))
    return tuple(found)


def graphics_limits(kind: str, ordinal: int) -> HardwareLimits:
    """Return the limits of a workgroup, all None where there is no such device."""
    for each in graphics_properties(kind):
        if each.ordinal == ordinal:
            said = each.attributes
            return HardwareLimits(
                threads=int(said.get("maxThreadsPerBlock", 1024)),
                shared_bytes=int(said.get("sharedMemPerBlock", 49152)),
                groups=2**31 - 1,
                warp=int(said.get("warpSize", 32)),
            )
    return HardwareLimits()


def graphics_identity(kind: str, ordinal: int) -> Identity | None:
    """Return who the device is; None where it cannot be asked, so that nothing is kept for it."""
    for each in graphics_properties(kind):
        if each.ordinal == ordinal:
            return (("device", each.name), *each.attributes.items())
    return None


def graphics_memory(kind: str, ordinal: int) -> tuple[int, int] | None:
    """Return the free and the total bytes, of all processes; None where there is no device."""
    try:
        runtime = _runtime(kind)
        if not 0 <= ordinal < _count(kind, runtime):
            return None
    except BackendUnavailable:
        return None
    before = runtime.getDevice()
    runtime.setDevice(ordinal)
    try:
        free, total = runtime.memGetInfo()
    finally:
        runtime.setDevice(before)
    return int(free), int(total)


def _runtime(kind: str) -> Any:
    title = _TITLES[kind]
    if util.find_spec("cupy") is None:
        raise BackendUnavailable(
            f"the {title} backend needs the package `cupy`, which is not installed",
            remedy=_PACKAGES[kind],
        )
    runtime = import_module("cupy").cuda.runtime
    built_for = "hip" if getattr(runtime, "is_hip", False) else "cuda"
    if built_for != kind:
        raise BackendUnavailable(
            f"the {title} backend needs a CuPy built for {title}, and this one is built for "
            f"{_TITLES[built_for]}",
            remedy=_PACKAGES[kind],
        )
    return runtime


def _count(kind: str, runtime: Any) -> int:
    try:
        return int(runtime.getDeviceCount())
    except Exception as fault:
        # The driver's own errors have no common base; what they are called tells them apart.
        if any(name in str(fault) for name in _ABSENT):
            raise BackendUnavailable(
                f"the {_TITLES[kind]} driver has no device: {fault}",
                remedy=f"check the driver with `{_CHECKS[kind]}`, or use `Context.cpu()`",
            ) from fault
        raise


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
