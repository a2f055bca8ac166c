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
# # Train a first model
#
# You train a small network that reads handwritten digits, look at what it gets right and what it gets wrong, train it again
# in the background, and then follow its program from Python down to native code. Everything is local: no download, no GPU.
#
# Run the cells from top to bottom with Shift+Enter. Change anything you like and run a cell again.

# %% [markdown]
# ## Look at the data
#
# The workbench comes with 1,797 digits written by 13 people. A row of `x` is an image of 8 x 8 pixels laid out as 64 numbers,
# 0 for paper and 1 for ink; `y` holds the digit that was meant.

# %%
import matplotlib.pyplot as plt
import numpy as np

import workbench as wb

digits = wb.data.digits()
print(digits.report())


# %%
def show(images, captions, rows=1):
    """Draw up to eight images a row, each under its caption."""
    _, axes = plt.subplots(rows, 8, figsize=(9, 1.5 * rows), layout="constrained")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_color("lightgray")
    for axis, image, caption in zip(axes.flat, images, captions, strict=False):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axis.set_title(caption, fontsize=11)
    for axis in axes.flat[len(images) :]:
        axis.set_visible(False)


show(digits.x[:16], digits.y[:16], rows=2)

# %% [markdown]
# To learn whether a model reads digits that it has never seen, hold some back: four fifths of the rows are for training, the
# rest for testing. The seed decides which rows go where, so you get the same split as everybody else.

# %%
train, test = wb.data.split(digits, 0.8, seed=1)
print(train.n, "rows to train on,", test.n, "held out")

# %% [markdown]
# ## The model, in ten lines
#
# Parameters are numpy arrays in a dict (lists and dataclasses work too). The model is a function that takes them and a batch
# of images, and returns ten numbers an image: the greatest one says which digit the model sees.

# %%
params = {
    "w1": wb.he_normal(64, 128, seed=1, purpose="w1"),
    "b1": wb.zeros(128),
    "w2": wb.he_normal(128, 10, seed=1, purpose="w2"),
    "b2": wb.zeros(10),
}


def model(params, x):
    hidden = wb.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


# %% [markdown]
# ## The step
#
# A training step is yours to write: forward, loss, gradients, optimizer. It is called *once*, with tensors that have a shape
# but no values yet. What it does with them is recorded and compiled, and the native result runs for every batch.
#
# `metrics` says what to measure on the held-out rows after each epoch.


# %%
def loss_of(params, x, y):
    return wb.cross_entropy(model(params, x), y)


def step(params, opt, x, y, lr):
    loss, gradients = wb.loss_and_gradients(loss_of, params, x, y)
    return wb.apply_gradients(params, gradients, opt, lr, loss)


def metrics(params, x, y):
    logits = model(params, x)
    return {"loss": wb.cross_entropy(logits, y), "accuracy": wb.accuracy(logits, y)}


# %% [markdown]
# ## Train
#
# A `Run` holds all that training changes: the parameters, the optimizer's state and how far it has come. `fit` advances it,
# here by 20 epochs of 45 batches. The empty list is for callbacks; with `verbose=True`, the default, `fit` prints a
# line for each epoch.

# %%
config = wb.Config(epochs=20, batch_size=32, lr=0.002, seed=1, verbose=False)
run = wb.Run(params, wb.adam(params), config)
wb.fit(run, [], train, test, step, metrics)

history = run.history.frame().set_index("epoch")
history[["train_loss", "val_loss", "val_accuracy"]][4::5].round(2)

# %% [markdown]
# The history is a pandas DataFrame with a row for each epoch. Its columns make the curves: once the held-out loss stays
# level while the training loss still falls, the model only learns its training rows by heart.

# %%
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"  # told apart by everyone, and by dashes

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.plot(history.train_loss, "-", color=BLUE)
left.plot(history.val_loss, "--", color=VERMILION)
end, last = len(history) + 1, history.iloc[-1]
left.text(end, last.train_loss, "training rows", color=BLUE, va="center")
left.text(end, last.val_loss, "held-out rows", color=VERMILION, va="center")
left.set(title="mean loss", xlabel="epoch", yscale="log")
left.set_yticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])

right.plot(history.val_accuracy, "-.", color=GREEN)
right.set(title="accuracy on held-out rows", xlabel="epoch", ylim=(0.85, 1))
right.set_yticks([0.85, 0.9, 0.95, 1])
right.grid(axis="y", color="lightgray")

for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)

# %%
print("held-out accuracy of at least 0.97:", history.val_accuracy.iloc[-1] >= 0.97)

# %% [markdown]
# ## Predict
#
# `predict` computes a function of the parameters for every row. These are digits that the model has not seen in training.

# %%
logits = wb.predict(run, test.x, 64, model)
guess = logits.argmax(axis=1)
show(test.x[:8], [f"reads {g}" for g in guess[:8]])

# %% [markdown]
# And these are the ones that it got wrong. Some would make a person hesitate, too.

# %%
wrong = np.flatnonzero(guess != test.y)[:8]
show(test.x[wrong], [f"reads {guess[row]}, is {test.y[row]}" for row in wrong])

# %%
print(f"at most 10 of {test.n} wrong:", np.count_nonzero(guess != test.y) <= 10)

# %% [markdown]
# ## Train in the background
#
# `start` takes what `fit` takes, and returns at once: the notebook stays free while a thread trains. This run has a second
# or more to go, so it is still at work when the next line asks.

# %%
background = wb.Run(
    params,
    wb.adam(params),
    wb.Config(epochs=1000, batch_size=32, lr=0.002, seed=1, eval_every=50, verbose=False),
)
background.start([], train, test, step, metrics)
background.status

# %% [markdown]
# Steer it while it goes on: a new learning rate counts from the next batch, `stop` ends the run after the batch at hand
# (`pause` and `resume` hold it), and `wait` returns when that is done. (If you took your time to get here, the run is complete by now.)

# %%
background.lr = 0.0005
background.stop()
background.wait()
print(background.status, "with epochs left:", background.state.epoch < 1000)

# %% [markdown]
# A run that was stopped is as good as one that was not. Another `fit` goes on with the next batch, to the last epoch.

# %%
wb.fit(background, [], train, test, step, metrics)
print(background.status, "after epoch", background.state.epoch)
print("held-out accuracy of at least 0.97:", background.state.val.value("accuracy") >= 0.97)

# %% [markdown]
# ## What became of the program
#
# `wb.explain` prints a program at each stage of its way to native code. To keep that short, call the same `model` on something
# smaller: rows of 4 numbers, 3 hidden units, 2 classes. The number of rows stays open.

# %%
small = {
    "w1": wb.parameter(np.ones((4, 3), np.float32), "w1"),
    "b1": wb.parameter(np.zeros(3, np.float32), "b1"),
    "w2": wb.parameter(np.ones((3, 2), np.float32), "w2"),
    "b2": wb.parameter(np.zeros(2, np.float32), "b2"),
}
x = wb.input("x", (wb.batch, 4))
logits = model(small, x).named("logits")

# %% [markdown]
# **1. The graph.** Calling `model` has recorded a line for each operation, with its shape and type. A shape that does not fit
# is an error here, in the line of Python that made it.

# %%
print(wb.explain(logits, stage="graph"))

# %% [markdown]
# **2. Assignments.** Each line becomes a statement about single elements. `:+=` sums up, starting from zero.

# %%
print(wb.explain(logits, stage="assign"))

# %% [markdown]
# **3. Placement.** Which tensors get memory? A *virtual* one is computed where it is read, a *local* one lives for the time of a
# step, the others can be read when it is over. Beside each stand the number of the rule that decided, and its reason.

# %%
print(wb.explain(logits, stage="placement"))

# %% [markdown]
# **4. Loops.** The statements, put into each other and fused: one loop over the rows does all of it.

# %%
print(wb.explain(logits, stage="loops"))

# %% [markdown]
# **5. Kernels.** The same as Python text in which every operation is typed. LLVM makes machine code of it, which is kept on disk and
# shared by all loops of the same form.

# %%
print(wb.explain(logits, stage="kernels"))

# %% [markdown]
# A training step is one such program: loss, gradients and updates together. Plain gradient descent on the small model takes these
# kernels, each named after the tensors that it stores.

# %%
y = wb.input("y", (wb.batch,), "int32")
loss = loss_of(small, x, y).named("loss")
gradients = wb.backward(loss, list(small.values()))
updates = {p: p - 0.1 * gradient for p, gradient in gradients.items()}
kernels = wb.explain([loss], updates=updates, stage="kernels")
print("\n".join(line for line in kernels.splitlines() if line.startswith("#")))

# %% [markdown]
# ## What to try next
#
# * Another model: a second hidden layer, or `wb.gelu` in place of `wb.relu`. Change `params` and `model`, and run the cells again.
# * Another optimizer: `wb.momentum(params)` or `wb.sgd(params)`, with a learning rate of about 0.1.
# * A loss of your own: add `0.0001 * wb.sum(wb.square(params["w1"]))`, which keeps the weights small.
# * A mistake: write `*` in place of the first `@`, or let `w2` begin with 64 rows, and read what the error proposes.
# * Larger data: `wb.data.mnist(folder, download=True)` has 60,000 images of 28 x 28 pixels.
#
# How the stages work is told in [the pipeline](../docs/explanation/pipeline.md).
