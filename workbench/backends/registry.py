"""All backends by name, what is known of each, and which one to take.

In: a name, or none. Out: a backend, or why there is none. Invariant: a name is looked up, never
classified by what it contains; only `BackendUnavailable` moves on from one backend to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, final

from workbench.backends.facts import BackendFacts, DeviceProperties, HardwareLimits, Identity
from workbench.backends.graphics import (
    graphics_identity,
    graphics_limits,
    graphics_memory,
    graphics_properties,
    open_graphics,
    open_metal,
)
from workbench.backends.host import processor, toolchain
from workbench.backends.interpreter.backend import Interpreter
from workbench.backends.numba_cpu.backend import NumbaCpu, kernel_store
from workbench.backends.protocol import Backend
from workbench.errors import BackendUnavailable, ConfigurationError


@final
@dataclass(frozen=True, slots=True)
class Driver:
    """One backend: how to open it, and what may be asked without opening it.

    Attributes
    ----------
    open
        Takes the number of a device, and of threads or None.
    facts
        Its capabilities.
    properties
        What is known of each device; none where there is no device.
    limits, identity, memory
        Of the device of a number: limits of a workgroup; who it is, None if it cannot be told;
        free and total bytes, None if it cannot be told.
    blames
        Takes what a launch raised: whether the routine launched is at fault, with nothing written;
        None if that cannot be told, as on a processor.
    counts
        What the backend has done in this process.
    """

    open: Callable[[int, int | None], Backend]
    facts: BackendFacts
    properties: Callable[[], tuple[DeviceProperties, ...]]
    limits: Callable[[int], HardwareLimits] = lambda ordinal: HardwareLimits()
    identity: Callable[[int], Identity | None] = lambda ordinal: None
    memory: Callable[[int], tuple[int, int] | None] = lambda ordinal: None
    blames: Callable[[BaseException], bool | None] = lambda error: None
    counts: Callable[[], Mapping[str, int]] = dict[str, int]


def _on_host(ordinal: int, made: Callable[[], Backend], name: str) -> Backend:
    if ordinal != 0:
        raise BackendUnavailable(
            f"there is no {name} device {ordinal}: all processors together are device 0",
            remedy="use device 0, and `threads` to say how many processors run a routine",
        )
    return made()


def _host_properties(kind: str) -> tuple[DeviceProperties, ...]:
    return (DeviceProperties(f"{kind}:0", 0, MappingProxyType(dict(processor()))),)


def _host_identity(kind: str, ordinal: int) -> Identity | None:
    return (("device", f"{kind}:0"), *processor(), *toolchain()) if ordinal == 0 else None


def _kernel_counts() -> Mapping[str, int]:
    store = kernel_store()
    return {
        "kernels compiled": store.compiled,
        "kernels loaded from disk": store.loaded,
        "kernels reused": store.reused,
    }


def _graphics(kind: str) -> Driver:
    return Driver(
        open=lambda ordinal, threads: open_graphics(kind, ordinal),
        facts=_GRAPHICS,
        properties=partial(graphics_properties, kind),
        limits=partial(graphics_limits, kind),
        identity=partial(graphics_identity, kind),
        memory=partial(graphics_memory, kind),
    )


_HOST: Final = BackendFacts(
    makes_code=True,
    keeps_code=True,
    runs_behind=False,
    frees_memory=True,
    tells_memory=False,
    has_host_memory=True,
    cuts_launches=True,
)
_INTERPRETED: Final = BackendFacts(
    makes_code=False,
    keeps_code=False,
    runs_behind=False,
    frees_memory=True,
    tells_memory=False,
    has_host_memory=True,
    cuts_launches=False,
)
_GRAPHICS: Final = BackendFacts(
    makes_code=True,
    keeps_code=True,
    runs_behind=True,
    frees_memory=True,
    tells_memory=True,
    has_host_memory=False,
    cuts_launches=False,
)
_METAL: Final = BackendFacts(
    makes_code=True,
    keeps_code=False,
    runs_behind=True,
    frees_memory=True,
    tells_memory=False,
    has_host_memory=True,
    cuts_launches=False,
)

DRIVERS: Final[Mapping[str, Driver]] = MappingProxyType(
    {
        "metal": Driver(
            open=lambda ordinal, threads: open_metal(ordinal),
            facts=_METAL,
            properties=lambda: (),
        ),
        "cuda": _graphics("cuda"),
        "hip": _graphics("hip"),
        "cpu": Driver(
            open=lambda ordinal, threads: _on_host(ordinal, lambda: NumbaCpu(threads), "cpu"),
            facts=_HOST,
            properties=partial(_host_properties, "cpu"),
            identity=partial(_host_identity, "cpu"),
            counts=_kernel_counts,
        ),
        "interpreter": Driver(
            open=lambda ordinal, threads: _on_host(ordinal, Interpreter, "interpreter"),
            facts=_INTERPRETED,
            properties=partial(_host_properties, "interpreter"),
            identity=partial(_host_identity, "interpreter"),
        ),
    }
)
"""Every backend by the name that a person writes."""

ORDER: Final = ("metal", "cuda", "hip", "cpu")
"""In which order `auto` looks."""


def driver(name: str) -> Driver:
    """Return the backend of that name.

    Raises
    ------
    ConfigurationError
        If there is none; the text names the nearest.
    """
    if name not in DRIVERS:
        import difflib  # only errors need it

        (nearest,) = difflib.get_close_matches(name.lower(), DRIVERS, n=1, cutoff=0.0)
        raise ConfigurationError(
            f"there is no backend `{name}`; the nearest is `{nearest}`",
            remedy=f"use one of {', '.join(f'`{known}`' for known in DRIVERS)}",
        )
    return DRIVERS[name]


def backend_facts(name: str) -> BackendFacts:
    """Return the capabilities of the backend that a person calls ``name``; opens nothing.

    Raises
    ------
    ConfigurationError
        If there is no such backend.
    """
    return driver(name).facts


def is_unavailable(fault: BaseException) -> bool:
    """Whether ``fault`` says that this machine lacks a backend, so that another may be tried.

    A driver that is there and fails, an interrupt or a failed assertion says something else.
    """
    return isinstance(fault, BackendUnavailable)


def first_available(
    threads: int | None = None,
    *,
    configured: str = "",
    order: tuple[str, ...] = ORDER,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> Backend:
    """Return the configured backend, or else the first that is available.

    Parameters
    ----------
    threads
        For a backend on this processor.
    configured
        The name of the one to take, whatever else is there; its errors are the caller's.
    order
        In which order to look where none is configured.
    drivers
        Backends by name.

    Raises
    ------
    BackendUnavailable
        If none is available; the text says of each what is missing.
    """
    if configured:
        return driver(configured).open(0, threads)
    tried: list[str] = []
    for name in order:
        try:
            return drivers[name].open(0, threads)
        except Exception as fault:  # a driver may raise anything; only absence moves on
            if not is_unavailable(fault):
                raise
            tried.append(f"{name} ({fault})")
    raise BackendUnavailable(
        f"no backend is available; tried {', '.join(tried)}",
        remedy="install what one of them needs",
    )
