"""How many launches an update is."""

import numpy as np
import pytest

import workbench as wb

SHAPES = [(3, 5), (7,), (), (4, 2, 6), (130,), (9, 9), (64,), (2, 33)] * 5
BUILDERS = {
    "sgd": wb.sgd_update,
    "adam": wb.adam_update,
    "adamw": wb.adamw_update,
    "rmsprop": wb.rmsprop_update,
    "lion": wb.lion_update,
}


def launches_of(ctx, routine, label):
    found = routine.launches(None, ctx.arrays())
    return [launch for launch in found if label in launch.label.split(", ")]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("gated", [False, True])
def test_an_update_of_many_tensors_is_one_launch(name, gated):
    params = [wb.parameter(np.ones(s, np.float32), f"p{n}") for n, s in enumerate(SHAPES)]
    loss = params[0].sum()
    gate = wb.host_scalar("gate", 1.0) if gated else None
    update = BUILDERS[name](
        loss, learning_rate=wb.host_scalar("lr", 0.1), params=params, update_gate=gate
    )
    ctx, routine = wb.Context.cpu(1).compile(update)
    found = routine.launches(None, ctx.arrays())
    labels = [set(launch.label.split(", ")) for launch in found]
    with_axes = {p.label for p in params if p.shape}
    assert sum(bool(with_axes & each) for each in labels) == 1
    # Numbers, the parameters of no axis among them, are another.
    assert len(found) <= 2


def test_a_clipped_update_of_many_tensors_steps_them_in_one_launch():
    params = [wb.parameter(np.ones(s, np.float32), f"p{n}") for n, s in enumerate(SHAPES)]
    clip = wb.clip_by_global_norm(params[0].sum(), max_norm=1.0, params=params)
    update = wb.adamw_update(
        params[0].sum(), learning_rate=0.1, grad_scale=clip.grad_scale, params=params
    )
    ctx, routine = wb.Context.cpu(1).compile(clip.computation + update)
    assert len(launches_of(ctx, routine, "p0")) == 1
    assert launches_of(ctx, routine, "p0") == launches_of(ctx, routine, "p39")
