"""Files that are read back, damaged in every way that comes to mind, one group after another.

Run as ``python -m tests.fuzzing.damage GROUP COUNT SEED`` in a process of its own: a crash or a
hang ends that one and is seen.  It stops at the first mutation that raised anything but the
library's own errors, or that was taken for what was written although it was not.
"""

import gzip
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from contextlib import redirect_stdout, suppress
from pathlib import Path

import numpy as np

import workbench as wb
from workbench.errors import WorkbenchError
from workbench.train.checkpointing import Checkpointing
from workbench.train.container import _write, open_container
from workbench.train.container_header import DOCUMENT
from workbench.train.events import RunBegin
from workbench.train.record import RunRecord
from workbench.train.tree import flatten
from workbench.train.update.values_file import load_values, save_values
from workbench_kernels.cache import ObjectCache, _encode
from workbench_kernels.object_code import ObjectCode, symbol_of

LONGEST_S = 20


def mutated(octets, random):
    """Return bytes that are damaged in one or several ways."""
    made = bytearray(octets)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(made)) if made else 0
        size = min(random.choice((1, 2, 4, 8, 16, 64, 512)), max(len(made) - at, 0))
        match random.randrange(9):
            case 0 | 1 | 2 if made:
                made[at] ^= 1 << random.randrange(8)
            case 3:
                del made[at:]
            case 4:
                made[at:at] = random.randbytes(size)
            case 5:
                del made[at : at + size]
            case 6:
                other = random.randrange(len(made)) if made else 0
                made[at : at + size] = made[other : other + size]
            case 7:
                made[at : at + size] = random.choice((b"\0", b"\xff", b"[", b"9")) * size
            case _:
                made[at : at + size] = random.choice((b"null", b"-1", b"1e999", b'{"a":', b"true"))
    return bytes(made)


STRANGE = (
    None,
    True,
    False,
    -1,
    0,
    1 << 70,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    {},
    [[]],
)


def altered(value, random):
    """Return a JSON value in which one place holds something else, or is gone."""
    places = []

    def walk(each, path):
        pairs = each.items() if isinstance(each, dict) else enumerate(each)
        for key, inner in pairs:
            places.append((*path, key))
            if isinstance(inner, (dict, list)):
                walk(inner, (*path, key))

    changed = json.loads(json.dumps(value))
    walk(changed, ())
    for place in random.sample(places, random.choice((1, 1, 2))):
        holder = changed
        try:
            for key in place[:-1]:
                holder = holder[key]
            if random.randrange(4):
                holder[place[-1]] = random.choice(STRANGE)
            else:
                del holder[place[-1]]
        except (LookupError, TypeError):  # an earlier change took it away
            continue
    return changed


# -- what is damaged

ROWS = wb.data.Dataset(np.linspace(0, 1, 40, dtype=np.float32).reshape(20, 2), np.arange(20) % 2)


def new_run(epochs=2):
    params = {"w": np.full((2, 2), 0.5, np.float32)}
    config = wb.Config(epochs, 8, 0.1, 7, verbose=False)
    return wb.Run(params, wb.adam(params), config, context=wb.Context.interpreter())


def step(params, opt, x, y, lr):
    def loss(p, x, y):
        return wb.cross_entropy(x @ p["w"], y)

    return wb.default_step(params, opt, x, y, lr, loss)


def measure(params, x, y):
    return {"loss": wb.cross_entropy(x @ params["w"], y)}


def bits(run):
    arrays = [np.asarray(leaf).tobytes() for leaf in flatten((run.params, run.opt))[0]]
    return arrays, repr(run.state), repr(run.history), repr(run.extras), run.status


class Group:
    """A file, how it is damaged, and what a reader of it may do."""

    damaged = staticmethod(mutated)

    def __init__(self, folder):
        self.folder = folder
        self.file = self.make()
        self.octets = self.file.read_bytes()
        self.whole = self.look()

    def make(self):
        raise NotImplementedError

    def look(self):
        """Read the file; return what was read, for comparing."""
        raise NotImplementedError

    verifies = True

    def attempt(self, random):
        octets = self.damaged(self.octets, random)
        self.put(octets)
        try:
            found = self.look()
        except WorkbenchError:
            return
        if self.verifies and found != self.whole and octets != self.octets:
            raise AssertionError("it was taken for what was written")

    def put(self, octets):
        self.file.write_bytes(octets)


class Checkpoint(Group):
    def make(self):
        run = new_run()
        stop = wb.EarlyStopping("loss", 5, higher_is_better=False, restore_best=True)
        wb.fit(run, [stop], ROWS, ROWS, step, measure)
        self.run = new_run()
        return wb.save_checkpoint(run, self.folder / "x.safetensors")

    def look(self):
        shown = repr(wb.inspect(self.file))
        run = self.run
        before = bits(run)
        try:
            wb.restore(run, self.file, callbacks=None)
        except WorkbenchError:
            assert bits(run) == before, "a refused file changed the run"
            raise
        found = bits(run)
        self.run = new_run()
        return shown, found


class Resealed(Checkpoint):
    """A document whose values were altered, or whose text was damaged, with a seal that fits."""

    verifies = False

    def __init__(self, folder):
        super().__init__(folder)
        made = open_container(self.file)
        self.arrays, self.text = made.arrays(), made._text

    def attempt(self, random):
        if random.randrange(2):
            text = json.dumps(altered(json.loads(self.text), random))
        else:
            text = mutated(self.text.encode(), random).decode("latin-1")
        self.file.unlink()
        _write(self.file, self.arrays, {DOCUMENT: text}, text)
        with suppress(WorkbenchError):
            self.look()


class BestFile(Group):
    def make(self):
        self.path = self.folder / "last"
        wb.fit(new_run(), [self.callback()], ROWS, ROWS, step, measure)
        return self.folder / "last.best"

    def callback(self):
        return Checkpointing(
            self.path, monitor="loss", higher_is_better=False, every=0, in_background=False
        )

    def look(self):
        callback, run = self.callback(), new_run(3)
        run.state.epoch, run.state.global_step = 2, 6
        said = callback.on_run_begin(RunBegin(run))
        assert len(said) <= 1
        assert all(report.severity == "warning" for report in said)
        # Not adopted is told; adopted is what was written.
        if said:
            return self.whole
        assert callback.best is not None
        return callback.best.value, callback.best.epoch, callback.best.seen


class Values(Group):
    def make(self):
        nodes = [wb.parameter(np.arange(3, dtype=np.float32), "a"), wb.parameter(np.ones(2), "b")]
        return save_values(wb.Context.interpreter().compile(nodes)[0], nodes, self.folder / "v")

    def look(self):
        return {
            name: np.asarray(node.value).tobytes() for name, node in load_values(self.file).items()
        }


class Exported(Group):
    def make(self):
        return wb.export_parameters({"w": np.ones((2, 3))}, self.folder / "e")

    def look(self):
        try:
            wb.load_parameters(new_run(), self.file)
        except WorkbenchError:
            return "refused"
        raise AssertionError("parameters alone were taken for a checkpoint")


class Recorded(Group):
    """The files of a record: numbers in them are plain text and have no digest."""

    verifies = False

    def make(self):
        for name in ("a", "b"):
            record = RunRecord(self.folder / "runs", name=name, note="a note")
            wb.fit(new_run(), [record, Speaking()], ROWS, ROWS, step, measure)
        self.copy = shutil.copytree(self.folder / "runs", self.folder / "copy")
        return self.folder / "runs" / "b" / "config.json"

    def look(self):
        found = wb.runs(self.folder / "runs")
        assert found["status"][found["name"] == "a"].tolist() == ["completed"]
        found.to_string()
        for metric in ("train_loss", "val_loss", "step_loss", "lr"):
            repr(wb.compare(self.folder / "runs", metric))
        return None

    def attempt(self, random):
        name = random.choice(
            ("config.json", "history.jsonl", "status.json", "steps.f32", "reports.jsonl")
        )
        self.file = self.folder / "runs" / "b" / name
        whole = (self.copy / "b" / name).read_bytes()
        if name.endswith(".json") and random.randrange(2):
            damaged = json.dumps(altered(json.loads(whole), random)).encode()
        else:
            damaged = mutated(whole, random)
        self.file.write_bytes(damaged)
        self.look()
        run = new_run()
        try:
            with redirect_stdout(io.StringIO()):
                wb.fit(run, [RunRecord(self.folder / "runs", name="b")], ROWS, None, step)
        except WorkbenchError:
            assert run.state.global_step == 0
        shutil.rmtree(self.folder / "runs" / "b")
        shutil.copytree(self.copy / "b", self.folder / "runs" / "b")


class Speaking(wb.Callback):
    def on_epoch_end(self, event):
        return f"epoch {event.epoch}"


def idx(values):
    extents = b"".join(extent.to_bytes(4, "big") for extent in values.shape)
    return bytes((0, 0, 8, values.ndim)) + extents + values.tobytes()


class Idx(Group):
    verifies = False

    def make(self):
        images = np.arange(3 * 784, dtype=np.int64).astype(np.uint8).reshape(3, 28, 28)
        (self.folder / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(3, dtype=np.uint8)))
        file = self.folder / f"train-images-idx3-ubyte{self.suffix}"
        file.write_bytes(self.packed(idx(images)))
        return file

    suffix = ""

    def packed(self, octets):
        return octets

    def look(self):
        made = wb.data.mnist(self.folder)
        assert made.x.shape == (3, 784)
        return made.x.tobytes()


class ZippedIdx(Idx):
    verifies = True
    suffix = ".gz"

    def packed(self, octets):
        return gzip.compress(octets, mtime=0)


class Cifar(Group):
    verifies = False

    def make(self):
        record = bytes((3,)) + bytes(range(256)) * 12
        for number in range(1, 6):
            (self.folder / f"data_batch_{number}.bin").write_bytes(record * 2)
        return self.folder / "data_batch_3.bin"

    def look(self):
        made = wb.data.cifar10(self.folder)
        assert made.y.max() < 10
        return made.x.tobytes()


class CachedKernel(Group):
    def make(self):
        self.key = "ab" * 32
        self.cache = ObjectCache(self.folder / "cache")
        self.cache.put(self.key, ObjectCode(bytes(range(256)) * 8, symbol_of(self.key)))
        return self.cache._path(self.key)

    def look(self):
        found = self.cache.get(self.key)
        return self.whole if found is None else found


class ResealedKernel(CachedKernel):
    """Its header was damaged and the digest made again."""

    def put(self, octets):
        import hashlib

        super().put(octets[:-32] + hashlib.sha256(octets[:-32]).digest())

    def look(self):
        found = self.cache.get(self.key)
        if found is not None:
            assert found.symbol == symbol_of(self.key)
            _encode(self.key, found)
        return self.whole if hasattr(self, "whole") else found


GROUPS = {
    "checkpoint": Checkpoint,
    "resealed-checkpoint": Resealed,
    "best-file": BestFile,
    "record": Recorded,
    "values": Values,
    "exported": Exported,
    "idx": Idx,
    "idx-gz": ZippedIdx,
    "cifar": Cifar,
    "kernel": CachedKernel,
    "resealed-kernel": ResealedKernel,
}


def main(name, count, seed):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        group = GROUPS[name](Path(folder))
        for number in range(seed, seed + count):
            signal.alarm(LONGEST_S)  # a hang ends the process
            try:
                group.attempt(random.Random(number))
            except Exception:  # noqa: BLE001 - it is what is looked for
                sys.stdout.write(f"{name} {number}: {traceback.format_exc()}\n")
                return 1
    sys.stdout.write(f"{name}: {count}\n")
    return 0


if __name__ == "__main__":
    for chosen in sys.argv[1].split(","):
        if main(chosen, int(sys.argv[2]), int(sys.argv[3])):
            sys.exit(1)
