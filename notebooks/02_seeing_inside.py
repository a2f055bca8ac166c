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
# # See inside a model
#
# A compiler decides for you which numbers get memory and which are computed on the way and forgotten. That makes a step fast, and it
# makes some numbers unreadable. Here you look at every number of a small classifier, meet one that cannot be read, find out who
# decided so, and change that.
#
# Run the cells from top to bottom with Shift+Enter. Looking changes nothing: whatever you ask, the model goes on as if you had not.

# %% [markdown]
# ## A classifier with nine weights
#
# Three points of two numbers each, and for each the answer, yes (1) or no (0). The loss is the cross-entropy of the logit.

# %%
import workbench as wb

x = wb.input("x", (wb.batch, 2))
y = wb.input("y", (wb.batch, 1))
w1 = wb.parameter([[1.0, -1.0, 0.5], [0.5, 2.0, -1.5]], "w1")
w2 = wb.parameter([[1.0], [-2.0], [0.5]], "w2")

hidden = wb.tanh(x @ w1).named("hidden")
logit = (hidden @ w2).named("logit")
loss = (wb.softplus(logit) - y * logit).mean().named("loss")

# %% [markdown]
# ## Before anything has run
#
# `printf_tree` draws a graph with its root on top and what each node is computed from below it. In a context in which nothing was
# compiled only the weights have values. `absent` means that nobody has said yet how the others are to be computed.

# %%
empty = wb.Context.cpu(threads=1)
empty.printf_tree(logit)

# %% [markdown]
# Now a step of gradient descent is compiled. It asks for the loss and for new weights, and for nothing else. Without values the tree
# shows where each node lives, with the number of the rule that decided:
#
# * `Dev`: on the device, in memory that lasts. Inputs, weights and what you asked for.
# * `Local`: in memory for the time of a step, which other nodes use again.
# * `Virt`: nowhere. Whoever reads the node computes it.

# %%
grads = wb.backward(loss, [w1, w2])
updates = {w: w - 0.5 * grads[w] for w in grads}
compiled, step = empty.compile([loss], updates=updates, name="step")
compiled.printf_tree(loss, with_value=False)

# %% [markdown]
# ## After a run
#
# The loss is there. So are the products `x @ w1`, although they are virtual: they are computed again when you look, from the weights
# as they are *now*. In brackets stands a node that is drawn elsewhere.

# %%
points = {x: [[1.0, 2.0], [-1.0, 0.5], [0.0, -1.0]], y: [[1.0], [0.0], [1.0]]}
ctx = compiled.set_values(points).run(step)
ctx.printf_tree(loss)

# %% [markdown]
# ## An activation that cannot be read
#
# `hidden` is missing. It is needed twice, by the logit and by the gradient of `w2`, so rule 1 gave it memory for the time of the step.
# The bytes have been used for something else since.

# %%
print(ctx.observability(hidden))

# %% [markdown]
# The logit is virtual. It could be computed again, if what it reads were there. So it cannot be read either, and the answer names the
# node at fault. Nothing was compiled to find that out.

# %%
print(ctx.observability(logit))

# %% [markdown]
# `wb.why` says the same of `hidden` on a card, and offers what can be done about it, with what it costs. In JupyterLab its buttons work: press one.

# %%
card = wb.why(hidden, ctx)
card

# %% [markdown]
# Pressing the first button is the same as this line. It compiles the step once more, in memory of its own, with the decision that
# `hidden` is stored, and runs it from the same values. `ctx` stays as it was.

# %%
done = card.apply("materialize")
print(done.observability)

# %%
done.context.get_values(hidden).round(3)

# %% [markdown]
# Now the logit can be read as well. `hidden` is as the step computed it; the product below it is computed as you look, from weights
# that have taken another step.

# %%
done.context.printf_tree(logit)

# %% [markdown]
# What does it cost? Three rows of three numbers of four bytes each. (The time of a step is measured as well. Press the button to see it.)

# %%
done.after.stored_bytes - done.before.stored_bytes

# %% [markdown]
# ## Decide yourself: two siblings
#
# The card decides for you. You can do it by hand: a decision gives a new context, and binds what is compiled in it from then on. Two
# decisions made of the same context know nothing of each other.

# %%
stored, stored_step = empty.decide_materialized(hidden).compile(
    [loss], updates=updates, name="step"
)
inlined, inlined_step = empty.decide_inline(hidden).compile([loss], updates=updates, name="step")
[str(each.placements[hidden]) for each in (compiled, stored, inlined)]

# %% [markdown]
# A context knows where it comes from. These are all contexts that were made of `empty` and that you still hold:

# %%
print(inlined.lineage())

# %% [markdown]
# Whatever is decided, the numbers are the same:

# %%
left = stored.set_values(points).run(stored_step)
right = inlined.set_values(points).run(inlined_step)
left.get_values(loss), right.get_values(loss), ctx.get_values(loss)

# %% [markdown]
# Side by side, the table of placements shows what the decision to inline changed: `hidden` lost its memory,
# which made the logit dear enough to get some (rule 60). In JupyterLab you can sort it, pick a mode, or see the changes only.

# %%
print(wb.placements(ctx, right))

# %% [markdown]
# ## What could be decided
#
# The decision surface lists every node that could live elsewhere, with the work that it costs to compute the node anew, dearest first. Storing
# saves that work, inlining spends it. Asking compiles nothing.

# %%
empty.decision_surface([loss], updates=updates)

# %% [markdown]
# ## Walk through the graph
#
# In JupyterLab `wb.tree` is the same tree as above, made for large graphs. Use the arrow keys, type a name, or search. Enter shows the value of
# a node with its histogram, its gradient, who reads it, and its card. Elsewhere you see the text.

# %%
wb.tree(loss, done.context, grads=grads)

# %% [markdown]
# ## Where to go next
#
# * [How a program becomes native code](../docs/explanation/pipeline.md): what placement is for, and what comes after it.
# * [Seeing inside](../docs/explanation/seeing_inside.md): the three views, their keys, and what they cost.
# * [The loop](03_the_loop.ipynb): training with schedules, early stopping, checkpoints.
