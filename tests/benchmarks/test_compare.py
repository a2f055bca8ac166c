import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import compare as comparison
from tests.benchmarks.compare import (
    Order,
    Row,
    Samples,
    compare,
    depth_report,
    launch,
    main,
    noise_report,
    table,
)
from tests.benchmarks.contender import BLOCK_STEPS, CONTENDERS, OURS, Contender, find
from tests.benchmarks.measurement import (
    BLOCK_STEPS_MIN,
    BLOCKS_MIN,
    CALIBRATION_STEPS,
    Load,
    block_length,
    timed_blocks,
)
from tests.benchmarks.reference import (
    TOLERANCE,
    disagreement,
    loss_and_grads,
    reference_losses,
)
from tests.benchmarks.workloads import WORKLOADS, Missing, Problem, Workload, draw

SMALL = Workload("small", (4, 6, 5, 3), batch=8, batches=12)
EXPECTED = reference_losses(draw(SMALL))


def measured(order: Order, *, step_us: float = 100.0, losses: list[float] | None = None):
    """What a process with nothing amiss prints."""
    wanted = EXPECTED if losses is None else losses
    return {
        "version": "1.0",
        "import_s": 0.5,
        "first_s": 0.1 if order.first_step_only else 0.9,
        "losses": wanted[:1] if order.first_step_only else wanted,
        "block_us": [] if order.first_step_only else [step_us + 1, step_us, step_us + 2],
        "peak_mb": 123.4,
        "others": None if order.first_step_only else 0.25,
    }


def find_tiny() -> Workload:
    work = comparison.find_work("tiny_mlp")
    assert isinstance(work, Workload)
    return work


def row(contender: str, median_us: float | None = None, **rest: Any) -> Row:
    return Row("small", contender, median_us=median_us, first_cold_s=0.5, **rest)


# What is trained


@pytest.mark.parametrize("work", [w for w in WORKLOADS if isinstance(w, Workload)], ids=str)
def test_the_first_batches_do_not_depend_on_how_many_are_drawn(work):
    few, more = draw(work, batches=2), draw(work, batches=3)
    np.testing.assert_array_equal(few.rows, more.rows[:2])
    np.testing.assert_array_equal(few.labels, more.labels[:2])
    for left, right in zip(few.weights, more.weights, strict=True):
        np.testing.assert_array_equal(left, right)


def test_batches_differ_and_each_is_aligned_and_contiguous():
    problem = draw(Workload("aligned", (16, 8, 3), batch=16, batches=5))
    assert len({batch.tobytes() for batch in problem.rows}) == 5
    for batch in (*problem.rows, *problem.labels):
        assert batch.flags.c_contiguous
        assert batch.ctypes.data % 64 == 0
    assert (problem.rows.dtype, problem.labels.dtype) == (np.float32, np.int32)
    assert set(np.unique(problem.labels)) == {0, 1, 2}


def test_the_reference_gradient_is_that_of_the_loss():
    problem = draw(SMALL)
    params = [array.astype(np.float64) for array in (*problem.weights, *problem.biases)]
    rows, labels = problem.rows[0].astype(np.float64), problem.labels[0]
    _, grads = loss_and_grads(params, rows, labels)
    for param, grad in zip(params, grads, strict=True):
        for at in np.ndindex(*param.shape):
            kept, step = param[at], 1e-6
            param[at] = kept + step
            above, _ = loss_and_grads(params, rows, labels)
            param[at] = kept - step
            below, _ = loss_and_grads(params, rows, labels)
            param[at] = kept
            assert (above - below) / (2 * step) == pytest.approx(grad[at], abs=1e-8)


def test_the_first_reference_step_moves_each_parameter_by_the_learning_rate():
    # At the first step the corrected moments are g and g*g, so Adam moves by lr * sign(g).
    problem = draw(Workload("one_layer", (4, 3), batch=8, batches=1))
    params = [array.astype(np.float64) for array in (*problem.weights, *problem.biases)]
    rows = problem.rows[0].astype(np.float64)
    _, grads = loss_and_grads(params, rows, problem.labels[0])
    moved = [param - 1e-3 * np.sign(grad) for param, grad in zip(params, grads, strict=True)]
    loss, _ = loss_and_grads(moved, rows, problem.labels[0])
    assert reference_losses(problem, 2)[1] == pytest.approx(loss, rel=1e-6)


def test_reference_losses_fall_on_one_batch():
    losses = reference_losses(draw(SMALL, batches=1), 50)
    assert losses[-1] < losses[0] - 0.02


# Whether it was computed


def test_losses_within_the_tolerance_agree():
    assert disagreement([loss * (1 + 0.9 * TOLERANCE) for loss in EXPECTED], EXPECTED) is None


@pytest.mark.parametrize("wrong", [EXPECTED[3] * (1 + 1.1 * TOLERANCE), math.nan, math.inf])
def test_one_wrong_loss_is_named_with_its_step(wrong):
    losses = [*EXPECTED[:3], wrong, *EXPECTED[4:]]
    assert f"step 4 has loss {wrong:.6g}" in str(disagreement(losses, EXPECTED))


def test_too_few_losses_disagree():
    assert "9 losses instead of 10" in str(disagreement(EXPECTED[:9], EXPECTED))


@pytest.mark.parametrize("flaw", ["rate", "frozen", "batch"])
def test_the_check_notices_a_training_that_goes_wrong(flaw, monkeypatch):
    problem = draw(SMALL)
    if flaw == "batch":
        problem = Problem(SMALL, problem.weights, problem.biases, problem.rows[:1], problem.labels)
    else:
        monkeypatch.setattr(
            "tests.benchmarks.reference.LEARNING_RATE", 1.2e-3 if flaw == "rate" else 0.0
        )
    assert disagreement(reference_losses(problem), EXPECTED) is not None


# How long a process measures


@pytest.mark.parametrize(
    ("calibration_s", "steps"),
    [(1e-6, BLOCK_STEPS), (0.06, 100), (100.0, BLOCK_STEPS_MIN)],
)
def test_a_block_takes_a_third_of_a_second_within_limits(calibration_s, steps):
    assert block_length(calibration_s) == steps


def test_whole_blocks_are_all_of_one_length(monkeypatch):
    monkeypatch.setattr("tests.benchmarks.measurement.TIMED_S", 0.0)
    asked: list[int] = []
    blocks = timed_blocks(lambda n: asked.append(n) or np.ones(n), whole_blocks=True)
    assert asked == [BLOCK_STEPS] * (1 + BLOCKS_MIN)
    assert len(blocks) == BLOCKS_MIN
    assert min(blocks) > 0


def test_other_blocks_are_calibrated_first(monkeypatch):
    monkeypatch.setattr("tests.benchmarks.measurement.TIMED_S", 0.0)
    asked: list[int] = []
    timed_blocks(lambda n: asked.append(n) or np.ones(n), whole_blocks=False)
    assert asked[0] == CALIBRATION_STEPS
    assert len(asked) == 2 + BLOCKS_MIN


@pytest.mark.parametrize("losses", [np.full(BLOCK_STEPS, np.nan), np.ones(3)])
def test_a_block_that_does_not_train_is_not_timed(losses):
    with pytest.raises(RuntimeError, match="losses for 1000 steps"):
        timed_blocks(lambda _: losses, whole_blocks=True)


def test_peak_memory_is_what_the_process_held_at_most():
    code = (
        "from tests.benchmarks.measurement import peak_mb\n"
        "before = peak_mb(); held = b'1' * 64_000_000; del held; print(before, peak_mb())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=comparison.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(float, said.stdout.split())
    assert before < 60  # nothing of what this process holds, with numpy and pytest
    assert after - before == pytest.approx(64, abs=4)


def test_what_others_keep_busy_is_the_rest_of_the_machine():
    before, after = Load(10.0, 3.0, 50.0), Load(14.0, 7.0, 60.0)
    assert after.others_since(before) == pytest.approx((10 - 4) / 4)
    assert Load(14.0, 7.0, None).others_since(before) is None


# What is made of it


def test_contenders_take_turns_and_start_warm_where_they_keep_compiled_code():
    turns: list[tuple[str, bool]] = []

    def note(order: Order):
        turns.append((order.contender.name, order.first_step_only))
        return measured(order)

    compare(SMALL, [OURS, find("torch")], rounds=2, threads=1, launch=note)
    assert turns == [("ours", False), ("ours", True), ("torch", False)] * 2


def test_a_warm_start_shares_the_folder_of_its_cold_start_and_only_that():
    caches: list[Path] = []

    def note(order: Order):
        caches.append(order.cache)
        kernel = order.cache / "kernel"
        assert kernel.exists() == order.first_step_only
        kernel.touch()
        return measured(order)

    compare(SMALL, [OURS], rounds=2, threads=1, launch=note)
    assert caches[0] == caches[1] != caches[2] == caches[3]
    assert not any(cache.exists() for cache in caches)


def test_a_row_has_medians_over_rounds_and_the_least_of_all_blocks():
    speeds = iter([100.0, 0, 300.0, 0, 200.0, 0])
    [found] = compare(
        SMALL,
        [OURS],
        rounds=3,
        threads=1,
        launch=lambda order: measured(order, step_us=next(speeds)),
    )
    assert (found.median_us, found.min_us) == (201, 100)
    assert (found.first_cold_s, found.first_warm_s) == (0.9, 0.1)
    assert (found.import_s, found.peak_mb, found.others, found.error) == (0.5, 123.4, 0.25, None)


def test_wrong_losses_keep_their_figures_and_are_told():
    halved = [loss / 2 for loss in EXPECTED]
    [found] = compare(
        SMALL, [OURS], rounds=1, threads=1, launch=lambda order: measured(order, losses=halved)
    )
    assert "computes another thing" in str(found.error)
    assert "WRONG: computes another thing" in table([found])
    assert "computes another thing" in json.loads(found.as_json())["error"]


def test_a_missing_contender_is_asked_once_and_told():
    asked: list[Order] = []
    rows = compare(
        SMALL,
        [OURS, find("torch")],
        rounds=3,
        threads=1,
        launch=lambda order: (
            measured(order)
            if order.contender is OURS
            else asked.append(order) or {"missing": "torch is not installed"}
        ),
    )
    assert len(asked) == 1
    assert rows[0].median_us == 101
    assert json.loads(rows[1].as_json()) == {
        "work": "small",
        "contender": "torch",
        "missing": "torch is not installed",
    }


def test_a_json_line_has_the_agreed_fields():
    figures: dict[str, Any] = {
        "median_us": 4.25,
        "min_us": 4.0,
        "first_cold_s": 2.5,
        "first_warm_s": 0.125,
        "import_s": 0.5,
        "peak_mb": 150.0,
    }
    line = json.loads(Row("tiny_mlp", "ours", **figures).as_json())
    assert line == {"work": "tiny_mlp", "contender": "ours", **figures}


def test_a_figure_that_was_not_measured_is_null():
    assert json.loads(row("torch").as_json())["first_warm_s"] is None


def test_the_table_says_how_many_times_as_fast_ours_is():
    lines = table([row("ours", 4.0), row("jax", 50.0, peak_mb=200.0)]).splitlines()
    assert lines[0].split()[-2:] == ["ours", "is"]
    assert lines[1].split() == ["ours", "4.0", "-", "0.50", "-", "-", "-", "-", "1.00x"]
    assert lines[2].split() == ["jax", "50.0", "-", "0.50", "-", "-", "200", "-", "12.50x"]


def test_the_table_has_no_ratio_without_ours():
    lines = table([Row("small", "ours", missing="not yet"), row("jax", 50.0)]).splitlines()
    assert lines[1] == "ours        missing: not yet"
    assert lines[2].split()[-1] == "-"


def test_the_depth_report_divides_the_first_steps():
    rows = [Row("layers4", "ours", first_cold_s=0.8), Row("layers48", "ours", first_cold_s=1.0)]
    assert "1.25 times" in str(depth_report(rows))
    assert depth_report(rows[:1]) is None


def test_a_machine_that_is_not_quiet_is_told():
    quiet, busy = row("ours", 4.0, others=0.02), row("torch", 900.0, others=0.75)
    assert noise_report([quiet, row("jax")]) is None
    assert "up to 0.75 processors" in str(noise_report([quiet, busy]))


# The program


def test_missing_workloads_are_lines_of_their_own(capsys):
    absent = [work for work in WORKLOADS if isinstance(work, Missing)]
    status = main(["--json", *(work.name for work in absent)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert lines == [
        {"work": work.name, "contender": "ours", "missing": work.reason} for work in absent
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["tiny"], "no work is called tiny; there are tiny_mlp, digits_mlp"),
        (["--rounds", "0"], "at least 1 is needed"),
        (["--threads", "100000"], "there are"),
        (["--threads", "0"], "--threads is 0"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments, problem, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err


def test_a_failing_contender_makes_the_status_1(monkeypatch, capsys):
    monkeypatch.setattr(
        comparison, "compare", lambda *_, **__: [Row("tiny_mlp", "ours", error="exit status 3")]
    )
    assert main(["tiny_mlp"]) == 1
    assert "WRONG: exit status 3" in capsys.readouterr().out


def test_a_library_that_is_not_installed_is_missing(tmp_path, monkeypatch):
    absent = Contender("torch", "torch_eager", "torch", keeps_compiled=False)
    # Python runs this file first; it makes the library look absent.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = launch(Order(find_tiny(), absent, 1, tmp_path, first_step_only=True))
    assert found == {"missing": "torch is not installed"}


def test_a_process_that_fails_is_an_error_with_its_last_words(tmp_path):
    unknown = Contender("nobody", "nothing", "json", keeps_compiled=False)
    found = launch(Order(find_tiny(), unknown, 1, tmp_path, first_step_only=True))
    assert "exit status" in found["error"]
    assert "nobody" in found["error"]


def test_contenders_have_the_agreed_names():
    assert [contender.name for contender in CONTENDERS] == ["ours", "torch", "jax", "jax_scan"]
    assert Samples().go_on
