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
# # Updates by hand
#
# `wb.fit` is one way to train. This notebook does without it: it builds the computation of a step out of parts,
# compiles it into a routine, and runs that in loops of its own. Five recipes follow, each a few lines:
# accumulation, clipping, loss scaling, outlier skipping, a frozen backbone.
#
# Two things to know beforehand. A *computation* says what to compute and which state to change; `+` puts one after
# another, in one routine. A *context* holds memory; compiling and running return a new one.

# %%
import numpy as np

import workbench as wb

# %% [markdown]
# ## Rows on the device
#
# The 8x8 digits lie on the device as a whole. A *static index* chooses the batch: a number that is bound when a
# routine is run. In float64, so that the printed digits are the same on every processor.

# %%
digits = wb.data.digits()
data = wb.data.Dataset(digits.x, digits.y, dtype=np.float64)
BATCH = 64
batches = wb.indexed_batches(data, BATCH)
bindings = {batches.index: 0}
print(data)
print(batches.count, "batches of", batches.size)


# %% [markdown]
# ## A model, and a step of two parts
#
# `grad_update` is forward and backward: it leaves the gradient of each parameter in a leaf beside it.
# `adam_update` reads those leaves.


# %%
def perceptron():
    def weights(fan_in, fan_out, name):
        start = wb.he_normal(fan_in, fan_out, seed=7, purpose=name, dtype=np.float64)
        return wb.parameter(start, name)

    return {
        "w1": weights(64, 32, "w1"),
        "b1": wb.parameter(np.zeros(32), "b1"),
        "w2": weights(32, 10, "w2"),
        "b2": wb.parameter(np.zeros(10), "b2"),
    }


def loss_of(p, x=batches.x, y=batches.y):
    hidden = wb.relu(x @ p["w1"] + p["b1"])
    return wb.cross_entropy(hidden @ p["w2"] + p["b2"], y).named("loss")


params = perceptron()
loss = loss_of(params)
total = wb.loss_accumulator("loss of the epoch", "float64")
rate = wb.scheduled_learning_rate(
    wb.BudgetRate(0.01, 5 * batches.count, warmup=10, final_frac=0.1), dtype="float64"
)
step = wb.grad_update(loss, accum_loss=total) + wb.adam_update(loss, learning_rate=rate.rate)

# %% [markdown]
# What a part does can be read. Here is gradient descent with momentum, for one parameter:

# %%
print(wb.dumped(wb.sgd_one(params["b2"], learning_rate=0.1, momentum=0.9)))

# %% [markdown]
# A loop over the bindings is an epoch. The host reads one number of it: the sum of the losses, which the step adds up
# on the device. The rate is written before each step, from a schedule.

# %%
ctx, routine = wb.Context.cpu().compile(step, bindings=bindings)
shuffle = np.random.default_rng(7)
number = 0
for epoch in range(5):
    ctx = batches.reordered(ctx, shuffle.permutation(batches.rows)).set_values({total: 0.0})
    for _ in wb.sequential_loop(bindings):
        ctx = rate.set_step(ctx, number).run(routine)
        number += 1
    print(f"epoch {epoch + 1}: loss {ctx.get_values(total) / batches.count:.6f}")

# %% [markdown]
# ## Recipe 1: accumulation
#
# Four micro-steps make one update, as one batch of 256 rows would. Gradients are zeroed by a routine of their own;
# each micro-step adds a quarter. The ledger of the context counts: a fifth micro-step without an update in between is
# refused.

# %%
params = perceptron()
loss = loss_of(params)
ctx, zero = wb.Context.cpu().compile(wb.zero_params_grads(loss))
ctx, micro = ctx.compile(wb.grad_update(loss, accum_steps=4), bindings=bindings)
ctx, update = ctx.compile(wb.sgd_update(loss, learning_rate=0.5, momentum=0.9))
ctx = batches.in_order(ctx)

for window in range(3):
    ctx = ctx.run(zero)
    for bindings[batches.index] in range(4 * window, 4 * window + 4):
        ctx = ctx.run(micro)
    norm = np.sqrt(sum((ctx.get_values(wb.gradient_of(p)) ** 2).sum() for p in params.values()))
    print(f"window {window + 1}: norm of the mean gradient {norm:.6f}")
    ctx = ctx.run(update)

try:
    ctx.run(micro)
except wb.ExecutionError as error:
    print(error.remedy)

# %% [markdown]
# ## Recipe 2: clipping
#
# The norm of all gradients is computed on the device, and so is the factor by which an update shortens them as it
# reads them. The gradients themselves stay as they are.

# %%
params = perceptron()
loss = loss_of(params)
clip = wb.clip_by_global_norm(loss, max_norm=0.5)
step = (
    wb.grad_update(loss)
    + clip.computation
    + wb.adamw_update(loss, learning_rate=0.01, weight_decay=0.1, grad_scale=clip.grad_scale)
)
ctx, routine = wb.Context.cpu().compile(step, bindings=bindings)
ctx = batches.in_order(ctx)
for bindings[batches.index] in range(4):
    ctx = ctx.run(routine)
    norm, factor = ctx.read([clip.grad_norm, clip.grad_scale])
    print(f"loss {ctx.get_values(loss):.6f}  norm {norm:.6f}  factor {factor:.6f}")

# %% [markdown]
# ## Recipe 3: loss scaling
#
# Parameters are narrowed to float16 for the forward pass, and gradients on their way back are rounded to it, too. A
# loss scale keeps small ones alive. If it is too large, they overflow: the step then skips itself, on the device, by
# selection. Every second step the host looks whether one was skipped, and the scale falls or grows.

# %%
x32, y32 = (wb.constant(a[:BATCH]) for a in (data.x.astype(np.float32), data.y))
masters = {name: wb.parameter(p.value.astype(np.float32), name) for name, p in perceptron().items()}
twins = {name: wb.cast_twin(p, "float16", gradient="float16") for name, p in masters.items()}
loss = loss_of(twins, x32.astype("float16"), y32).astype("float32").named("loss")

scaler = wb.LossScaler(2.0**20, growth_interval=4)
window, step = wb.gated_scaled_update(loss, scaler, learning_rate=0.1, momentum=0.9)
ctx, routine = wb.Context.cpu().compile(step, name="scaled step")
before = masters["b2"].value
for number in range(12):
    ctx, fine = wb.gated_step(
        ctx, routine, window=window, scaler=scaler, step=number, check_interval=2
    )
    now = ctx.get_values(masters["b2"])
    moved, before = not np.array_equal(now, before), now
    print(
        f"step {number}: {'moved  ' if moved else 'skipped'}  scale 2**{np.log2(scaler.value):.0f}"
    )

# %% [markdown]
# ## Recipe 4: outlier skipping
#
# A detector compares each loss with a window of those before it. The step is in two routines here, so that the host can
# look in between: an outlier is not applied. Batch 11 gets labels that are wrong.

# %%
params = perceptron()
y = wb.input("y", (BATCH,), "int64")
loss = loss_of(params, y=y)
ctx, gradients = wb.Context.cpu().compile(wb.grad_update(loss), bindings=bindings)
ctx, update = ctx.compile(wb.adam_update(loss, learning_rate=0.003))
ctx = batches.in_order(ctx)
detector = wb.OutlierDetector(window=8)
for bindings[batches.index] in range(14):
    rows = slice(BATCH * bindings[batches.index], BATCH * (bindings[batches.index] + 1))
    labels = data.y[rows] if bindings[batches.index] != 11 else (data.y[rows] + 1) % 10
    ctx = ctx.set_values({y: labels}).run(gradients)
    score = detector.update(float(ctx.get_values(loss)))
    is_outlier = score > 3.0
    if not is_outlier:
        ctx = ctx.run(update)
    if bindings[batches.index] >= 8:
        what = "skipped" if is_outlier else "applied"
        print(f"batch {bindings[batches.index]}: z {score:+.2f}  {what}")

# %% [markdown]
# ## Recipe 5: a frozen backbone
#
# `stop_gradient` cuts the way back. The first layer is still read, initialised and saved, and neither zeroed, normed
# nor stepped, so that weight decay leaves it alone.

# %%
params = perceptron()
backbone = {name: wb.stop_gradient(params[name]) for name in ("w1", "b1")}
loss = loss_of({**params, **backbone})
print("reads ", [p.label for p in wb.loss_params(loss)])
print("trains", [p.label for p in wb.trainable_params(loss)])

step = wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=0.1, weight_decay=0.01)
ctx, routine = wb.Context.cpu().compile(step, bindings=bindings)
ctx = batches.in_order(ctx)
for _ in wb.sequential_loop(bindings):
    ctx = ctx.run(routine)
for name, param in params.items():
    same = np.array_equal(ctx.get_values(param), param.value)
    print(f"{name}: {'as it was' if same else 'trained'}")
