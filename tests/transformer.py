"""A language model of transformer blocks with its training step, built of the public operations.

In: sizes. Out: the outputs and updates of a step of Adam. Invariant: the graph is the same for the
same sizes.
"""

from dataclasses import dataclass

import numpy as np

import workbench as wb


@dataclass(frozen=True)
class Sizes:
    """Layers, width, heads, tokens of a text and of the vocabulary."""

    layers: int
    width: int = 64
    heads: int = 4
    tokens: int = 16
    vocabulary: int = 32


def _parameter(name: str, *shape: int) -> wb.Tensor:
    chance = np.random.default_rng(len(name))
    return wb.parameter((chance.normal(size=shape) * 0.02).astype(np.float32), name)


def _parameters(sizes: Sizes) -> dict[str, wb.Tensor]:
    width = sizes.width
    shapes: dict[str, tuple[int, ...]] = {"embedding": (sizes.vocabulary, width)}
    shapes["position"] = (sizes.tokens, width)
    for layer in range(sizes.layers):
        for name in ("query", "key", "value", "out"):
            shapes[f"{name}{layer}"] = (width, width)
        shapes |= {f"up{layer}": (width, 4 * width), f"down{layer}": (4 * width, width)}
        shapes |= {f"{gain}{layer}": (width,) for gain in ("gain", "shift", "gain2", "shift2")}
    shapes["head"] = (width, sizes.vocabulary)
    return {name: _parameter(name, *shape) for name, shape in shapes.items()}


def _normed(x: wb.Tensor, gain: wb.Tensor, shift: wb.Tensor) -> wb.Tensor:
    centred = x - x.mean(-1, keepdims=True)
    variance = wb.square(centred).mean(-1, keepdims=True)
    return centred * wb.rsqrt(variance + 1e-5) * gain + shift


def _attended(x: wb.Tensor, p: dict[str, wb.Tensor], layer: int, sizes: Sizes) -> wb.Tensor:
    tokens, heads, width = sizes.tokens, sizes.heads, sizes.width
    each = width // heads
    q, k, v = (
        (x @ p[f"{name}{layer}"]).reshape(wb.batch, tokens, heads, each)
        for name in ("query", "key", "value")
    )
    scores = wb.einsum("bqhd,bkhd->bhqk", q, k) * each**-0.5
    late = wb.iota((tokens, tokens), 0) < wb.iota((tokens, tokens), 1)
    weights = wb.softmax(wb.where(late, -1e9, scores))
    mixed = wb.einsum("bhqk,bkhd->bqhd", weights, v).reshape(wb.batch, tokens, width)
    return mixed @ p[f"out{layer}"]


def training_step(sizes: Sizes) -> tuple[list[wb.Tensor], dict[wb.Tensor, wb.Tensor]]:
    """Return the loss, and what a step of Adam makes of all state."""
    params = _parameters(sizes)
    words = wb.input("words", (wb.batch, sizes.tokens), "int32")
    following = wb.input("following", (wb.batch, sizes.tokens), "int32")
    rate = wb.input("rate", ())

    def loss(p: dict[str, wb.Tensor], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
        h = wb.take(p["embedding"], x) + p["position"]
        for layer in range(sizes.layers):
            normed = _normed(h, p[f"gain{layer}"], p[f"shift{layer}"])
            h = h + _attended(normed, p, layer, sizes)
            normed = _normed(h, p[f"gain2{layer}"], p[f"shift2{layer}"])
            h = h + wb.gelu(normed @ p[f"up{layer}"]) @ p[f"down{layer}"]
        return wb.cross_entropy(h @ p["head"], y)

    fresh = wb.adam(params)
    m = {name: wb.parameter(value, f"m_{name}") for name, value in fresh.m.items()}
    v = {name: wb.parameter(value, f"v_{name}") for name, value in fresh.v.items()}
    t = wb.parameter(fresh.t, "t")
    opt = wb.OptState("adam", m, v, t, fresh.b1, fresh.b2, fresh.eps)
    result = wb.default_step(params, opt, words, following, rate, loss)
    updates = {t: result.opt.t}
    for old, new in ((params, result.params), (m, result.opt.m), (v, result.opt.v)):
        updates |= {old[name]: new[name] for name in old}
    return [result.loss], updates
