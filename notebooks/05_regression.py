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
# # A regression, kept as a regression test
#
# A curve is learned from noisy points. The notebook is also a test: it is run again from top to bottom, and every
# number that it prints has to come out the same. So nothing in it depends on a clock.

# %%
import numpy as np

import workbench as wb

# %% [markdown]
# ## Points on a curve
#
# In float64, so that the printed digits are the same on every processor.

# %%
noise = np.random.default_rng(20260807)
x = np.sort(noise.uniform(-3.0, 3.0, (400, 1)), axis=0)
y = np.sin(2.0 * x) + 0.5 * x + 0.1 * noise.normal(size=x.shape)
train, held_out = wb.data.split(wb.data.Dataset(x, y, dtype=np.float64), 0.75, seed=7)
print(train)
print(held_out)


# %% [markdown]
# ## Model, loss and step


# %%
def initial():
    return {
        "w1": wb.he_normal(1, 32, seed=7, purpose="w1", dtype=np.float64),
        "b1": np.linspace(-3.0, 3.0, 32),
        "w2": wb.he_normal(32, 32, seed=7, purpose="w2", dtype=np.float64),
        "b2": wb.zeros(32, dtype=np.float64),
        "w3": wb.he_normal(32, 1, seed=7, purpose="w3", dtype=np.float64),
        "b3": wb.zeros(1, dtype=np.float64),
    }


def guess(params, x):
    hidden = wb.tanh(x @ params["w1"] + params["b1"])
    hidden = wb.tanh(hidden @ params["w2"] + params["b2"])
    return hidden @ params["w3"] + params["b3"]


def loss(params, x, y):
    return wb.mse(guess(params, x), y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)


def evaluation(params, x, y):
    found = guess(params, x)
    return {"loss": wb.mse(found, y), "mae": wb.mae(found, y), "r2": wb.r2(found, y)}


# %% [markdown]
# ## Train in the background, and watch
#
# The panel below is live while the run goes on. When it is over, it becomes a record: curves and tables that stay in
# the notebook and need neither a kernel nor a script.

# %%
# NBVAL_IGNORE_OUTPUT
config = wb.Config(epochs=600, batch_size=30, lr=0.01, seed=7, verbose=False)
run = wb.Run(initial(), wb.adam(initial()), config)
callbacks = [
    wb.EpochSchedule(wb.CosineRate(0.01, 600, least=0.0001)),
    wb.EarlyStopping("loss", 150, higher_is_better=False, restore_best=True),
]
run.start(callbacks, train, held_out, step, evaluation)
wb.watch(run)

# %% [markdown]
# Later cells run meanwhile; this one waits for the end. That the training went on beside it, and was looked at, changes
# no bit of it.

# %%
history = run.wait()
print(run)
print(run.state.stop_reason)

# %%
table = history.frame()[["epoch", "train_loss", "lr", "val_loss", "val_mae", "val_r2"]]
print(table.iloc[[0, 1, 9, 49, 99, -1]].round(4).to_string(index=False))

# %% [markdown]
# ## The same run again, without a panel

# %%
again = wb.Run(initial(), wb.adam(initial()), config)
again_callbacks = [
    wb.EpochSchedule(wb.CosineRate(0.01, 600, least=0.0001)),
    wb.EarlyStopping("loss", 150, higher_is_better=False, restore_best=True),
]
wb.fit(again, again_callbacks, train, held_out, step, evaluation)
same = {name: value.tobytes() == again.params[name].tobytes() for name, value in run.params.items()}
print(same)

# %% [markdown]
# ## What it learned

# %%
grid = np.linspace(-3.0, 3.0, 7)[:, None]
curve = np.sin(2.0 * grid) + 0.5 * grid
found = wb.predict(run, grid, 7, guess)
for at, true, learned in zip(grid[:, 0], curve[:, 0], found[:, 0], strict=True):
    print(f"x {at:5.1f}   curve {true:7.3f}   learned {learned:7.3f}")

# %%
final = wb.evaluate(run, held_out, evaluation)
print({name: round(float(value), 4) for name, value in final.items()})
