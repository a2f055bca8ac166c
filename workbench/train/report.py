"""What a run prints: numbers of fixed width, lines of text or JSON, bars.

In: plain numbers.  Out: text without a line end.  Invariant: the same numbers give the same text on
every machine; colours appear only when they are asked for.
"""

import json
import math
import os
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final, TextIO

__all__ = ["bar", "colours", "epoch_label", "fixed", "json_line", "printable", "text_line"]

# Below it, and for powers of ten up to this one, a half times twice the power is a whole float.
_EXACT: Final = 2.0**53
_EXACT_POWER: Final = 22
# The widest float has 309 digits before the point.
_DIGITS: Final = 400
_MUTED: Final = "\x1b[2m"
_VALUE: Final = "\x1b[36m"
_PLAIN: Final = "\x1b[0m"


def fixed(x: float, p: int) -> str:
    """Return ``x`` with exactly ``p`` digits after the point, halves rounded away from zero.

    What rounds to zero has no sign; what is not a number is ``nan``, ``inf`` or ``-inf``.

    Examples
    --------
    >>> fixed(0.9999, 3), fixed(-0.25, 4), fixed(-0.001, 2), fixed(float("nan"), 4)
    ('1.000', '-0.2500', '0.00', 'nan')
    """
    x = float(x)
    if not math.isfinite(x):
        return str(x)
    if p <= _EXACT_POWER:
        twice = abs(x) * 2.0 * 10.0**p
        if 1.0 < twice < _EXACT and not twice.is_integer():
            return f"{x:.{p}f}"  # no half, whose digits depend on the way of rounding
    with localcontext() as context:
        context.prec = _DIGITS
        rounded = Decimal(x).quantize(Decimal(1).scaleb(-p), rounding=ROUND_HALF_UP)
    return f"{rounded.copy_abs() if rounded.is_zero() else rounded:f}"


def epoch_label(epoch: int, total: int) -> str:
    """Return ``epoch``, right-aligned to the digits of ``total``.

    Examples
    --------
    >>> epoch_label(7, 100)
    'epoch   7/100'
    """
    return f"epoch {epoch:>{len(str(total))}}/{total}"


def text_line(
    label: str,
    *,
    loss: float,
    lr: float,
    val: Iterable[tuple[str, float]] = (),
    colour: bool = False,
) -> str:
    """Return the line that tells of an epoch.

    Parameters
    ----------
    label
        From `epoch_label`.
    loss
        The mean training loss.
    lr
        The learning rate.
    val
        Names and means of the last evaluation, in the order to show.
    colour
        Whether to mark labels and values with terminal colours; see `colours`.

    Examples
    --------
    >>> text_line("epoch  1/60", loss=1.04437, lr=0.0025, val=[("loss", 0.93457)])
    'epoch  1/60  loss 1.0444  lr 0.002500  val_loss 0.9346'
    """
    shown = [("loss", fixed(loss, 4)), ("lr", fixed(lr, 6))]
    shown += [(f"val_{printable(name)}", fixed(value, 4)) for name, value in val]
    parts = [_paint(label, _MUTED, colour)]
    parts += [
        f"{_paint(name, _MUTED, colour)} {_paint(value, _VALUE, colour)}" for name, value in shown
    ]
    return "  ".join(parts)


def json_line(
    *,
    epoch: int,
    epochs: int,
    global_step: int,
    lr: float,
    train_loss: float,
    val: Iterable[tuple[str, float]] = (),
) -> str:
    """Return an epoch as one line of JSON, floats in the shortest form that reads back the same.

    JSON has no NaN and no infinity: both are written as ``null``.

    Examples
    --------
    >>> json_line(epoch=1, epochs=2, global_step=3, lr=0.05, train_loss=9.5, val=[("loss", 9.25)])
    '{"epoch":1,"epochs":2,"global_step":3,"lr":0.05,"train_loss":9.5,"val_loss":9.25}'
    """
    record: dict[str, float | None] = {
        "epoch": epoch,
        "epochs": epochs,
        "global_step": global_step,
        "lr": _finite(lr),
        "train_loss": _finite(train_loss),
    }
    record |= {f"val_{name}": _finite(value) for name, value in val}
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def bar(done: int, total: int, width: int, *, unicode: bool = False, colour: bool = False) -> str:
    """Return a bar of ``width`` places, of which ``done * width // total`` are filled.

    More done than there is fills the bar and no more; with nothing to do it is blank.

    Examples
    --------
    >>> bar(5, 10, 10), bar(12, 10, 10), bar(3, 0, 4)
    ('[#####.....]', '[##########]', '[    ]')
    """
    width = max(width, 0)
    if total <= 0:
        return f"[{' ' * width}]"
    fill, track = ("█", "─") if unicode else ("#", ".")
    filled = min(max(done * width // total, 0), width)
    return f"[{_paint(fill * filled, _VALUE, colour)}{track * (width - filled)}]"


def colours(stream: TextIO) -> bool:
    """Return whether ``stream`` shows colours: a terminal that is not dumb, and no ``NO_COLOR``."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def printable(text: str) -> str:
    r"""Return ``text`` with everything that would move a cursor or end a line escaped.

    Examples
    --------
    >>> print(printable("top\n5"))
    top\n5
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _paint(text: str, code: str, colour: bool) -> str:
    return f"{code}{text}{_PLAIN}" if colour and text else text


def _finite(value: float) -> float | None:
    value = float(value)
    return value if math.isfinite(value) else None
