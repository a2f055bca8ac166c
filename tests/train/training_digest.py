"""All that a run has learned as one short text, so that runs of two processes can be compared."""

import hashlib

import numpy as np

from workbench.train.tree import flatten


def digest(run):
    """Return a digest of every byte of parameters, optimizer state, counters and history.

    Times are left out, as they are of no run's making.
    """
    made = hashlib.sha256()
    for tree in (run.params, run.opt):
        leaves, structure = flatten(tree)
        made.update(repr(structure).encode())
        for leaf in leaves:
            made.update(np.asarray(leaf).tobytes())
    state = run.state
    counters = [state.epoch, state.batch, state.global_step, state.lr, state.train_loss]
    made.update(repr([counters, state.val_loss, list(state.val.items()), run.meter]).encode())
    rows = [(row.epoch, row.train_loss, row.lr, row.val) for row in run.history]
    made.update(repr(rows).encode())
    made.update(run.losses.tobytes())
    return made.hexdigest()
