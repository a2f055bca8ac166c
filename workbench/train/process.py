"""Which process wrote a file, and whether it still runs.

In: nothing, or what a process once said of itself.  Out: a `Process`.  Invariant: a process that is
gone is never taken for alive because another one got its number: its start is compared as well.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, final

__all__ = ["Process", "this_process"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@final
@dataclass(frozen=True, slots=True)
class Process:
    """A process, told from all others that there were or will be.

    Attributes
    ----------
    pid
        Its number, which another process may get once it is gone.
    started
        When it started, in a unit of the system's own; empty where the system does not say.
    host
        The machine's name.
    boot
        Which start of the machine; empty where the system does not say.
    """

    pid: int
    started: str
    host: str
    boot: str

    def presence(self) -> Literal["alive", "gone", "unknown"]:
        """Return whether it still runs; ``"unknown"`` if it is of another machine."""
        here = this_process()
        if self.host != here.host:
            return "unknown"
        if self.boot != here.boot:
            return "gone"
        if not here.started:
            return _presence_by_number(self.pid)
        started = _started(self.pid)
        return "alive" if started and started == self.started else "gone"


def this_process() -> Process:
    """Return the process that asks."""
    # A forked child is another process with the same memory, this cache included.
    return _process(os.getpid())


@lru_cache(maxsize=1)
def _process(pid: int) -> Process:
    return Process(pid, _started(pid), *_machine())


@lru_cache(maxsize=1)
def _machine() -> tuple[str, str]:
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return socket.gethostname(), boot


def _started(pid: int) -> str:
    """Return the start of a process in clock ticks since the boot; empty if there is none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field is a name in parentheses that may hold anything; the state follows it.
    fields = line.rpartition(")")[2].split()
    dead = fields[0] in "ZX"
    return "" if dead else fields[19]


def _presence_by_number(pid: int) -> Literal["alive", "gone", "unknown"]:
    if os.name != "posix":  # elsewhere a signal 0 may end the process
        return "unknown"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    return "alive"
