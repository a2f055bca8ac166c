"""What is asked of a run and what a checkpoint puts in its place."""

import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import measure, new_run, rows, step
from workbench.errors import ConfigurationError, DataError
from workbench.train.accumulate import accumulate
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.precision import mixed_f16

TRAIN = rows(24)
VAL = rows(9, seed=1)
# Each hyper-parameter of each optimizer: how it is made, what another one asks for.
HYPER = {
    "b1": (wb.adam, 0.8),
    "b2": (wb.adam, 0.99),
    "eps": (wb.adam, 1e-6),
    "weight_decay": (wb.adam, 0.1),
    "nesterov": (lambda p, **o: wb.sgd(p, momentum=0.5, **o), True),
    "mu": (wb.momentum, 0.5),
    "growth_interval": (lambda p, **o: mixed_f16(wb.sgd(p), **o), 3),
}


def trained(path, optimizer=wb.adam, **config):
    run = new_run(2, optimizer=optimizer, **config)
    wb.fit(run, [], TRAIN, None, step)
    return save_checkpoint(run, path)


def static(run, name):
    return {n: v for node in run.opt_leaves.structure.nodes for n, v in node.static}[name]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", HYPER)
def test_a_hyper_parameter_that_a_file_replaces_is_told_and_may_be_kept(name, kept, tmp_path):
    make, asked = HYPER[name]
    path = trained(tmp_path / "x", make)
    again = new_run(3, optimizer=lambda params: make(params, **{name: asked}))
    own = static(new_run(3, optimizer=make), name)
    restore(again, path, train=TRAIN, keep=[name] if kept else ())
    assert static(again, name) == (asked if kept else own)
    told = [report for report in again.reports if report.severity == "warning"]
    assert len(told) == (0 if kept else 1)
    for report in told:
        assert f"{name} {own} (asked for: {asked})" in report.text
        assert f'keep=("{name}",)' in report.text
    wb.fit(again, [], TRAIN, None, step)
    assert static(again, name) == (asked if kept else own)


def test_a_rate_that_a_file_replaces_is_told_and_may_be_kept(tmp_path):
    path = trained(tmp_path / "x", lr=0.01)
    for keep, used, count in (((), 0.01, 1), (("lr",), 0.0001, 0), ("lr", 0.0001, 0)):
        again = new_run(4, lr=0.0001)
        restore(again, path, train=TRAIN, keep=keep)
        assert len(again.reports) == count
        wb.fit(again, [], TRAIN, None, step)
        assert again.history.column("lr").tolist()[2:] == [used] * 2


def test_several_replaced_settings_are_one_line(tmp_path):
    path = trained(tmp_path / "x", lr=0.01)
    again = new_run(4, lr=0.1, optimizer=lambda p: wb.adam(p, b1=0.5, weight_decay=0.1))
    restore(again, path)
    (report,) = again.reports
    assert 'keep=("lr", "b1", "weight_decay")' in report.text


def test_nothing_is_told_where_nothing_else_was_asked_for(tmp_path, capsys):
    path = trained(tmp_path / "x")
    restore(again := new_run(5, verbose=True), path)
    assert (again.reports, capsys.readouterr().out) == ([], "")


def test_a_schedule_sets_the_rate_whatever_a_file_says_and_nothing_is_told(tmp_path):
    path = trained(tmp_path / "x", lr=0.01)
    schedule = wb.EpochSchedule(wb.ConstantRate(0.0))
    again = new_run(3, lr=0.5)
    restore(again, path, callbacks=[schedule])
    wb.fit(again, [schedule], TRAIN, None, step)
    assert (again.history.column("lr").tolist()[2], again.reports) == (0.5, [])


def test_a_plateau_begins_at_the_rate_of_the_file_which_is_told(tmp_path):
    path = trained(tmp_path / "x", lr=0.01)
    again = new_run(3, lr=0.5)
    plateau = wb.PlateauSchedule("loss", higher_is_better=False)
    restore(again, path, callbacks=[plateau])
    wb.fit(again, [plateau], TRAIN, VAL, step, measure)
    assert again.history.column("lr").tolist()[2] == 0.01
    assert "lr 0.01 (asked for: 0.5)" in again.reports[0].text


@pytest.mark.parametrize("kept", [False, True])
def test_patience_set_by_hand_is_told_where_it_replaces_another_and_may_be_kept(kept, tmp_path):
    def stopping():
        return wb.EarlyStopping("loss", 4, higher_is_better=False)

    run = new_run(1)
    wb.fit(run, [stopping()], TRAIN, VAL, step, measure)
    run.patience = 20
    path = save_checkpoint(run, tmp_path / "x")
    again, mine = new_run(2), stopping()
    restore(again, path, callbacks=[mine], keep=("patience",) if kept else ())
    assert mine.patience == (4 if kept else 20)
    assert [report.text[:68] for report in again.reports] == (
        [] if kept else ["the checkpoint's settings hold: patience 20 (asked for: 4); `wb.rest"]
    )


def test_a_setting_that_no_file_replaces_cannot_be_kept(tmp_path):
    path = trained(tmp_path / "x")
    again = new_run(5)
    with refused(ConfigurationError, "`keep` names 'rate'", "no setting"):
        restore(again, path, keep=("rate",))
    assert again.state.epoch == 0


def test_what_is_told_is_printed_where_the_run_reports(tmp_path, capsys):
    path = trained(tmp_path / "x")
    restore(new_run(5, lr=0.5, verbose=True), path)
    assert "lr 0.01 (asked for: 0.5)" in capsys.readouterr().out


def test_windows_of_other_lengths_are_refused_naming_both(tmp_path):
    path = trained(tmp_path / "x", accum_steps=2)
    with refused(DataError, "accum_steps=2", "accum_steps=3"):
        restore(new_run(2, accum_steps=3), path)


def test_the_number_of_epochs_and_when_to_evaluate_are_the_runs_own(tmp_path):
    path = trained(tmp_path / "x", eval_every=1)
    again = new_run(4, eval_every=2, eval_every_steps=1)
    restore(again, path, train=TRAIN)
    wb.fit(again, [], TRAIN, VAL, step, measure)
    assert (again.state.epoch, again.config.eval_every, again.reports) == (4, 2, [])


def test_hyper_parameters_within_an_accumulation_are_told_too(tmp_path):
    def make(decay):
        return lambda params: accumulate(wb.adam(params, weight_decay=decay), params, 2)

    path = trained(tmp_path / "x", make(0.0))
    again = new_run(3, optimizer=make(0.1))
    restore(again, path, keep=("weight_decay",))
    assert static(again, "weight_decay") == 0.1
