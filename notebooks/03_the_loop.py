# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The loop
#
# `wb.fit` owns the epoch, the batches, the metrics and the checkpoints. The step is yours. This notebook
# trains a three-class classifier with everything that a longer run needs: a schedule, early stopping,
# checkpoints, a log and a progress line. Then it stops, goes on elsewhere, and ends with the same bits.
#
# It is also a plain script: `python notebooks/03_the_loop.py`.

# %%
import tempfile
from pathlib import Path

import numpy as np

import workbench as wb

scratch = tempfile.TemporaryDirectory()  # removed when the kernel ends
folder = Path(scratch.name)

# %% [markdown]
# ## Data and model
#
# Three clouds of points in four dimensions, in float64, so that the printed digits are the same on every
# processor.

# %%
points = wb.data.blobs(360, 3, features=4, spread=1.2, seed=20260807)
data = wb.data.Dataset(wb.data.standardize(points.x), points.y, dtype=np.float64)
train, held_out = wb.data.split(data, 0.8, seed=20260807)
print(train)
print(held_out)

# %%
SEED = 20260807


def initial():
    return {
        "w1": wb.he_normal(4, 16, seed=SEED, purpose="w1", dtype=np.float64),
        "b1": wb.zeros(16, dtype=np.float64),
        "w2": wb.he_normal(16, 3, seed=SEED, purpose="w2", dtype=np.float64),
        "b2": wb.zeros(3, dtype=np.float64),
    }


def logits(params, x):
    return wb.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss(params, x, y):
    return wb.cross_entropy(logits(params, x), y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)


def evaluation(params, x, y):
    scores = logits(params, x)
    return {
        "loss": wb.cross_entropy(scores, y),
        "accuracy": wb.accuracy(scores, y),
        "f1": wb.f1(scores, y),
    }


# %% [markdown]
# `loss` and `accuracy` are means over rows, and the loop weights each batch by its rows. F1 is no mean: it is
# worked out once, from counts over the whole set, however the rows were cut into batches.
#
# ## Callbacks, and the order they run in
#
# Each callback has a band. What writes comes before what reads, and two that write the same thing are refused.


# %%
def callbacks(path):
    return [
        wb.EpochSchedule(wb.CosineRate(0.01, 60, least=0.0002, warmup=3)),
        wb.EarlyStopping("accuracy", 8, higher_is_better=True, min_delta=0.001),
        wb.Checkpointing(path, every=10, monitor="accuracy", higher_is_better=True),
        wb.MetricLog(),
        wb.Progress(),
    ]


print(wb.explain_order(callbacks(folder / "blobs.safetensors")))

# %% [markdown]
# ## Train
#
# The progress line tells how long the rest takes at most: early stopping may make it shorter.

# %%
# NBVAL_IGNORE_OUTPUT
run = wb.Run(initial(), wb.adam(initial()), wb.Config(60, 16, 0.01, SEED))
history = wb.fit(run, callbacks(folder / "blobs.safetensors"), train, held_out, step, evaluation)

# %%
print(run.state.stop_reason)
print("epochs", run.state.epoch, "of", run.config.epochs)
print("best file:", Path(run.state.best_path).name)
table = history.frame()[["epoch", "train_loss", "lr", "val_loss", "val_accuracy", "val_f1"]]
print(table.round(3).to_string(index=False))

# %% [markdown]
# ## Stop anywhere, go on with the same bits
#
# A checkpoint holds parameters, moments, counters, the position in the epoch, the history and what callbacks
# remember. Twelve epochs in one go, and five plus seven with a new run in between, are the same to the last bit.


# %%
def fresh(epochs):
    return wb.Run(initial(), wb.adam(initial()), wb.Config(epochs, 16, 0.01, SEED, verbose=False))


whole = fresh(12)
wb.fit(whole, [], train, None, step)

first = fresh(5)
wb.fit(first, [], train, None, step)
wb.save_checkpoint(first, folder / "five.safetensors", note="after five epochs")

second = fresh(12)
wb.restore(second, folder / "five.safetensors")
wb.fit(second, [], train, None, step)

for name, value in whole.params.items():
    print(name, "same bits:", value.tobytes() == second.params[name].tobytes())
print("updates:", int(whole.opt.t), int(second.opt.t))

# %% [markdown]
# The file can be looked at without loading it, and its tensors can be opened by any tool that reads safetensors.

# %%
print("note:", wb.inspect(folder / "five.safetensors").document["note"])

# %% [markdown]
# What does not fit is refused, with both values.

# %%
other = wb.Run(initial(), wb.momentum(initial()), wb.Config(12, 16, 0.01, SEED, verbose=False))
try:
    wb.restore(other, folder / "five.safetensors")
except wb.WorkbenchError as error:
    print(error.problem)
    print("->", error.remedy)

# %% [markdown]
# ## Small batches, one update
#
# With `accum_steps` several batches make one update, divided by the rows they saw: the same as one big batch.

# %%
big = wb.Run(initial(), wb.adam(initial()), wb.Config(3, 32, 0.01, SEED, verbose=False))
wb.fit(big, [], train, None, step)

small = wb.Run(
    initial(), wb.adam(initial()), wb.Config(3, 8, 0.01, SEED, verbose=False, accum_steps=4)
)
wb.fit(small, [], train, None, step)

gap = max(np.abs(big.params[name] - small.params[name]).max() for name in initial())
print("greatest difference below 1e-12:", gap < 1e-12)
print("updates:", big.state.global_step, small.state.global_step)

# %% [markdown]
# ## Sixteen bits
#
# `mixed_bf16` stores activations in bfloat16 and keeps the parameters in float32. On a problem as easy as this one it
# learns as well.

# %%
narrow_data = wb.data.Dataset(train.x, train.y)
start = {name: value.astype(np.float32) for name, value in initial().items()}
mixed = wb.Run(start, wb.mixed_bf16(wb.adam(start)), wb.Config(12, 16, 0.01, SEED, verbose=False))
wb.fit(mixed, [], narrow_data, None, step)
reached = wb.evaluate(mixed, wb.data.Dataset(held_out.x, held_out.y), evaluation)
print("accuracy of at least 0.9:", reached["accuracy"] >= 0.9)
print("steps skipped:", int(mixed.opt.skipped))

# %% [markdown]
# ## Every run written down
#
# `RunRecord` keeps a folder for each run; `wb.runs` reads them into a table.

# %%
for rate in (0.001, 0.01):
    recorded = wb.Run(initial(), wb.adam(initial()), wb.Config(5, 16, rate, SEED, verbose=False))
    record = wb.RunRecord(folder / "runs", name=f"rate {rate}")
    wb.fit(recorded, [record], train, held_out, step, evaluation)

columns = ["name", "status", "epoch", "train_loss", "val_accuracy", "lr"]
print(wb.runs(folder / "runs")[columns].round(3).to_string(index=False))
