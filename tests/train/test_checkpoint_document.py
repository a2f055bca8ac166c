"""A document whose values were altered and sealed again: refused, and nothing is changed."""

import copy

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import measure, new_run, rows, step
from workbench.errors import DataError, WorkbenchError
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.container import open_container, write_container
from workbench.train.inspection import inspect
from workbench.train.tree import flatten

TRAIN, VAL = rows(20), rows(9, seed=1)
# Texts that are shown and decide nothing, what follows the run's own configuration, and switches.
FREE = ("note", "created", "environment", "config", "extras.feed", "callbacks", "best.monitor")


def watching():
    return EarlyStopping("loss", 5, higher_is_better=False)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    run = new_run(2)
    wb.fit(run, [watching()], TRAIN, VAL, step, measure)
    path = save_checkpoint(run, folder / "x")
    file = open_container(path)
    document = {**file.document, "best": {"monitor": "loss", "value": 0.5, "epoch": 1}}
    document["extras"] |= {"run": {"step": "", "rate_held": None, "actions": [["a", 1, 1, ""]]}}
    return folder, document, file.arrays()


def places(value, path=()):
    """Give the place of each value in a document, containers too."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        yield (*path, key)
        if isinstance(each, (dict, list)):
            yield from places(each, (*path, key))


def altered(document, place, value):
    changed = copy.deepcopy(document)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if value is MISSING:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return changed


MISSING = object()
STRANGE = (
    MISSING, None, True, -1, 1 << 80, 0.5, float("nan"), float("-inf"), "", "x", [], [[]], {},
    {"a": 1}, ["x", None],
)  # fmt: skip


def bits(run):
    state = run.state
    return (
        [np.asarray(leaf).tobytes() for leaf in flatten((run.params, run.opt))[0]],
        repr(state),
        repr(run.history),
        run.extras,
        run.status,
    )


def test_every_altered_value_is_refused_or_taken_and_never_breaks_anything(saved):
    folder, document, arrays = saved
    run, callback = new_run(2), watching()
    for place in places(document):
        for value in STRANGE:
            path = folder / "changed"
            path.unlink(missing_ok=True)
            write_container(path, arrays, altered(document, place, value))
            before, memory = bits(run), repr(callback.pack())
            try:
                repr(inspect(path))
                restore(run, path, callbacks=[callback], train=TRAIN)
            except WorkbenchError:
                assert bits(run) == before, f"{place} = {value!r} changed a run that refused it"
                assert repr(callback.pack()) == memory
            else:
                repr(run)
                run = new_run(2)
                callback = watching()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("state", "epoch"), -1),
        (("state", "epoch"), 2.5),
        (("state", "epoch"), "2"),
        (("state", "lr"), float("nan")),
        (("state", "lr"), "fast"),
        (("state", "best_path"), 3),
        (("position", "in_epoch"), 1),
        (("position", "batches_done"), 1000),
        (("position", "meter"), [1.0]),
        (("position", "carried_s"), -1.0),
        (("val",), [["loss", "low", 1]]),
        (("optimizer", 0, "fields", "b1"), 1.5),
        (("optimizer", 0, "fields", "eps"), "small"),
        (("signatures",), [[3]]),
        (("best", "epoch"), 9),
        (("best", "value"), float("inf")),
        (("extras", "run", "actions"), [["code"]]),
        (("config", "batch_size"), 0),
    ],
    ids=str,
)
def test_what_cannot_be_is_named_with_its_place(saved, place, value):
    folder, document, arrays = saved
    path = folder / "named"
    path.unlink(missing_ok=True)
    write_container(path, arrays, altered(document, place, value))
    with refused(DataError, "named", "damaged", str(place[0])):
        restore(new_run(2), path, callbacks=None)


def test_arrays_of_another_length_than_the_position_says_are_refused(saved):
    folder, document, arrays = saved
    path = folder / "short"
    path.unlink(missing_ok=True)
    write_container(path, {**arrays, "epoch.losses": arrays["epoch.losses"][:-1]}, document)
    with refused(DataError, "damaged", "epoch.losses"):
        restore(new_run(2), path, callbacks=None)


def test_a_header_that_was_changed_is_told_by_inspect(saved, tmp_path):
    _, document, arrays = saved
    path = tmp_path / "x"
    write_container(path, arrays, document)
    octets = bytearray(path.read_bytes())
    at = octets.index(b'\\"epoch\\": 2') + len(b'\\"epoch\\": ')
    octets[at] ^= 1
    path.write_bytes(octets)
    with refused(DataError, "damaged", "header"):
        inspect(path)


def test_two_parameters_that_are_written_alike_are_refused_when_they_are_saved(tmp_path):
    class Key:
        def __init__(self, number):
            self.number = number

        def __lt__(self, other):
            return self.number < other.number

        def __repr__(self):
            return "key"

    with refused(DataError, "`key`"):
        wb.export_parameters({Key(1): np.zeros(1), Key(2): np.ones(1)}, tmp_path / "x")


def remembering():
    stop = EarlyStopping("loss", 5, higher_is_better=False, restore_best=True)
    plateau = wb.PlateauSchedule("loss", higher_is_better=False)
    return [stop, plateau]


def test_what_a_callback_cannot_have_remembered_is_refused_or_does_it_no_harm(tmp_path):
    run = new_run(1)
    wb.fit(run, remembering(), TRAIN, VAL, step, measure)
    file = open_container(save_checkpoint(run, tmp_path / "x"))
    document, arrays = file.document, file.arrays()
    refusals = 0
    for at, entry in enumerate(document["callbacks"]):
        for name in entry["state"]:
            for value in STRANGE:
                path = tmp_path / "changed"
                path.unlink(missing_ok=True)
                place = ("callbacks", at, "state", name)
                write_container(path, arrays, altered(document, place, value))
                callbacks, again = remembering(), new_run(2)
                try:
                    restore(again, path, callbacks=callbacks)
                except WorkbenchError:
                    refusals += 1
                    continue
                wb.fit(again, callbacks, TRAIN, VAL, step, measure)
                assert not [r.text for r in again.reports if "raised" in r.text], (place, value)
    assert refusals > 100
