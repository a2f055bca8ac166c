"""Small problems that the tests of the loop learn, and callbacks that watch."""

from itertools import pairwise
from typing import Any

import numpy as np

import workbench as wb
from workbench.train.events import Hook

TENTH = 0.1  # not a float32, so that sums of it in another order would show


def rows(n, features=5, classes=3, *, seed=0, dtype: Any = np.float32):
    """Return ``n`` labelled rows, the labels of which follow from the features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features))
    y = np.argmax(x[:, :classes] + 0.1 * rng.normal(size=(n, classes)), axis=1)
    return wb.data.Dataset(x, y, dtype=dtype)


def perceptron(*sizes, seed=0, dtype: Any = np.float32):
    """Return the parameters of a perceptron with these widths."""
    return [
        {
            "w": wb.he_normal(m, n, seed=seed, purpose=f"layer {i}", dtype=dtype),
            "b": np.full(n, TENTH, dtype),
        }
        for i, (m, n) in enumerate(pairwise(sizes))
    ]


def logits(params, x):
    for layer in params[:-1]:
        x = wb.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return wb.cross_entropy(logits(params, x), y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)


def measure(params, x, y):
    out = logits(params, x)
    return {"loss": wb.cross_entropy(out, y), "accuracy": wb.accuracy(out, y)}


def new_run(epochs=3, batch_size=8, *, sizes=(5, 6, 3), optimizer=wb.adam, context=None, **config):
    """Return a run of a small perceptron; ``config`` goes into its `Config`."""
    params = perceptron(*sizes)
    settings = {"lr": 0.01, "seed": 7, "verbose": False} | config
    made = wb.Config(epochs, batch_size, settings.pop("lr"), settings.pop("seed"), **settings)
    context = wb.Context.cpu(2) if context is None else context
    return wb.Run(params, optimizer(params), made, context=context)


def leaves(run):
    """Return copies of everything that a run learns, in one fixed order."""
    arrays = [layer[name] for layer in run.params for name in ("w", "b")]
    for moments in (run.opt.m, run.opt.v):
        arrays += [layer[name] for layer in moments or () for name in ("w", "b")]
    return [*arrays, np.asarray(run.opt.t)]


def same_bits(left, right):
    """Return whether two runs hold the same bits and had the same losses."""
    arrays = zip(leaves(left), leaves(right), strict=True)
    return (
        all(a.tobytes() == b.tobytes() for a, b in arrays)
        and left.history.column("train_loss").tolist()
        == right.history.column("train_loss").tolist()
        and left.state.global_step == right.state.global_step
    )


class Watch:
    """Remembers every event as text, with the batch where there is one."""

    def __init__(self, hooks=tuple(Hook)):
        self.seen = []
        for hook in hooks:
            setattr(self, hook.method, self._remember)

    def _remember(self, event):
        self.seen.append(event)

    @property
    def names(self):
        return [event.hook.name for event in self.seen]


def at(hook, action):
    """Return a callback that does ``action(event)`` at one hook."""
    return Watching(hook, action)


class Watching:
    band: int
    fatal: bool

    def __init__(self, hook, action):
        setattr(self, Hook[hook].method, action)
