"""Subnormal numbers count as 0 in what a runner runs, and nowhere else."""

import platform
import re
import signal
import threading
from itertools import pairwise

import numpy as np
import pytest

from workbench_kernels import LaunchPlan, Runner, flushes_subnormals, optimised_text
from workbench_kernels.float_mode import float_register, running_mode
from workbench_kernels.kinds import buffers_of
from workbench_kernels.language import LIBRARY_CALLS
from workbench_kernels.numba_front import llvm_text
from workbench_kernels.untyped import llvm_binding

REGISTER = float_register()
known = pytest.mark.skipif(REGISTER is None, reason="no control register is known here")
TINY = np.float32(1e-39)

HALVE = "p0[lo] = p0[lo] * f32(0.5)"
NOTE = "p0[lo] = float_mode()"
# A row long enough for every helper to take one of many.
SLOWLY = f"""
total = 0
for i in range(20000):
    total = i64_xor(total * 3, i)
p1[lo] = total
{NOTE}
"""
THIRD = "p0[lo] = f32(1.0) / p0[lo]"


@pytest.fixture
def control():
    return np.zeros(2, np.int64)


@pytest.fixture(scope="module")
def mode_of(bench):
    """Read the control register of the thread that asks, or set it."""

    def ask(mode=None):
        seen = np.zeros(1, np.int64)
        bench(NOTE if mode is None else "set_float_mode(args[1])", [seen], *([mode] * bool(mode)))
        return int(seen[0])

    ask()  # compiled here, so that no thread of a test has to
    ask(running_mode(keep_subnormals=True))
    return ask


def planned(bench, body, arrays, rows):
    """Return a plan of one stage in which row ``r`` has ``lo = r``, and what keeps it alive."""
    address = bench.address(body, [array.dtype.name for array in arrays])
    block = bench.block(arrays)
    table = np.array([[address, block.ctypes.data, row, row + 1] for row in range(rows)])
    return LaunchPlan(table, np.array([[0, rows]])), block


def halved(bench, runner, control):
    values = np.full(8, TINY)
    plan, _block = planned(bench, HALVE, [values], 8)
    runner.run(plan, 1, control)
    return values


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_runner_counts_subnormals_as_zero_where_the_processor_can(
    bench, kernel_store, control, threads
):
    assert np.float32(TINY * np.float32(0.5)) != 0
    values = halved(bench, Runner(threads, store=kernel_store), control)
    assert bool((values == 0).all()) == flushes_subnormals()
    assert flushes_subnormals() == (
        platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    )


def test_a_runner_that_keeps_them_computes_with_them(bench, kernel_store, control):
    values = halved(bench, Runner(2, store=kernel_store, keep_subnormals=True), control)
    np.testing.assert_array_equal(values, TINY * np.float32(0.5))


def test_a_kernel_that_is_called_by_itself_computes_with_them(bench):
    values = np.full(1, TINY)
    bench(HALVE, [values])
    assert values[0] == TINY * np.float32(0.5)


@known
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 64])
def test_the_caller_gets_its_mode_back(bench, kernel_store, control, mode_of, threads, rows):
    seen, before = np.zeros(rows, np.int64), mode_of()
    plan, _block = planned(bench, NOTE, [seen], rows)
    Runner(threads, store=kernel_store).run(plan, 3, control)
    assert set(seen.tolist()) == {running_mode()}
    assert mode_of() == before != running_mode()


@known
def test_the_caller_gets_its_mode_back_when_a_run_is_stopped_or_refused(
    bench, kernel_store, control, mode_of
):
    before, values = mode_of(), np.full(4, TINY)
    plan, _block = planned(bench, HALVE, [values], 4)
    runner = Runner(2, store=kernel_store)
    with pytest.raises(ValueError, match="contiguous int64"):
        runner.run(plan, 1, np.zeros((4, 2), np.int64)[:, 0])
    assert mode_of() == before
    control[0] = 1
    assert runner.run(plan, 5, control) == 0
    assert mode_of() == before
    np.testing.assert_array_equal(values, TINY)


@known
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_caller_gets_its_mode_back_when_a_run_is_interrupted(
    bench, kernel_store, mode_of, threads
):
    before, control = mode_of(), np.zeros(2, np.int64)
    seen, work = np.zeros(2, np.int64), np.zeros(2, np.int64)
    plan, _block = planned(bench, SLOWLY, [seen, work], 2)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    stopper = threading.Timer(0.1, control.__setitem__, (0, 1))
    try:
        stopper.start()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            Runner(threads, store=kernel_store).run(plan, 2**50, control)
    finally:
        signal.signal(signal.SIGALRM, old)
        stopper.join()
    assert control[1] > 0
    assert set(seen.tolist()) == {running_mode()}
    assert mode_of() == before


@known
def test_helpers_compute_in_that_mode_and_have_their_own_again_when_they_sleep(
    bench, kernel_store, control, mode_of
):
    rows, outside = 300, {}

    def note(frame, event, argument):
        # Called as a helper goes to sleep and wakes, in the helper itself.
        outside.setdefault(threading.current_thread().name, []).append(mode_of())

    seen, work = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    plan, _block = planned(bench, SLOWLY, [seen, work], rows)
    runner = Runner(3, store=kernel_store)
    threading.setprofile(note)
    try:
        for _ in range(5):
            runner.run(plan, 1, control)
            assert set(seen.tolist()) == {running_mode()}
            seen[:] = 0
    finally:
        threading.setprofile(None)
    helpers = {name: modes for name, modes in outside.items() if "workbench kernels" in name}
    assert len(helpers) == 2
    assert all(len(modes) > 5 for modes in helpers.values())
    assert {mode for modes in helpers.values() for mode in modes} == {mode_of()}


def in_a_thread_of_its_own(action):
    found = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


@known
@pytest.mark.parametrize("threads", [1, 2])
def test_how_the_caller_rounds_changes_no_bit(bench, kernel_store, control, mode_of, threads):
    assert REGISTER is not None
    runner = Runner(threads, store=kernel_store)
    towards_zero = REGISTER.standard | (3 << 13 if REGISTER.in_memory else 3 << 22)
    happened = 63  # x86 keeps flags of what happened in these bits
    numbers = np.linspace(3, 4, 50, dtype=np.float32)

    def thirds():
        values = numbers.copy()
        plan, _block = planned(bench, THIRD, [values], 50)
        runner.run(plan, 1, control)
        return values.tobytes()

    def other():
        mode_of(towards_zero)
        found = thirds()
        return found, (np.float32(1) / numbers).tobytes(), mode_of() & ~happened

    usual = thirds()
    found, alone, mode = in_a_thread_of_its_own(other)
    assert found == usual != alone
    assert mode == towards_zero & ~happened


@known
def test_a_caller_that_counts_them_as_zero_itself_goes_on_doing_so(
    bench, kernel_store, control, mode_of
):
    def run():
        mode_of(running_mode())
        values = halved(bench, Runner(1, store=kernel_store, keep_subnormals=True), control)
        return values, np.full(1, TINY) * np.float32(0.5)

    ours, callers = in_a_thread_of_its_own(run)
    np.testing.assert_array_equal(ours, TINY * np.float32(0.5))
    assert callers[0] == 0


# Sums, a product by halves, a quotient and a root, on numbers around the smallest normal one.
MIXED = """
total = f32(0.0)
for i in range(lo * 50, lo * 50 + 50):
    p0[i] = p0[i] * f32(0.9) + p1[i] * f32(0.5)
    total = reassoc_add(total, sqrt(fabs(p0[i])) * sqrt(fabs(p1[i] / f32(3.0))))
p2[lo] = total
"""


@pytest.mark.parametrize("threads", [2, 3])
def test_numbers_around_the_smallest_normal_one_are_the_same_bits_on_more_threads(
    bench, kernel_store, control, threads
):
    def results(count):
        chance = np.random.default_rng(3)
        exponents = chance.uniform(-44, -36, (2, 1000))
        a, b = (chance.choice([-1, 1], 1000) * 10.0**e for e in exponents)
        arrays = [a.astype(np.float32), b.astype(np.float32), np.zeros(20, np.float32)]
        plan, _block = planned(bench, MIXED, arrays, 20)
        Runner(count, store=kernel_store).run(plan, 30, control)
        return arrays

    for one, more in zip(results(1), results(threads), strict=True):
        assert one.any()
        assert one.tobytes() == more.tobytes()


@known
def test_what_decays_becomes_zero_instead_of_stopping_at_the_smallest_number(
    bench, kernel_store, control
):
    def decayed(**options):
        values = np.ones(4, np.float32)
        plan, _block = planned(bench, "p0[lo] = p0[lo] * f32(0.9)", [values], 4)
        Runner(1, store=kernel_store, **options).run(plan, 5000, control)
        return values

    assert 0 < decayed(keep_subnormals=True).max() < 1e-44
    np.testing.assert_array_equal(decayed(), 0.0)


# -- what the optimiser may assume, and the C library ---------------------------------------------

NEGATIVE = """
for i in range(lo, hi):
    below = p0[i] < f32(0.0) and p0[i] > -f32(inf)
    p1[i] = select(below, f32(1.0), f32(0.0))
"""


@known
def test_a_comparison_is_not_made_a_test_of_bits(bench, kernel_store, control):
    values, found = np.full(67, -TINY), np.zeros(67, np.float32)
    bench(NEGATIVE, [values, found], hi=67)
    np.testing.assert_array_equal(found, 1.0)
    address, block = bench.address(NEGATIVE, ["float32"] * 2), bench.block([values, found])
    plan = LaunchPlan(np.array([[address, block.ctypes.data, 0, 67]]), np.array([[0, 1]]))
    Runner(1, store=kernel_store).run(plan, 1, control)
    np.testing.assert_array_equal(found, 0.0)


FEW = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 2e3, 1e-5, np.inf, -np.inf, np.nan]


def flushed(values):
    is_small = np.abs(values) < np.finfo(values.dtype).smallest_normal
    return np.where(is_small, np.copysign(0, values), values).astype(values.dtype)


@known
@pytest.mark.parametrize("name", sorted(LIBRARY_CALLS))
def test_a_library_function_takes_a_subnormal_operand_as_zero_or_as_it_is(
    bench, kernel_store, control, name
):
    _, kind, count = LIBRARY_CALLS[name]
    dtype = np.float32 if kind.bits == 32 else np.float64
    tiny = np.finfo(dtype).smallest_normal / 7
    few = np.array([*FEW, tiny, -tiny, 3 * tiny, tiny / 1000], dtype)
    x, y = (side.ravel().copy() for side in np.meshgrid(few, few))
    call = f"p2[i] = {name}(p0[i], p1[i])" if count == 2 else f"p2[i] = {name}(p0[i])"
    body = f"for i in range(lo, hi):\n    {call}"
    address = bench.address(body, [x.dtype.name] * 3)

    def run(x, y):
        result = np.zeros_like(x)
        block = bench.block([x, y, result])
        plan = LaunchPlan(np.array([[address, block.ctypes.data, 0, len(x)]]), np.array([[0, 1]]))
        Runner(1, store=kernel_store).run(plan, 1, control)
        return result

    exact = np.zeros_like(x)
    bench(body, [x, y, exact], hi=len(x))
    found, fits = run(x, y), np.full(len(x), False)
    for other in (run(flushed(x), flushed(y)), run(flushed(x), y), run(x, flushed(y))):
        fits |= (found == other) | (np.isnan(found) & np.isnan(other))
    for other in (exact, flushed(exact)):
        fits |= np.isclose(found, other, rtol=4 * np.finfo(dtype).eps, atol=0, equal_nan=True)
    assert fits.all(), (x[~fits][0], y[~fits][0], found[~fits][0], exact[~fits][0])


@known
@pytest.mark.parametrize("name", ["log_f64", "log2_f64", "log10_f64", "logf"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_logarithm_of_a_subnormal_number_is_that_of_zero(
    bench, kernel_store, control, name, sign
):
    dtype = np.float32 if name == "logf" else np.float64
    values = np.full(1, sign * np.finfo(dtype).smallest_normal / 7, dtype)
    plan, _block = planned(bench, f"p0[lo] = {name}(p0[lo])", [values], 1)
    Runner(1, store=kernel_store).run(plan, 1, control)
    assert values[0] == -np.inf


# -- other processors -----------------------------------------------------------------------------


@pytest.fixture
def on(monkeypatch):
    """Take this machine for another."""
    return lambda machine: monkeypatch.setattr(platform, "machine", lambda: machine)


def test_a_processor_that_is_not_known_keeps_its_mode(on, source_of):
    on("riscv64")
    assert float_register() is None
    assert not flushes_subnormals()
    assert running_mode() == running_mode(keep_subnormals=True) == 0
    body = "p0 = pointer_0(args[0])\np0[0] = float_mode()\nset_float_mode(args[1])"
    text = optimised_text(source_of(body), ["int64"])
    assert "csr" not in text
    assert "fpcr" not in text
    assert re.search(r"store i64 0, ptr", text)


def test_on_arm_the_control_register_is_read_set_and_set_back(on, source_of):
    on("arm64")
    assert flushes_subnormals()
    assert running_mode() == 1 << 24
    body = """
    before = float_mode()
    set_float_mode(args[0])
    call_kernel(args[1], args[2], lo, hi)
    set_float_mode(before)
    """
    llvm = llvm_binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine()
    text = llvm_text(source_of(body), buffers_of(()), "kernel")
    text = re.sub(r'(target triple = ").*(")', rf"\g<1>{triple}\2", text)
    text = re.sub(r'(target datalayout = ").*(")', rf"\g<1>{machine.target_data}\2", text)
    assembly = machine.emit_assembly(llvm.parse_assembly(text))
    places = [
        assembly.index(found)
        for found in re.findall(r"\tmrs\tx\d+, FPCR|\tmsr\tFPCR, x\d+|\tblr\tx\d+", assembly)
    ]
    assert len(places) == 4
    assert all(first < second for first, second in pairwise(places))
