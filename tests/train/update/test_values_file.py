"""Values in files, and computations as text."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import BIAS, Linear, W
from workbench.errors import DataError


def saved(tmp_path, **options):
    model = Linear(frozen=True)
    ctx = wb.init_params(wb.Context.interpreter(), model.loss)
    path = wb.save_values(ctx, wb.loss_params(model.loss), tmp_path / "p.safetensors", **options)
    return model, ctx, path


def values(nodes):
    return {label: wb.Context.interpreter().get_values(node) for label, node in nodes.items()}


def test_saved_parameters_come_back_bit_by_bit_frozen_ones_too(tmp_path):
    model, ctx, path = saved(tmp_path)
    moved = ctx.set_values({model.w: W * 0.0, model.bias: BIAS + 1.0})
    back = wb.restore_values(moved, wb.loss_params(model.loss), path)
    assert back.get_values(model.w).tobytes() == W.tobytes()
    assert back.get_values(model.bias).tobytes() == BIAS.tobytes()
    assert set(load_file(path)) == {"w", "bias"}


def test_values_become_new_parameters(tmp_path):
    model, _, path = saved(tmp_path)
    loaded = wb.load_values(path)
    assert set(loaded) == {"w", "bias"}
    assert loaded["w"] is not model.w
    assert values(loaded)["w"].tobytes() == W.tobytes()
    assert loaded["bias"].label == "bias"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int64"])
def test_every_type_is_kept(tmp_path, dtype):
    node = wb.parameter(np.array([1.0, 2.5, -3.0]).astype(np.int64), "node", dtype=dtype)
    path = wb.save_values(wb.Context.interpreter(), [node], tmp_path / "n.safetensors")
    loaded = wb.load_values(path)
    assert loaded["node"].dtype is node.dtype
    assert values(loaded)["node"].tobytes() == values({"node": node})["node"].tobytes()


def test_appending_replaces_the_same_labels_and_keeps_the_others(tmp_path):
    model, ctx, path = saved(tmp_path)
    other = wb.parameter([1.0], "other")
    ctx = ctx.set_values({model.bias: BIAS * 2.0})
    wb.save_values(ctx, [model.bias, other], path, append=True)
    loaded = wb.load_values(path)
    assert set(loaded) == {"w", "bias", "other"}
    assert np.array_equal(values(loaded)["bias"], BIAS * 2.0)
    wb.save_values(ctx, [other], path)
    assert set(wb.load_values(path)) == {"other"}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (W.astype(np.float32), ("float64", "float32")),
        (W.T.copy(), ("(2, 3)", "(3, 2)")),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changed(tmp_path, value, named):
    _, ctx, path = saved(tmp_path)
    other = wb.parameter(value, "w")
    bias = wb.parameter(BIAS * 0.0, "bias")
    with refused(DataError, "`w`", *named):
        wb.restore_values(ctx, [bias, other], path)
    assert bias not in ctx.initialized


def test_a_label_that_is_not_in_the_file_is_refused_with_those_that_are(tmp_path):
    _, ctx, path = saved(tmp_path)
    with refused(DataError, "`scale`", "`bias`", "`w`"):
        wb.restore_values(ctx, [wb.parameter([1.0], "scale")], path)


def test_nodes_need_labels_of_their_own(tmp_path):
    ctx, path = wb.Context.interpreter(), tmp_path / "p.safetensors"
    with refused(DataError, "no label"):
        wb.save_values(ctx, [wb.parameter([1.0])], path)
    with refused(DataError, "two nodes", "`w`"):
        wb.save_values(ctx, [wb.parameter([1.0], "w"), wb.parameter([2.0], "w")], path)
    assert not path.exists()


def test_a_file_of_another_kind_is_refused(tmp_path):
    run = wb.Run([np.zeros(2)], wb.sgd([np.zeros(2)]), wb.Config(1, 1, 0.1, 1, verbose=False))
    path = wb.save_checkpoint(run, tmp_path / "c.safetensors")
    with refused(DataError, "save_values", remedy="wb.restore"):
        wb.load_values(path)


# -- computations as text


def test_a_computation_is_written_as_text(tmp_path):
    model = Linear(frozen=True)
    both = wb.grad_update(model.loss, accum_steps=3) + wb.sgd_update(model.loss, learning_rate=0.1)
    path = wb.dump(both, tmp_path / "step" / "step.txt")
    text = path.read_text(encoding="utf-8")
    assert text == wb.dumped(both)
    lines = text.splitlines()
    assert lines[:6] == [
        "# loss gradient update",
        "# outputs: `loss`",
        "# updates: `bias`, `grad_bias`",
        "# owns the way back from: `loss`",
        "# accumulates into: `grad_bias`",
        "# runs between two resets: 3",
    ]
    assert lines[-1].startswith("bias[i] = ")


def test_two_dumps_of_one_program_are_the_same_text():
    texts = set()
    for _ in range(2):
        model = Linear()
        step = wb.grad_update(model.loss) + wb.adamw_update(model.loss, learning_rate=0.1)
        texts.add(wb.dumped(step, stage="kernels"))
    assert len(texts) == 1


def test_the_graph_of_a_computation_has_what_it_stores():
    model = Linear()
    text = wb.explain(wb.zero_params_grads(model.loss), stage="graph")
    assert "broadcast2: (2, 3) float64 = broadcast(constant)" in text.splitlines()


def test_labels_cannot_add_lines_to_a_dump():
    w = wb.parameter([1.0], "w\n# outputs: none")
    text = wb.dumped(wb.zero_params_grads(w.sum()))
    assert "\n# outputs: none" not in text


def test_a_parameter_is_printed_with_its_gradient(capsys):
    w = wb.parameter([1.0, 2.0], "w")
    loss = wb.square(w).sum()
    plain = wb.forward_once(wb.Context.interpreter(), loss)
    plain.printf(w)
    assert "grad_w" not in capsys.readouterr().out
    ctx = wb.update_once(wb.Context.interpreter(), loss)
    ctx.printf(w)
    text = capsys.readouterr().out
    assert "grad_w" in text
    assert "4.00" in text
    ctx.printf(w, with_grad=False)
    assert "grad_w" not in capsys.readouterr().out


def test_a_tree_shows_the_gradients_that_lie_in_the_context(capsys):
    a, b = wb.parameter(2.0, "a"), wb.parameter(-3.0, "b")
    loss = (a * b).named("loss")
    wb.update_once(wb.Context.interpreter(), loss).printf_tree(loss)
    text = capsys.readouterr().out
    assert "grad_a" in text
    assert "grad_b" in text
    wb.forward_once(wb.Context.interpreter(), loss).printf_tree(loss)
    assert "grad_a" not in capsys.readouterr().out
