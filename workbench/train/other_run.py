"""What a run must have in common with a checkpoint to go on from it.

In: a run, and the document of a file.  Out: nothing, or an error that names both values.
Invariant: nothing is changed.
"""

from __future__ import annotations

from workbench.data.dataset import Dataset
from workbench.data.partition import split_at
from workbench.data.stream import Stream
from workbench.errors import DataError
from workbench.train.container import Document
from workbench.train.packed_statics import kind_of, pack_statics
from workbench.train.run import Run

__all__ = ["refuse_other_run"]


def refuse_other_run(run: Run, document: Document, train: Dataset | Stream | None) -> None:
    """Refuse a checkpoint that ``run`` cannot go on from, whatever its parameters are.

    Raises
    ------
    DataError
        Naming both values.
    """
    saved, config = document["config"], run.config
    rows, wanted = document["state"]["rows"], train.n if train is not None else run.state.rows
    # A whole data set is as good as the part that trains.
    whole = train is not None and config.validation_split > 0.0 and wanted > 1
    trained = split_at(wanted, 1.0 - config.validation_split) if whole else wanted
    if rows and wanted and rows not in (wanted, trained):
        raise DataError(
            f"the checkpoint was written over {rows} rows and this data set has {wanted}",
            remedy="resume with the rows that it was trained on, or assign `run.params` alone",
        )
    kinds = kind_of(document["optimizer"]), kind_of(pack_statics(run.opt_leaves.structure))
    if kinds[0] != kinds[1]:
        raise DataError(
            f"the checkpoint holds optimizer state for {kinds[0]} and this run uses {kinds[1]}",
            remedy=f"make the run with {kinds[0]}, or assign `run.params` alone",
        )
    if (saved["seed"] - config.seed) % (1 << 64):  # the same 64 bits are the same seed
        raise DataError(
            f"the checkpoint was written under seed {saved['seed']} and this run is seeded "
            f"{config.seed}",
            remedy=f"make the run with seed {saved['seed']}",
        )
    if saved["batch_size"] != config.batch_size:
        raise DataError(
            f"the checkpoint used batch size {saved['batch_size']} and this run uses "
            f"{config.batch_size}",
            remedy=f"make the run with batch size {saved['batch_size']}",
        )
    for name in ("drop_last", "shuffle", "accum_steps", "steps_per_epoch", "validation_split"):
        if saved[name] != getattr(config, name):
            raise DataError(
                f"the checkpoint was written with {name}={saved[name]} and this run has "
                f"{name}={getattr(config, name)}",
                remedy=f"make the run with {name}={saved[name]}",
            )
