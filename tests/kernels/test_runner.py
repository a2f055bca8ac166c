"""Launch plans: order, moves, stopping, and threads that never change a bit."""

import gc
import os
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from workbench_kernels import LaunchPlan, Runner

# Adds its word args[1] to every element of [lo, hi), in a way that does not commute.
MIX = """
for i in range(lo, hi):
    p0[i] = p0[i] * f32(0.75) + f32(args[1])
"""


@pytest.fixture(scope="module")
def runners(kernel_store):
    return {threads: Runner(threads, store=kernel_store) for threads in (1, 2, 4)}


@pytest.fixture
def control():
    return np.zeros(2, np.int64)


class Program:
    """A plan over one array, made from lists of (word, lo, hi) rows; one list is one stage."""

    def __init__(self, bench, stages, size, body=MIX):
        self.array = np.zeros(size, np.float32)
        address = bench.address(body, ["float32"])
        rows, table, self.blocks = [], [], []
        for stage in stages:
            table.append([len(rows), len(stage)])
            for word, lo, hi in stage:
                block = bench.block([self.array], word)
                self.blocks.append(block)
                rows.append([address, block.ctypes.data, lo, hi])
        self.plan = LaunchPlan(np.array(rows), np.array(table))


def _cut(word, size, parts):
    edges = [size * part // parts for part in range(parts + 1)]
    return [(word, lo, hi) for lo, hi in pairwise(edges)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_stages_run_in_order_and_rows_all_run(bench, runners, control, threads):
    stages = [_cut(1, 100, 5), [(2, 0, 100)], _cut(3, 100, 2), [(4, 0, 50)], [(5, 50, 100)]]
    program = Program(bench, stages, 100)
    assert runners[threads].run(program.plan, 3, control) == 3
    expected = np.zeros(100, np.float32)
    for _ in range(3):
        for word in (1, 2, 3):
            expected = expected * np.float32(0.75) + np.float32(word)
        expected[:50] = expected[:50] * np.float32(0.75) + np.float32(4)
        expected[50:] = expected[50:] * np.float32(0.75) + np.float32(5)
    np.testing.assert_array_equal(program.array, expected)
    assert list(control) == [0, 3]


def test_any_number_of_threads_gives_the_same_bits_over_many_stages(bench, runners, control):
    stages = [_cut(word, 257, 2 + word % 7) for word in range(20)]
    results = []
    for threads in (1, 2, 4):
        program = Program(bench, stages, 257)
        assert runners[threads].run(program.plan, 1000, control) == 1000
        results.append(program.array.copy())
    assert np.unique(results[0]).size == 1
    for other in results[1:]:
        np.testing.assert_array_equal(other.view(np.int32), results[0].view(np.int32))


# One round of a scrambling that makes every element depend on what another row wrote before.
SCRAMBLE = """
for i in range(lo, hi):
    p1[i] = i64_add(i64_mul(p0[(i * 7 + 3) % 64], 6364136223846793005), 1442695040888963407)
"""


@pytest.mark.parametrize("threads", [2, 4])
def test_a_stage_sees_all_that_the_stage_before_it_wrote(bench, runners, control, threads):
    here, there = np.arange(64), np.zeros(64, np.int64)
    address = bench.address(SCRAMBLE, ["int64", "int64"])
    blocks = [bench.block(pair) for pair in ((here, there), (there, here))]
    rows, stages = [], []
    for stage in range(20):
        cuts = _cut(0, 64, 1 + stage * 5 % 17)
        stages.append([len(rows), len(cuts)])
        rows += [[address, blocks[stage % 2].ctypes.data, lo, hi] for _, lo, hi in cuts]
    plan = LaunchPlan(np.array(rows), np.array(stages))
    assert runners[threads].run(plan, 1000, control) == 1000
    expected, source = np.arange(64, dtype=np.uint64), (np.arange(64) * 7 + 3) % 64
    for _ in range(20_000):
        expected = expected[source] * np.uint64(6364136223846793005)
        expected += np.uint64(1442695040888963407)
    np.testing.assert_array_equal(here, expected.astype(np.int64))


def test_every_row_runs_exactly_once_a_step(bench, runners, control):
    body = "p0[lo] = p0[lo] + f32(1.0)"
    program = Program(bench, [[(0, row, 0) for row in range(64)]] * 5, 64, body)
    for steps in (1, 999):
        runners[4].run(program.plan, steps, control)
    np.testing.assert_array_equal(program.array, 5000.0)


def test_moved_words_follow_the_step_counted_from_first(bench, runners, control):
    seen = np.zeros(10, np.int64)
    address = bench.address("p0[args[1]] = args[2]", ["int64"])
    block = bench.block([seen], -1, -1)
    words = block.ctypes.data + 8 * np.arange(3)
    plan = LaunchPlan(
        np.array([[address, words[0], 0, 0]]),
        np.array([[0, 1]]),
        np.array([[words[1], 0, 1], [words[2], 1000, -3]]),
    )
    assert runners[2].run(plan, 4, control, first=3) == 4
    np.testing.assert_array_equal(seen, [0, 0, 0, 991, 988, 985, 982, 0, 0, 0])
    assert control[1] == 7


def test_a_stop_word_set_before_prevents_every_step(bench, runners):
    program = Program(bench, [[(1, 0, 4)]], 4)
    control = np.array([1, 17])
    assert runners[1].run(program.plan, 5, control) == 0
    assert list(control) == [1, 17]
    assert not program.array.any()


@pytest.mark.parametrize("steps", [0, -3])
def test_no_steps_are_no_work(bench, runners, control, steps):
    program = Program(bench, [_cut(1, 4, 2)], 4)
    assert runners[2].run(program.plan, steps, control) == 0
    assert not program.array.any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("parts", [1, 2])
def test_another_thread_stops_a_long_call_at_once(bench, runners, control, threads, parts):
    program = Program(bench, [_cut(1, 1000, parts)], 1000)
    waits_s = []
    for _ in range(3):
        control[:] = 0
        stopped_at = []

        def stop(stopped_at=stopped_at):
            time.sleep(0.1)
            stopped_at.append(time.perf_counter())
            control[0] = 1

        stopper = threading.Thread(target=stop)
        stopper.start()
        steps = runners[threads].run(program.plan, 2**50, control)
        waits_s.append(time.perf_counter() - stopped_at[0])
        stopper.join()
        assert 0 < steps == control[1]
    assert min(waits_s) < 0.05


def test_progress_can_be_read_while_a_call_runs(bench, runners, control):
    program = Program(bench, [_cut(1, 1000, 2)], 1000)
    worker = threading.Thread(target=runners[2].run, args=(program.plan, 2**50, control))
    worker.start()
    seen = [int(control[1]) for _ in range(20) if time.sleep(0.005) is None]
    control[0] = 1
    worker.join(timeout=5)
    assert not worker.is_alive()
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]


def test_calls_from_two_threads_take_turns(bench, runners):
    programs = [Program(bench, [_cut(1, 64, 4)] * 3, 64) for _ in range(2)]
    controls = [np.zeros(2, np.int64) for _ in range(2)]

    def run(program, control):
        for _ in range(200):
            runners[2].run(program.plan, 5, control)

    threads = [
        threading.Thread(target=run, args=pair) for pair in zip(programs, controls, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(programs[0].array, programs[1].array)
    assert controls[0][1] == controls[1][1] == 5


def test_a_runner_of_one_thread_and_a_serial_plan_start_no_threads(bench, kernel_store, control):
    before = threading.active_count()
    serial, parallel = Program(bench, [[(1, 0, 4)]], 4), Program(bench, [_cut(1, 4, 2)], 4)
    Runner(1, store=kernel_store).run(parallel.plan, 2, control)
    Runner(3, store=kernel_store).run(serial.plan, 2, control)
    assert threading.active_count() == before


def test_dropping_a_runner_ends_its_threads(bench, kernel_store, control):
    before = threading.active_count()
    runner = Runner(3, store=kernel_store)
    runner.run(Program(bench, [_cut(1, 4, 2)], 4).plan, 2, control)
    assert threading.active_count() == before + 2
    del runner
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_an_idle_runner_uses_no_processor_time(bench, runners, control):
    program = Program(bench, [_cut(1, 64, 4)], 64)
    runners[4].run(program.plan, 100, control)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_runs_with_threads_of_its_own(python):
    printed = python(
        """
        import os, warnings
        import numpy as np
        import workbench_kernels as wk
        source = "def kernel(args, lo, hi):\\n    p0 = pointer_0(args[0])\\n    p0[lo] = p0[lo] + 1"
        [kernel] = wk.shared_store().kernels([wk.KernelText(source, ("int64",))])
        values = np.zeros(4, np.int64)
        block = np.array([values.ctypes.data])
        rows = np.array([[kernel.address, block.ctypes.data, row, 0] for row in range(4)])
        plan = wk.LaunchPlan(rows, np.array([[0, 4]]))
        runner = wk.Runner(2)
        runner.run(plan, 1000, np.zeros(2, np.int64))
        warnings.simplefilter("ignore")  # Python warns of forking with threads: that is the test
        child = os.fork()
        runner.run(plan, 1000, np.zeros(2, np.int64))
        if child == 0:
            os._exit(0 if (values == 2000).all() else 1)
        print(os.waitpid(child, 0)[1], values.tolist())
        """
    )
    assert printed == "0 [2000, 2000, 2000, 2000]\n"


def test_a_process_ends_while_its_runner_still_runs(python):
    printed = python(
        """
        import threading, time
        import numpy as np
        import workbench_kernels as wk
        source = "def kernel(args, lo, hi):\\n    p0 = pointer_0(args[0])\\n    p0[lo] = p0[lo] + 1"
        [kernel] = wk.shared_store().kernels([wk.KernelText(source, ("int64",))])
        values = np.zeros(4, np.int64)
        block = np.array([values.ctypes.data])
        rows = np.array([[kernel.address, block.ctypes.data, row, 0] for row in range(4)])
        plan = wk.LaunchPlan(rows, np.array([[0, 4]]))
        runner = wk.Runner(2)
        arguments = (plan, 2**60, np.zeros(2, np.int64))
        threading.Thread(target=runner.run, args=arguments, daemon=True).start()
        time.sleep(0.2)
        print(bool(values.all()))
        """
    )
    assert printed == "True\n"


def test_a_busy_machine_slows_a_runner_down_in_proportion(bench, runners, control, python):
    program = Program(bench, [_cut(1, 4000, 4)] * 50, 4000)

    def seconds():
        start = time.perf_counter()
        runners[2].run(program.plan, 400, control)
        return time.perf_counter() - start

    seconds()
    alone = min(seconds() for _ in range(5))
    spinner = threading.Thread(
        target=python,
        args=("import time\nend = time.time() + 2\nwhile time.time() < end: pass",),
    )
    spinner.start()
    time.sleep(0.5)
    shared = min(seconds() for _ in range(3))
    spinner.join()
    # A second process on two cores may cost up to 2.5 times in the long run; threads that wait for
    # one another by spinning would cost 10 and more.
    assert shared < 6 * alone


@pytest.mark.parametrize("threads", [0, -1])
def test_a_runner_needs_a_thread(kernel_store, threads):
    with pytest.raises(ValueError, match=f"at least 1 thread, not {threads}"):
        Runner(threads, store=kernel_store)


@pytest.mark.parametrize(
    "control", [np.zeros(1, np.int64), np.zeros(4, np.int32), np.zeros((4, 4), np.int64)[:, 0]]
)
def test_control_words_of_another_shape_or_type_are_refused(bench, runners, control):
    program = Program(bench, [[(1, 0, 4)]], 4)
    with pytest.raises(ValueError, match="2 contiguous int64 words"):
        runners[1].run(program.plan, 1, control)


ROWS = np.array([[8, 8, 0, 1], [8, 8, 1, 2]])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((ROWS[:, :3], [[0, 1]]), r"rows: int64 of shape \(n, 4\).*\(2, 3\)"),
        ((ROWS, [[0, 3]]), "stage 0 takes 3 rows from row 0 on, of 2"),
        ((ROWS, [[0, 1], [2, 1]]), "stage 1 takes 1 rows from row 2 on"),
        ((ROWS, [[0, 1], [0, 0]]), "stage 1 takes 0 rows"),
        ((ROWS, [[-1, 1]]), "from row -1 on"),
        ((ROWS, [[1, 2**63 - 1]]), "stage 0 takes 9223372036854775807 rows"),
        ((ROWS * [0, 1, 1, 1], [[0, 1]]), "address is null"),
        ((ROWS, [[0, 1]], [[0, 0, 0]]), "moves: the address"),
        ((ROWS, [[0, 1]], [[12, 0, 0]]), "multiple of 8"),
    ],
)
def test_a_plan_that_leaves_its_tables_is_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        LaunchPlan(*(np.array(table) for table in tables))


def test_a_table_of_another_dtype_is_refused():
    with pytest.raises(ValueError, match=r"stages: int64 .* not int32"):
        LaunchPlan(ROWS, np.array([[0, 1]], "int32"))


def test_a_plan_keeps_its_own_tables():
    stages = np.array([[0, 2]])
    plan = LaunchPlan(ROWS, stages)
    stages[0, 1] = 100
    assert plan.stages[0, 1] == 2
    assert plan.is_parallel
    with pytest.raises(ValueError, match="read-only"):
        plan.rows[0, 0] = 1
