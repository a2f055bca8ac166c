"""Optimizers as their papers write them, one array at a time, in numpy and float64."""

import numpy as np


def sgd(p, g, s, lr, *, momentum=0.0, nesterov=False, weight_decay=0.0):
    """``torch.optim.SGD``'s documentation, without dampening."""
    d = g + weight_decay * p
    if momentum:
        s["b"] = momentum * s.get("b", 0.0) + d
        d = d + momentum * s["b"] if nesterov else s["b"]
    return p - lr * d


def adam(p, g, s, lr, *, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0, nesterov=False):
    """Kingma and Ba, algorithm 1."""
    return _adam(p, g + weight_decay * p, s, lr, b1, b2, eps, nesterov)


def adamw(p, g, s, lr, *, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, nesterov=False):
    """Loshchilov and Hutter, algorithm 2, in the form of PyTorch: the rate scales the decay."""
    return _adam(p - lr * weight_decay * p, g, s, lr, b1, b2, eps, nesterov)


def _adam(p, g, s, lr, b1, b2, eps, nesterov):
    t = s["t"] = s.get("t", 0) + 1
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0.0) + (1 - b2) * g**2
    top = s["m"] / (1 - b1**t)
    if nesterov:
        top = b1 * s["m"] / (1 - b1 ** (t + 1)) + (1 - b1) * g / (1 - b1**t)
    return p - lr * top / (np.sqrt(s["v"] / (1 - b2**t)) + eps)


def rmsprop(p, g, s, lr, *, decay=0.99, eps=1e-8, momentum=0.0, nesterov=False, weight_decay=0.0):
    """Tieleman and Hinton's lecture, with the momentum of ``torch.optim.RMSprop``."""
    g = g + weight_decay * p
    s["v"] = decay * s.get("v", 0.0) + (1 - decay) * g**2
    d = g / (np.sqrt(s["v"]) + eps)
    if momentum:
        s["b"] = momentum * s.get("b", 0.0) + d
        d = d + momentum * s["b"] if nesterov else s["b"]
    return p - lr * d


def lion(p, g, s, lr, *, b1=0.9, b2=0.99, weight_decay=0.0):
    """Chen et al., algorithm 2."""
    m = s.get("m", np.zeros_like(p))
    s["m"] = b2 * m + (1 - b2) * g
    return p - lr * (np.sign(b1 * m + (1 - b1) * g) + weight_decay * p)
