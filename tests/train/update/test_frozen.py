"""What a loss trains: frozen backbones, shared embeddings, two losses over one trunk."""

import numpy as np
import pytest

import workbench as wb
from tests.oracle.central_difference import difference
from tests.refusal import refused
from tests.train.update.problems import BIAS, CONTEXTS, Linear, T, W, X, run
from workbench.errors import GradientError

BUILDERS = {
    "sgd_update": lambda loss, **o: wb.sgd_update(loss, learning_rate=0.1, **o),
    "grad_l2_norm": wb.grad_l2_norm,
    "grad_checksum": wb.grad_checksum,
    "zero_params_grads": wb.zero_params_grads,
    "clip_by_global_norm": lambda loss, **o: wb.clip_by_global_norm(loss, max_norm=1.0, **o),
    "grad_update": wb.grad_update,
}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def test_a_frozen_parameter_is_read_and_not_trained():
    model = Linear(frozen=True)
    assert set(wb.loss_params(model.loss)) == {model.w, model.bias}
    assert set(wb.trainable_params(model.loss)) == {model.bias}
    assert set(wb.grad_update(model.loss).updates) == {wb.gradient_of(model.bias)}
    assert set(wb.zero_params_grads(model.loss).updates) == {wb.gradient_of(model.bias)}


def test_a_frozen_backbone_keeps_every_bit_in_spite_of_weight_decay(root):
    model = Linear(frozen=True)
    step = wb.sgd_update(model.loss, learning_rate=0.1, weight_decay=0.5)
    ctx = run(model.feed(root), wb.grad_update(model.loss) + step)
    w, bias = model.values(ctx)
    assert w.tobytes() == W.tobytes()
    assert np.all(bias != BIAS)
    feeds = {model.w: W, model.bias: BIAS, model.x: X, model.t: T}
    slope = difference(model.loss, model.bias, feeds)
    np.testing.assert_allclose(bias, BIAS - 0.1 * (slope + 0.5 * BIAS), rtol=1e-6, atol=1e-8)


def test_the_rest_of_a_frozen_model_accumulates_like_the_whole_batch(root):
    whole, half = Linear(frozen=True), Linear(frozen=True, rows=2)
    right = run(whole.feed(root), wb.grad_update(whole.loss))
    ctx, zero = root.compile(wb.zero_params_grads(half.loss))
    ctx, micro = ctx.compile(wb.grad_update(half.loss, accum_steps=2))
    ctx = half.feed(ctx.run(zero)).run(micro)
    ctx = half.feed(ctx, 2).run(micro)
    leaf = wb.gradient_of(half.bias)
    np.testing.assert_allclose(
        ctx.get_values(leaf), right.get_values(wb.gradient_of(whole.bias)), rtol=1e-12
    )


@pytest.mark.parametrize("name", BUILDERS)
def test_a_leaf_that_is_no_parameter_is_trained_only_by_name(name):
    loose = wb.input("loose", (2,), "float64")
    loss = wb.square(loose).sum()
    assert wb.loss_params(loss) == wb.trainable_params(loss) == ()
    with refused(GradientError, "trains nothing", "no parameter", remedy="params"):
        BUILDERS[name](loss)
    assert BUILDERS[name](loss, params=[loose]) is not None


def test_a_leaf_that_is_no_parameter_can_be_trained_by_name(root):
    loose = wb.input("loose", (2,), "float64")
    loss = wb.square(loose).sum()
    both = wb.grad_update(loss, params=[loose]) + wb.sgd_update(
        loss, learning_rate=0.25, params=[loose]
    )
    ctx = run(root.set_values({loose: np.array([2.0, -4.0])}), both)
    assert ctx.get_values(loose).tolist() == [1.0, -2.0]


@pytest.mark.parametrize("name", BUILDERS)
def test_a_loss_whose_parameters_are_all_frozen_is_refused_with_their_names(name):
    w = wb.parameter(np.ones(2), "backbone")
    loss = wb.square(wb.stop_gradient(w)).sum()
    with refused(GradientError, "`backbone`", "`stop_gradient`"):
        BUILDERS[name](loss)


def test_only_comparing_a_parameter_does_not_train_it():
    threshold, w = wb.parameter(np.ones(2), "threshold"), wb.parameter(np.ones(2), "w")
    loss = wb.where(w > threshold, w, 0.0).sum()
    assert set(wb.trainable_params(loss)) == {w}


def test_a_parameter_that_no_gradient_reaches_cannot_be_named():
    model = Linear(frozen=True)
    with refused(GradientError, "`w`", "no gradient"):
        wb.grad_update(model.loss, params=[model.w, model.bias])


def test_an_empty_list_of_parameters_is_refused():
    with refused(GradientError, "empty"):
        wb.grad_update(Linear().loss, params=[])


def test_a_gradient_leaf_belongs_to_its_parameter_for_as_long_as_it_lives():
    w = wb.parameter(np.ones((2, 3)), "w")
    leaf = wb.gradient_of(w)
    assert leaf is wb.gradient_of(w)
    assert (leaf.label, leaf.shape, leaf.dtype) == ("grad_w", w.shape, w.dtype)
    assert wb.gradient_of(wb.parameter(np.ones(2), "w")) is not leaf
    half = wb.parameter(np.ones(2), "half", dtype="float16")
    assert str(wb.gradient_of(half).dtype) == "float32"


def test_two_losses_over_one_trunk_are_summed_in_one_computation(root):
    rng = np.random.default_rng(3)
    shapes = {"w": (3, 4), "a": (4, 2), "b": (4, 1)}
    params = [wb.parameter(rng.standard_normal(s), n) for n, s in shapes.items()]
    feeds = {param: param.value for param in params}
    w, a, b = feeds
    hidden = wb.tanh(wb.constant(rng.standard_normal((5, 3))) @ w)
    loss = wb.square(hidden @ a).mean() + wb.exp(hidden @ b).mean()
    _check(run(root, wb.grad_update(loss)), loss, feeds)


def test_a_shared_embedding_collects_what_both_ends_say(root):
    embedding = wb.parameter(np.random.default_rng(5).standard_normal((6, 3)), "embedding")
    ids, labels = wb.constant(np.array([1, 4, 4, 0])), wb.constant(np.array([2, 5, 1, 1]))
    loss = wb.cross_entropy(wb.take(embedding, ids) @ embedding.T, labels)
    assert wb.trainable_params(loss)[0] is embedding
    _check(run(root, wb.grad_update(loss)), loss, {embedding: embedding.value})


def _check(ctx, loss, feeds):
    for param in feeds:
        found = ctx.get_values(wb.gradient_of(param))
        np.testing.assert_allclose(found, difference(loss, param, feeds), rtol=1e-6, atol=1e-8)
