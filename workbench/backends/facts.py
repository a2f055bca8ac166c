"""What one may know of a backend and of its devices: capabilities, limits, properties, identity.

In: a backend's own probes. Out: small frozen records. Invariant: whoever schedules, searches or
keeps results asks for a capability by what it needs, never for the name of a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

Identity: TypeAlias = tuple[tuple[str, str], ...]
"""Who a device is, as pairs that are the same in every process on the same machine."""


@final
@dataclass(frozen=True, slots=True)
class BackendFacts:
    """Capabilities of a backend; the same on every machine, asking opens nothing.

    Attributes
    ----------
    makes_code
        Whether compiling makes machine code, which takes time and may fail.
    keeps_code
        Whether that code is kept on disk for the next process.
    runs_behind
        Whether a run returns before the device is done, so that `sync` has something to wait for.
    frees_memory
        Whether memory goes back to the device when nothing refers to it, so that a trial
        allocation leaves nothing behind.
    tells_memory
        Whether the driver says how much memory is free.
    has_host_memory
        Whether its memory can be read and written by Python as it is.
    cuts_launches
        Whether launches are cut into chunks that run side by side.
    """

    makes_code: bool
    keeps_code: bool
    runs_behind: bool
    frees_memory: bool
    tells_memory: bool
    has_host_memory: bool
    cuts_launches: bool


@final
@dataclass(frozen=True, slots=True)
class HardwareLimits:
    """The most that one workgroup may have; None where a backend binds no hardware axes.

    Attributes
    ----------
    threads
        Threads of a workgroup.
    shared_bytes
        Memory that its threads share.
    groups
        Workgroups of a launch along the first axis.
    warp
        Threads that go in lockstep.
    """

    threads: int | None = None
    shared_bytes: int | None = None
    groups: int | None = None
    warp: int | None = None


@final
@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What a driver says of one device.

    Attributes
    ----------
    name
        Kind and number, such as ``"cpu:0"``.
    ordinal
        The number.
    attributes
        What the backend chose to ask for, as text.
    """

    name: str
    ordinal: int
    attributes: Mapping[str, str]
