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
# # Live training
#
# A run that goes on in the background can be watched, paused, slowed down, and even given another training step, while
# you read and run other cells. Everything that a button of the panel does is also a line of code, and the panel shows
# it as one.
#
# Run the cells one by one, at your own pace: the run takes about a minute, unless you stop it.

# %%
import numpy as np

import workbench as wb

train, held_out = wb.data.split(wb.data.digits(), 0.8, seed=1)
first = {
    "w1": wb.he_normal(64, 128, seed=1, purpose="w1"),
    "b1": wb.zeros(128),
    "w2": wb.he_normal(128, 10, seed=1, purpose="w2"),
    "b2": wb.zeros(10),
}


def model(params, x):
    hidden = wb.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params, x, y):
    return wb.cross_entropy(model(params, x), y)


def metrics(params, x, y):
    return {"loss": loss(params, x, y), "accuracy": wb.accuracy(model(params, x), y)}


# %% [markdown]
# ## A run, and its step
#
# `@run.step` makes a function of an ordinary cell the step of the run. Early stopping watches the loss over the digits
# that were held out, and keeps the best parameters.

# %%
run = wb.Run(first, wb.adam(first), wb.Config(epochs=30_000, batch_size=32, lr=0.0005, seed=1))
stopping = wb.EarlyStopping("loss", 50_000, higher_is_better=False, restore_best=True)


@run.step
def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)


# %% [markdown]
# `run.start` returns at once, and so does the cell. `wb.watch` shows the panel: how far the run is and how long it still
# takes, the loss of each batch and of each evaluation, and controls. Drag over a curve to look closer; with the keyboard,
# arrows read a curve, `+` and `-` zoom, `0` shows all. Below it, *Graph* and *Placements* open what a step computes and where its
# values live.

# %%
# NBVAL_IGNORE_OUTPUT
run.start([stopping], train, held_out, None, metrics)
wb.watch(run)

# %% [markdown]
# ## Steer it
#
# What follows can be done with the panel's buttons as well.

# %%
run.pause()
print("paused by", run.history.actions[-1].code)

# %%
run.lr = 0.002
run.patience = 20_000
run.resume()
for action in run.history.actions[-3:]:
    print(action.code)

# %% [markdown]
# The rate counts from the next step on. A number that makes no sense is refused, and the run goes on as before.

# %%
try:
    run.lr = -1.0
except wb.WorkbenchError as error:
    print(error.problem)
    print("->", error.remedy)


# %% [markdown]
# ## Change the step while it runs
#
# Run this cell whenever you like, and change it as you like: the new step is compiled beside the old one and takes over
# at the next batch. Parameters and optimizer state go on. The curve gets a mark.


# %%
@run.step
def step(params, opt, x, y, lr):
    def smoothed(params, x, y):
        scores = model(params, x)
        wrong = -wb.log_softmax(scores).mean()
        return 0.9 * wb.cross_entropy(scores, y) + 0.1 * wrong

    return wb.default_step(params, opt, x, y, lr, smoothed)


run.step_history[-1].wait()
print([(version.number, version.state) for version in run.step_history])

# %% [markdown]
# A step that cannot be compiled is refused where it was written, and the old one goes on.

# %%
try:

    @run.step
    def broken(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda params, x, y: x @ params["w2"])

except wb.WorkbenchError as error:
    print(type(error).__name__)
print([(version.number, version.state) for version in run.step_history])
print("still training:", run.is_training)

# %% [markdown]
# Each version can be put in force again.

# %%
run.step_history[0].restore()
run.step_history[-1].wait()
print([(version.number, version.state) for version in run.step_history])

# %% [markdown]
# ## Look into it
#
# Parameters can be read at any time: what is read belongs to one step, between two batches.

# %%
weights = run.params["w1"]
print(weights.shape, weights.dtype, "all finite:", bool(np.isfinite(weights).all()))

# %% [markdown]
# So can everything else that a step computes. *Graph* below the panel is this view; choose a node with Enter or a click. Its
# values are those of one update, and *Read again* reads those of now. A node that cannot be read says why, and what to press:
# that is tried on copies, beside the run.

# %%
wb.tree(run)

# %%
print(wb.why("w1", run))

# %% [markdown]
# ## Stop it
#
# A run that was stopped is whole: it can be evaluated, saved, or gone on with. The panel above has become a record by
# now, which stays in the notebook and needs no kernel.

# %%
run.stop(after="epoch")
run.wait()
print(f"{run.status}: {run.state.stop_reason}")
print("reads more than 90 % of the digits:", run.state.val.value("accuracy") > 0.9)

# %%
best = run.restore_best()
best.wait()
reached = wb.evaluate(run, held_out, metrics)
print("as good as its best:", bool(np.isclose(reached["loss"], stopping.best.value)))
