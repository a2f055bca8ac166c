"""Checkpoints: what they hold, what they refuse, and that a run goes on as if nothing had been."""

import copy
import dataclasses
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, measure, new_run, rows, same_bits, step
from tests.train.training_digest import digest
from workbench.errors import DataError, ExecutionError
from workbench.train.accumulate import accumulate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.one_cycle import OneCycleRate
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.rate import CosineRate
from workbench.train.callbacks.schedule import EpochSchedule, StepSchedule
from workbench.train.checkpoint import (
    export_parameters,
    load_parameters,
    restore,
    save_checkpoint,
)
from workbench.train.container import _Source, open_container, write_container
from workbench.train.epoch_row import EpochRow
from workbench.train.history import History
from workbench.train.inspection import inspect
from workbench.train.precision import mixed_f16

TRAIN = rows(20)
VAL = rows(9, seed=1)


def small(optimizer=wb.adam, *, epochs=20, batch=4, seed=7, **config):
    """Return a run of one matrix that was never trained."""
    params = {"w": np.array([[1.0, 2.0], [3.0, 4.0]])}
    config = {"verbose": False} | config
    made = wb.Config(epochs, batch, 0.01, seed, **config)
    return wb.Run(params, optimizer(params), made, context=wb.Context.interpreter())


@pytest.fixture
def saved(tmp_path):
    """A run that stands at epoch 10, and its file."""
    run = small()
    run.load(
        {"w": np.array([[1.5, 2.5], [3.5, 4.5]])},
        dataclasses.replace(
            run.opt, m={"w": np.full((2, 2), 0.1)}, v={"w": np.full((2, 2), 0.01)}, t=np.int64(130)
        ),
    )
    state = run.state
    state.epoch, state.global_step, state.lr, state.rows = 10, 130, 0.0025, 52
    state.train_loss, state.val_loss = 0.5, 0.25
    state.val.update("loss", 0.25, 1)
    state.val.update("accuracy", 0.75, 1)
    run.measured_step = state.global_step
    state.request_stop("that is enough")
    run.history = History([EpochRow(10, 0.5, 0.0025, (("loss", 0.25), ("accuracy", 0.75)), 1.5)])
    return run, save_checkpoint(run, tmp_path / "run.safetensors", note="ten epochs")


def everything(run):
    """Return all that a restoration may change, as values that can be compared."""
    state = {f.name: getattr(run.state, f.name) for f in dataclasses.fields(run.state)}
    state["val"] = list(run.state.val.items())
    arrays = [run.params["w"].tobytes(), np.asarray(run.opt.t).tobytes()]
    return state, arrays, run.opt_leaves.structure, run.history.rows, run.in_epoch, run.meter


def test_parameters_moments_counters_and_rate_come_back(saved):
    _, path = saved
    run = small()
    restore(run, path)
    np.testing.assert_array_equal(run.params["w"], [[1.5, 2.5], [3.5, 4.5]])
    np.testing.assert_array_equal(run.opt.m["w"], np.full((2, 2), 0.1))
    np.testing.assert_array_equal(run.opt.v["w"], np.full((2, 2), 0.01))
    assert int(run.opt.t) == 130
    state = run.state
    assert (state.epoch, state.global_step, state.lr, state.rows) == (10, 130, 0.0025, 52)
    assert (state.train_loss, state.val_loss, state.seed) == (0.5, 0.25, 7)
    assert list(state.val.items()) == [("loss", 0.25), ("accuracy", 0.75)]
    assert run.history.rows[-1] == EpochRow(
        10, 0.5, 0.0025, (("loss", 0.25), ("accuracy", 0.75)), 1.5
    )


def test_the_budget_of_epochs_is_the_runs_own(saved):
    run = small(epochs=40)
    restore(run, saved[1])
    assert (run.config.epochs, run.state.epochs, run.state.epoch) == (40, 40, 10)


def test_a_saved_request_to_stop_of_a_person_is_forgotten(saved):
    assert saved[0].state.stop
    run = small()
    restore(run, saved[1])
    assert (run.state.stop, run.state.stop_reason) == (False, "")


def test_folders_are_made(saved, tmp_path):
    path = save_checkpoint(saved[0], tmp_path / "nested" / "deeper" / "x")
    run = small()
    restore(run, path)
    assert int(run.opt.t) == 130


def test_hyper_parameters_are_those_of_the_file(saved):
    run = small(lambda params: wb.adam(params, b1=0.5, b2=0.75, eps=1e-3))
    restore(run, saved[1])
    assert (run.opt.b1, run.opt.b2, run.opt.eps) == (0.9, 0.999, 1e-8)


@pytest.mark.parametrize("seed", [-1, (1 << 64) - 1])
def test_a_seed_is_its_bits(tmp_path, seed):
    path = save_checkpoint(small(seed=-1), tmp_path / "x")
    run = small(seed=seed)
    restore(run, path)
    assert run.config.seed == seed


# -- refusals


def rewritten(path, change):
    """Return a file whose document was changed by ``change``."""
    file = open_container(path)
    document = copy.deepcopy(file.document)
    change(document)
    other = path.with_name("other")
    other.unlink(missing_ok=True)
    write_container(other, file.arrays(), document)
    return other


def data(n):
    return wb.data.Dataset(np.zeros((n, 2)), np.zeros(n))


OTHERS = {
    "rows": (small, data(51), ["52 rows", "51"]),
    "optimizer": (lambda: small(wb.sgd), None, ["for adam", "uses sgd"]),
    "seed": (lambda: small(seed=8), None, ["seed 7", "seeded 8"]),
    "batch size": (lambda: small(batch=8), None, ["batch size 4", "uses 8"]),
    "drop_last": (lambda: small(drop_last=True), None, ["drop_last=False", "drop_last=True"]),
    "shuffle": (lambda: small(shuffle=False), None, ["shuffle=True", "shuffle=False"]),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_naming_both_values(saved, what):
    make, train, named = OTHERS[what]
    run = make()
    before = everything(run)
    with refused(DataError, *named):
        restore(run, saved[1], train=train)
    assert everything(run) == before


def test_a_checkpoint_of_another_format_is_refused(saved):
    path = rewritten(saved[1], lambda document: document.update(format=99))
    with refused(DataError, "format 99", "reads format 1"):
        restore(small(), path)
    with refused(DataError, "format 99"):
        inspect(path)


def test_refusals_come_in_their_order(saved):
    def change(document):
        document["format"] = 99

    wrong = small(wb.sgd, seed=8, batch=8)
    with refused(DataError, "format 99"):
        restore(wrong, rewritten(saved[1], change), train=data(51))
    with refused(DataError, "51"):
        restore(wrong, saved[1], train=data(51))
    with refused(DataError, "sgd"):
        restore(wrong, saved[1], train=data(52))
    with refused(DataError, "seeded 8"):
        restore(small(seed=8, batch=8), saved[1])
    with refused(DataError, "uses 8"):
        restore(small(batch=8, shuffle=False), saved[1])


TREES = {
    "another shape": ({"w": np.zeros((2, 3))}, ["`w`", "(2, 2)", "(2, 3)"]),
    "another type": ({"w": np.zeros((2, 2), np.float32)}, ["`w`", "float64", "float32"]),
    "one more": ({"a": np.zeros(1), "w": np.zeros((2, 2))}, ["no parameter `a`"]),
    "other names": ({"u": {"w": np.zeros((2, 2))}}, ["no parameter `u.w`"]),
    "one less": ({}, ["parameter `w`", "lacks"]),
}


@pytest.mark.parametrize("what", TREES)
def test_another_model_is_refused_naming_the_first_path_that_differs(saved, what):
    params, named = TREES[what]
    run = wb.Run(params, wb.adam(params), small().config, context=wb.Context.interpreter())
    with refused(DataError, *named):
        restore(run, saved[1])
    assert run.state.epoch == 0


def test_a_damaged_file_is_refused_and_changes_nothing(saved):
    path = saved[1]
    octets = bytearray(path.read_bytes())
    octets[-1] ^= 1
    path.write_bytes(octets)
    run = small()
    before = everything(run)
    with refused(DataError, "damaged"):
        restore(run, path)
    assert everything(run) == before


def test_the_number_of_rows_is_checked_by_fit_if_it_was_not_before(tmp_path):
    run = new_run(2)
    wb.fit(run, [], TRAIN, None, step)
    path = save_checkpoint(run, tmp_path / "x")
    resumed = new_run(3)
    restore(resumed, path)
    with refused(DataError, "20 rows", "19"):
        wb.fit(resumed, [], rows(19), None, step)
    assert [row.epoch for row in wb.fit(resumed, [], TRAIN, None, step)] == [1, 2, 3]


def test_a_run_that_trains_is_not_restored(tmp_path):
    path = save_checkpoint(new_run(), tmp_path / "x")
    faults = []

    def try_it(event):
        with pytest.raises(ExecutionError, match="is training") as caught:
            restore(event.run, path)
        faults.append(caught.value)

    wb.fit(new_run(1), [at("EPOCH_END", try_it)], TRAIN, None, step)
    assert len(faults) == 1


# -- going on


def trained(run, until=None, callbacks=()):
    if until is not None:
        callbacks = [*callbacks, at("BATCH_END", until)]
    wb.fit(run, callbacks, TRAIN, VAL, step, measure)
    return run


OPTIMIZERS = {
    "sgd": wb.sgd,
    "momentum": wb.momentum,
    "adam": wb.adam,
    "mixed": lambda params: mixed_f16(wb.adam(params), growth_interval=4),
    "accumulated": lambda params: accumulate(wb.adam(params), params, 2),
    "both": lambda params: accumulate(mixed_f16(wb.adam(params)), params, 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_epochs_are_ten_a_checkpoint_and_ten(tmp_path, name):
    whole = trained(new_run(20, optimizer=OPTIMIZERS[name]))
    first = trained(new_run(10, optimizer=OPTIMIZERS[name]))
    resumed = new_run(20, optimizer=OPTIMIZERS[name])
    restore(resumed, save_checkpoint(first, tmp_path / "x"))
    assert resumed.state.epoch == 10
    assert digest(trained(resumed)) == digest(whole)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("step_number", [1, 4, 5, 6, 7])
def test_a_checkpoint_in_the_middle_of_an_epoch_is_exact(tmp_path, name, step_number):
    whole = trained(new_run(4, optimizer=OPTIMIZERS[name]))
    path = tmp_path / "x"

    def save(event):
        if event.state.global_step == step_number:
            save_checkpoint(event.run, path)

    trained(new_run(4, optimizer=OPTIMIZERS[name]), save)
    resumed = new_run(4, optimizer=OPTIMIZERS[name])
    restore(resumed, path)
    assert (resumed.state.global_step, resumed.in_epoch) == (step_number, True)
    assert digest(trained(resumed)) == digest(whole)
    assert resumed.losses.tobytes() == whole.losses.tobytes()


@pytest.mark.parametrize("step_number", [1, 2, 3, 4, 5, 6])
def test_evaluations_within_an_epoch_are_neither_lost_nor_repeated(tmp_path, step_number):
    def judged(run, until=None):
        evaluations = at("EVAL_END", lambda e: seen.append((e.state.global_step, e.state.val_loss)))
        trained(run, until, [evaluations])

    seen = []
    whole = new_run(3, eval_every_steps=2)
    judged(whole)
    wanted, seen = seen, []
    path = tmp_path / "x"

    def save(event):
        if event.state.global_step == step_number:
            save_checkpoint(event.run, path)
            event.run.stop()

    judged(new_run(3, eval_every_steps=2), save)
    before = [each for each in seen if each[0] < step_number]
    resumed, seen = new_run(3, eval_every_steps=2), []
    restore(resumed, path)
    judged(resumed)
    assert before + seen == wanted
    assert digest(resumed) == digest(whole)


def test_a_run_that_was_stopped_in_an_epoch_goes_on_there(tmp_path):
    whole = trained(new_run(3))
    first = trained(new_run(3), lambda e: e.run.stop() if e.state.global_step == 5 else None)
    assert first.status == "stopped"
    resumed = new_run(3)
    restore(resumed, save_checkpoint(first, tmp_path / "x"))
    assert resumed.batches_done == 2
    assert digest(trained(resumed)) == digest(whole)


def test_the_time_of_an_epoch_that_was_left_is_carried(tmp_path):
    first = trained(new_run(1), lambda e: e.run.stop())
    first.carried_s = 100.0
    resumed = new_run(1)
    restore(resumed, save_checkpoint(first, tmp_path / "x"))
    (row,) = trained(resumed).history
    assert 100.0 < row.seconds < 150.0


def test_a_run_can_be_taken_back_in_place(tmp_path):
    run = trained(new_run(2))
    path = save_checkpoint(run, tmp_path / "x")
    run.config = dataclasses.replace(run.config, epochs=5)
    trained(run)
    after = digest(run)
    restore(run, path)
    assert run.state.epoch == 2
    assert digest(trained(run)) == after


def test_other_hyper_parameters_take_effect_in_a_run_that_was_compiled(tmp_path):
    slow = trained(new_run(1, optimizer=lambda params: wb.adam(params, b1=0.5)))
    path = save_checkpoint(slow, tmp_path / "x")
    run = trained(new_run(1))
    restore(run, path)
    for each in (run, slow):
        each.config = dataclasses.replace(each.config, epochs=2)
    assert digest(trained(run)) == digest(trained(slow))


def test_restoring_brings_no_loss_jump(tmp_path):
    run = trained(new_run(10))
    path = save_checkpoint(run, tmp_path / "x")
    resumed = new_run(11)
    restore(resumed, path)
    losses = trained(resumed).history.column("train_loss")
    assert losses[10] < losses[9]


def test_a_run_in_the_background_is_held_while_it_is_saved(tmp_path):
    whole = trained(new_run(200))
    run = new_run(200)
    reached = threading.Event()
    run.start([at("EPOCH_END", lambda e: reached.set())], TRAIN, VAL, step, measure)
    reached.wait()
    path = save_checkpoint(run, tmp_path / "x")
    run.wait()
    assert digest(run) == digest(whole)
    resumed = new_run(200)
    restore(resumed, path)
    assert 0 < resumed.state.global_step <= 600
    assert digest(trained(resumed)) == digest(whole)


def test_a_paused_run_is_still_paused_after_it_was_saved(tmp_path):
    run = new_run(50)
    run.start([at("EPOCH_BEGIN", lambda e: e.run.pause())], TRAIN, None, step)
    while run.status != "paused":
        time.sleep(0.001)
    save_checkpoint(run, tmp_path / "x")
    assert run.controls.is_paused
    run.stop()
    run.wait()
    assert inspect(tmp_path / "x").global_step == 0


# -- callbacks


class Counting:
    """A callback of somebody's own with something to remember."""

    def __init__(self, name="Counting"):
        self.name = name
        self.seen = {}

    def on_epoch_end(self, event):
        self.seen[str(event.epoch)] = event.loss

    def pack(self):
        return dict(self.seen)

    def unpack(self, packed):
        self.seen = dict(packed)


def stopping(patience=3):
    return EarlyStopping("accuracy", patience, higher_is_better=True)


def test_callbacks_get_their_memory_back_in_any_order(tmp_path):
    first = [Counting(), stopping(), Counting("other")]
    run = trained(new_run(3), callbacks=first)
    path = save_checkpoint(run, tmp_path / "x")
    assert inspect(path).document["callbacks"][0]["name"] == "Counting"
    second = [Counting("other"), Counting(), stopping()]
    restore(new_run(3), path, callbacks=second)
    assert second[0].seen == first[2].seen
    assert second[1].seen == first[0].seen
    assert second[2].best == first[1].best


def test_two_callbacks_of_one_name_are_told_apart_by_their_order(tmp_path):
    run = new_run()
    first = [Counting(), Counting()]
    first[0].seen, first[1].seen = {"1": 0.5}, {"1": 0.25}
    path = save_checkpoint(run, tmp_path / "x", callbacks=first)
    second = [Counting(), Counting()]
    restore(run, path, callbacks=second)
    assert [each.seen for each in second] == [{"1": 0.5}, {"1": 0.25}]


def test_memory_without_a_callback_is_missed_unless_it_is_given_up(tmp_path):
    run = trained(new_run(2), callbacks=[Counting(), stopping()])
    path = save_checkpoint(run, tmp_path / "x")
    again = new_run(2)
    with refused(DataError, "2 callbacks", "registers 1", "`Counting`"):
        restore(again, path, callbacks=[stopping()])
    with refused(DataError, "registers 0"):
        restore(again, path)
    assert again.state.epoch == 0
    restore(again, path, callbacks=None)
    assert again.state.epoch == 2


def test_a_callback_that_the_file_does_not_know_keeps_its_memory(tmp_path):
    path = save_checkpoint(trained(new_run(2)), tmp_path / "x")
    counting = Counting()
    counting.seen = {"7": 1.0}
    restore(new_run(2), path, callbacks=[counting])
    assert counting.seen == {"7": 1.0}


def test_a_callback_that_does_not_take_its_memory_leaves_all_as_they_were(tmp_path):
    class Broken(Counting):
        def unpack(self, packed):
            if packed:
                raise ValueError("no such field")

    run = trained(new_run(2), callbacks=[Counting("first"), Broken("broken")])
    path = save_checkpoint(run, tmp_path / "x")
    again, first = new_run(2), Counting("first")
    with refused(DataError, "no such field"):
        restore(again, path, callbacks=[first, Broken("broken")])
    assert first.seen == {}
    assert again.state.epoch == 0


def test_what_a_callback_cannot_say_in_plain_values_is_refused_naming_it(tmp_path):
    odd = Counting("Odd one")
    vars(odd)["pack"] = lambda: [1, 2]
    with refused(DataError, "`Odd one`", "`list`"):
        save_checkpoint(new_run(), tmp_path / "x", callbacks=[odd])
    assert list(tmp_path.iterdir()) == []


def test_patience_goes_on_where_it_was(tmp_path):
    def stubborn(patience):
        return EarlyStopping("loss", patience, higher_is_better=False, min_delta=1000.0)

    whole = trained(new_run(20), callbacks=[stubborn(5)])
    assert whole.state.epoch == 7
    watch = stubborn(5)
    first = trained(new_run(4), callbacks=[watch])
    assert watch.best.wait == 3
    path = save_checkpoint(first, tmp_path / "x")
    resumed, again = new_run(20), stubborn(5)
    restore(resumed, path, callbacks=[again])
    assert again.best.wait == 3
    assert trained(resumed, callbacks=[again]).state.epoch == 7


def test_a_plateau_that_cut_just_before_the_checkpoint_keeps_its_cut(tmp_path):
    def plateau():
        return PlateauSchedule("loss", 0.5, patience=1, higher_is_better=False, min_delta=1000.0)

    whole = trained(new_run(8), callbacks=[plateau()])
    for epochs in range(1, 8):
        mine = plateau()
        path = save_checkpoint(
            trained(new_run(epochs), callbacks=[mine]), tmp_path / "x", callbacks=[mine]
        )
        resumed, again = new_run(8), plateau()
        restore(resumed, path, callbacks=[again])
        assert digest(trained(resumed, callbacks=[again])) == digest(whole), epochs


SCHEDULES = {
    "one cycle": lambda: StepSchedule(OneCycleRate(0.05, 24)),
    "warm-up and cosine": lambda: EpochSchedule(CosineRate(0.05, 8, least=0.001, warmup=3)),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("updates", [4, 6, 14])
def test_schedules_go_on_where_they_were(tmp_path, name, updates):
    whole = trained(new_run(8), callbacks=[SCHEDULES[name]()])
    path = tmp_path / "x"

    def save(event):
        if event.state.global_step == updates:
            save_checkpoint(event.run, path)
            event.run.stop()

    trained(new_run(8), save, [SCHEDULES[name]()])
    resumed, schedule = new_run(8), SCHEDULES[name]()
    restore(resumed, path, callbacks=[schedule])
    trained(resumed, callbacks=[schedule])
    assert resumed.history.column("lr").tolist() == whole.history.column("lr").tolist()
    assert digest(resumed) == digest(whole)


# -- extras, parameters alone, inspection


def test_extras_come_back(tmp_path):
    run = new_run()
    run.extras["stream"] = {"position": 17, "scale": float("inf")}
    again = new_run()
    restore(again, save_checkpoint(run, tmp_path / "x"))
    assert again.extras == {"stream": {"position": 17, "scale": float("inf")}}


def test_parameters_alone_are_read_by_other_tools_under_their_paths(tmp_path):
    run = trained(new_run(1))
    path = export_parameters(run, tmp_path / "model.safetensors")
    found = load_file(path)
    assert sorted(found) == ["0.b", "0.w", "1.b", "1.w"]
    assert found["0.w"].tobytes() == run.params[0]["w"].tobytes()
    export_parameters(np.arange(3.0), path)
    assert load_file(path)["params"].tolist() == [0.0, 1.0, 2.0]


def test_the_parameters_of_a_checkpoint_can_be_taken_alone(tmp_path):
    first = trained(new_run(2))
    path = save_checkpoint(first, tmp_path / "x")
    run = new_run(2, seed=99, batch_size=4)
    assert load_parameters(run, path).epoch == 2
    assert run.params[0]["w"].tobytes() == first.params[0]["w"].tobytes()
    assert run.state.epoch == 0


def test_an_inspection_says_what_there_is(saved):
    made = inspect(saved[1])
    assert (made.epoch, made.global_step, made.parameter_count) == (10, 130, 4)
    assert made.metrics == {"loss": 0.25, "accuracy": 0.75}
    lines = repr(made).splitlines()
    assert lines[0].startswith("checkpoint  ")
    assert lines[1] == "note        ten epochs"
    assert lines[3] == "position    epoch 10 of 20, step 130"
    assert lines[4] == "metrics     loss 0.5000, val_loss 0.2500, val_accuracy 0.7500"
    assert lines[5] == "training    52 rows, batch size 4, seed 7, lr 0.0025"
    assert lines[6] == "optimizer   adam, b1 0.9, b2 0.999, eps 1e-08"
    assert lines[7] == "parameters  1 arrays, 4 elements"
    assert lines[-1] == "  w  float64 (2, 2)"


def test_an_inspection_tells_of_the_middle_of_an_epoch(tmp_path):
    first = trained(new_run(3), lambda e: e.run.stop() if e.state.global_step == 5 else None)
    text = repr(inspect(save_checkpoint(first, tmp_path / "x")))
    assert "epoch 1 of 3, step 5, 2 of 3 batches into the next one" in text


def test_an_inspection_loads_no_arrays(tmp_path, monkeypatch):
    path = save_checkpoint(small(), tmp_path / "x")
    header_ends = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    filled = _Source.fill

    def fill(self, start, octets):
        assert start + len(octets) <= header_ends, "it reads arrays"
        return filled(self, start, octets)

    monkeypatch.setattr(_Source, "fill", fill)
    assert inspect(path).parameter_count == 4


def test_texts_of_a_file_are_escaped(tmp_path):
    params = {"<b>": np.zeros(2)}
    run = wb.Run(params, wb.sgd(params), small().config, context=wb.Context.interpreter())
    path = save_checkpoint(run, tmp_path / "x", note="<script>alert(1)</script>\nsecond line")
    html = inspect(path)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<b>" not in html
    assert r"note        <script>alert(1)</script>\nsecond line" in repr(inspect(path))


def test_nothing_in_a_file_is_a_pickle(saved):
    octets = saved[1].read_bytes()
    length = int.from_bytes(octets[:8], "little")
    header = json.loads(octets[8 : 8 + length])
    assert set(header) > {"__metadata__", "params.w", "opt.m.w", "opt.v.w", "opt.t"}
    assert json.loads(header["__metadata__"]["workbench"])["format"] == 1
    sources = Path(wb.__file__).parent / "train"
    assert not [p for p in sources.glob("*.py") if "import pickle" in p.read_text("utf-8")]


def test_a_history_of_any_kind_comes_back(tmp_path):
    run = new_run(400)
    run.state.epoch = 299
    run.history = History(
        [
            EpochRow(1, float("nan"), 0.1, (), 0.5),
            EpochRow(3, float("inf"), 0.1, (("loss", float("nan")), ("f1", 0.5)), 0.5),
            EpochRow(4, 0.1, 1e-300, (("f1", -0.0),), 0.5),
            *[EpochRow(n, 1.0 / n, 0.1, (("loss", 2.0 / n),), 0.5) for n in range(5, 300)],
        ]
    )
    again = new_run()
    restore(again, save_checkpoint(run, tmp_path / "x"))
    assert repr(again.history.rows) == repr(run.history.rows)


def test_same_bits_is_a_comparison_that_can_fail():
    assert same_bits(trained(new_run(2)), trained(new_run(2)))
    assert digest(trained(new_run(2))) != digest(trained(new_run(2, seed=8)))
