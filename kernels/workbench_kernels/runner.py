"""Runs launch plans in native code, on one thread or several.

The step loop and the loop of a helping thread are themselves kernel texts: compiled once, kept in
the same cache, called with the interpreter lock released.

How threads share a stage. All words that threads share lie in one block, each group on cache lines
of its own. The calling thread *publishes* a stage of several rows: where its rows are, then
(release) a new LIMIT of tickets. Every thread, the caller too, *claims* a row by moving NEXT from
one ticket to the following with a compare-and-swap, runs it, and adds to DONE; the caller goes on
when DONE has reached LIMIT. Tickets only grow. So a thread that comes late, or that the system has
put aside, holds nobody up unless it holds a row; and one that wakes with an old ticket in its hand
fails its swap, since a stage ends only after all its tickets are claimed and done. What a thread
read of a stage before a swap that succeeds is therefore that stage's.

In which mode the processor computes. Both texts set the floating-point mode of their thread when
they begin, to the same value, and what it was when they end: there subnormal numbers count as 0
(see :mod:`~workbench_kernels.float_mode`). Nothing in between can raise or leave, and no Python
runs, so nobody else ever computes in that mode.

Invariant: which thread runs a row, and the mode its caller was in, have no influence on what is
computed.
"""

import ctypes
import os
import sys
import threading
import weakref
from typing import Final, final

import numpy as np

from workbench_kernels.float_mode import running_mode
from workbench_kernels.load import LoadedKernel
from workbench_kernels.object_code import KernelText
from workbench_kernels.plan import LaunchPlan, Table
from workbench_kernels.store import KernelStore, shared_store

# Words of the shared block: 0 OPEN, 16 LIMIT with 17 and 18 (ticket to row, address of the rows),
# 32 NEXT, 48 DONE. Groups are 128 bytes apart, since processors fetch cache lines in pairs.
_LINE: Final = 16
_SHARED_WORDS: Final = 4 * _LINE

# How often an idle thread looks again before it offers its core to others: 30 to 150 us, since the
# pause between two looks takes 10 to 50 ns.
_SPINS: Final = 3000

_RUN: Final = KernelText(
    """
def kernel(args, lo, hi):
    rows = pointer_0(args[0])
    stages = pointer_1(args[1])
    stage_count = args[2]
    moves = pointer_2(args[3])
    move_count = args[4]
    control = pointer_3(args[5])
    shared = pointer_4(args[6])
    threads = args[7]
    spins = args[8]
    give_way = args[9]
    mode_before = float_mode()
    set_float_mode(args[10])
    limit = atomic_load(shared, 16)
    step = lo
    while step < hi and atomic_load(control, 0) == 0:
        for move in range(move_count):
            word = pointer_5(moves[3 * move])
            word[0] = moves[3 * move + 1] + step * moves[3 * move + 2]
        for stage in range(stage_count):
            first = stages[2 * stage]
            count = stages[2 * stage + 1]
            if count == 1 or threads == 1:
                for row in range(4 * first, 4 * (first + count), 4):
                    call_kernel(rows[row], rows[row + 1], rows[row + 2], rows[row + 3])
            else:
                offset = first - limit
                limit = limit + count
                atomic_store(shared, 17, offset)
                atomic_store(shared, 18, args[0])
                atomic_store(shared, 16, limit)
                finished = 0
                ticket = atomic_load(shared, 32)
                while ticket < limit:
                    if compare_exchange(shared, 32, ticket, ticket + 1):
                        mine = 4 * (ticket + offset)
                        call_kernel(rows[mine], rows[mine + 1], rows[mine + 2], rows[mine + 3])
                        finished = finished + 1
                    ticket = atomic_load(shared, 32)
                idle = 0
                if atomic_add(shared, 48, finished) + finished != limit:
                    while atomic_load(shared, 48) != limit:
                        idle = idle + 1
                        if idle > spins:
                            yield_processor(give_way)
                        else:
                            pause()
        step = step + 1
        atomic_store(control, 1, step)
    set_float_mode(mode_before)
    args[11] = step - lo
""",
    ("int64",) * 6,
)

_HELP: Final = KernelText(
    """
def kernel(args, lo, hi):
    shared = pointer_0(args[0])
    spins = args[1]
    give_way = args[2]
    mode_before = float_mode()
    set_float_mode(args[3])
    idle = spins
    while idle <= spins or atomic_load(shared, 0) != 0:
        limit = atomic_load(shared, 16)
        ticket = atomic_load(shared, 32)
        if ticket < limit:
            offset = atomic_load(shared, 17)
            rows = pointer_1(atomic_load(shared, 18))
            if compare_exchange(shared, 32, ticket, ticket + 1):
                mine = 4 * (ticket + offset)
                call_kernel(rows[mine], rows[mine + 1], rows[mine + 2], rows[mine + 3])
                dummy = atomic_add(shared, 48, 1)
            idle = 0
        else:
            idle = idle + 1
            if idle > spins:
                yield_processor(give_way)
            else:
                pause()
    set_float_mode(mode_before)
""",
    ("int64",) * 2,
)

# The signature of every kernel; called through it, ctypes releases the interpreter lock.
_Native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

_OPEN: Final = 0  # word of the shared block: whether a native call is in progress
_CONTROL: Final = 5  # words of the step loop's block, as its text numbers them
_DONE_STEPS: Final = 11


@final
class Runner:
    """Runs plans on a fixed number of threads.

    Parameters
    ----------
    threads
        At least 1: the thread that calls :meth:`run`, and helpers. Helpers sleep unless a plan with
        parallel stages runs; a runner of one thread has none.
    store
        Where the compiled step loop comes from; by default the store of the process.
    keep_subnormals
        Compute with subnormal numbers, which can take twenty times as long; by default they count
        as 0 where the processor can do that. For measuring what it is worth.

    Raises
    ------
    ValueError
        If ``threads`` is less than 1.
    """

    def __init__(
        self,
        threads: int = 1,
        *,
        store: KernelStore | None = None,
        keep_subnormals: bool = False,
    ) -> None:
        if threads < 1:
            raise ValueError(f"a runner needs at least 1 thread, not {threads}")
        self.threads = threads
        self._step_loop, self._helper = (store or shared_store()).kernels([_RUN, _HELP])
        self._native = _Native(self._step_loop.address)
        self._mode = running_mode(keep_subnormals=keep_subnormals)
        self._crew = _Crew(threads, self._helper, self._mode)
        _RUNNERS.add(self)

    def run(self, plan: LaunchPlan, steps: int, control: Table, first: int = 0) -> int:
        """Run steps ``first`` to ``first + steps - 1`` of a plan; return how many were run.

        The interpreter lock is released meanwhile. Another thread that calls :meth:`run` waits its
        turn.

        Parameters
        ----------
        plan
            What a step is.
        steps
            How many to run; 0 or fewer run none.
        control
            int64, C-contiguous, at least 2 words. Before each step, word 0 is read atomically: if
            it is not 0, no further step is begun. After step ``s``, word 1 becomes ``s + 1``.
        first
            Number of the first step, from which moved words are counted.

        Raises
        ------
        ValueError
            If ``control`` is not such an array.
        """
        crew = self._crew
        with crew.lock:
            if plan is not crew.plan or control is not crew.control:
                crew.bind(plan, control)
            if self.threads == 1 or not plan.is_parallel:
                self._native(crew.block_address, first, first + steps)
            else:
                try:
                    crew.call()
                    self._native(crew.block_address, first, first + steps)
                finally:
                    crew.release()
            return crew.block[_DONE_STEPS]

    def renew_threads(self) -> None:
        """Make new threads at the next run: a forked child inherits the words but no threads."""
        self._crew.abandon()
        self._crew = _Crew(self.threads, self._helper, self._mode)


@final
class _Crew:
    """The helping threads of one runner in one process, and the words they share with it.

    The threads hold pieces of the crew, never the crew or the runner, so that dropping the runner
    ends them; they are daemons, so that a forgotten runner does not keep the interpreter alive.
    """

    def __init__(self, threads: int, helper: LoadedKernel, mode: int) -> None:
        self.lock = threading.Lock()
        self.shared = _aligned(_SHARED_WORDS)
        shared_address, give_way = self.shared.ctypes.data, _give_way()
        constants = (shared_address, threads, _SPINS, give_way, mode)
        self.block = (ctypes.c_int64 * 12)(*(0,) * 6, *constants, 0)
        self.block_address = ctypes.addressof(self.block)
        self.plan: LaunchPlan | None = None
        self.control: Table | None = None
        self._helper_block = np.array([shared_address, _SPINS, give_way, mode], np.int64)
        self._helper = helper
        self._bells = [threading.Event() for _ in range(threads - 1)]
        self._dismissed = threading.Event()
        self._started = False
        self._finalizer = weakref.finalize(self, _dismiss, self._bells, self._dismissed)

    def bind(self, plan: LaunchPlan, control: Table) -> None:
        """Make the next call run ``plan`` under ``control``, and keep both alive."""
        if control.dtype != np.int64 or control.size < 2 or not control.flags.c_contiguous:
            raise ValueError(
                f"control: 2 contiguous int64 words are wanted, not {control.dtype} of "
                f"{control.shape}"
            )
        self.block[:_CONTROL] = list(plan.words)
        self.block[_CONTROL] = control.ctypes.data
        self.plan, self.control = plan, control

    def call(self) -> None:
        """Bring the helpers into native code."""
        if not self._started:
            self._start()
        self.shared[_OPEN] = 1
        for bell in self._bells:
            bell.set()

    def release(self) -> None:
        """Let the helpers go back to sleep."""
        self.shared[_OPEN] = 0

    def abandon(self) -> None:
        """Leave the threads alone: in a forked child there are none, and a bell may be locked."""
        self._finalizer.detach()

    def _start(self) -> None:
        for number, bell in enumerate(self._bells, 1):
            threading.Thread(
                target=_help,
                args=(
                    self._helper,
                    self._helper_block,
                    self.shared,
                    bell,
                    self._dismissed,
                ),
                name=f"workbench kernels {number}",
                daemon=True,
            ).start()
        self._started = True


def _help(
    kernel: LoadedKernel,
    block: Table,
    shared: Table,
    bell: threading.Event,
    dismissed: threading.Event,
) -> None:
    """Be a helping thread: sleep until the bell rings, help until the call is over."""
    native, address = _Native(kernel.address), block.ctypes.data
    while True:
        bell.wait()
        bell.clear()
        if dismissed.is_set():
            return
        native(address, 0, 0)


def _dismiss(bells: list[threading.Event], dismissed: threading.Event) -> None:
    dismissed.set()
    for bell in bells:
        bell.set()


def _aligned(words: int) -> Table:
    """Return zeroed int64 words that start on a cache line."""
    raw = np.zeros(words + _LINE, np.int64)
    start = -(raw.ctypes.data // 8) % _LINE
    return raw[start : start + words]


def _give_way() -> int:
    """Return the address of the system's function that offers the core to other threads."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


_RUNNERS: Final[weakref.WeakSet[Runner]] = weakref.WeakSet()


def _after_fork() -> None:
    for runner in tuple(_RUNNERS):
        runner.renew_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
