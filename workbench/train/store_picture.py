"""Curves of a run as a small picture that needs no script, no font and no library.

In: what a run keeps of its curves. Out: the text of an SVG, and a sentence that says the same.
Invariant: the same curves give the same text, and every name in it is escaped.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.train.report import printable
from workbench.train.store import RunStore

__all__ = ["Line", "chart", "charts", "sentence", "short"]

Array = npt.NDArray[Any]

_WIDTH: Final = 640
_HEIGHT: Final = 220
_LEFT: Final = 58
_RIGHT: Final = 12
_TOP: Final = 26
_BOTTOM: Final = 24
_POINTS: Final = 256
# Okabe and Ito's, and a dash for each, so that colours alone tell nothing.
_COLOURS: Final = ("#0072B2", "#B84E00", "#007A5A")
_DASHES: Final = ("", "6 3", "2 2")
_SPAN_FOR_LOGARITHMS: Final = 50.0
_NAME: Final = 40


@final
@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of a chart.

    Attributes
    ----------
    name
        What it shows.
    at
        The batch of each point.
    least, greatest, mean
        What each point stands for.
    """

    name: str
    at: Array
    least: Array
    greatest: Array
    mean: Array

    def known(self) -> Array:
        """Return its finite means."""
        return self.mean[np.isfinite(self.mean)]


def short(number: float) -> str:
    """Return a number in four digits.

    >>> [short(each) for each in (0.98125, 12345.6, 1e-30, float("nan"))]
    ['0.9812', '1.235e+04', '1e-30', 'nan']
    """
    return f"{number:.4g}"


def lines_of(store: RunStore, name: str) -> list[Line]:
    """Return what there is of a metric: over the batches, and over the evaluations."""
    found: list[Line] = []
    if name in store.batches:
        curve = store.curve(name, most=_POINTS)
        at = curve.first + curve.width * (np.arange(len(curve)) + 0.5)
        found.append(Line(f"{name} of each batch", at, curve.least, curve.greatest, curve.mean))
    if name in store.evaluations.columns:
        points = store.evaluations.points(name, most=_POINTS)
        values = points.values
        found.append(
            Line(f"{name} evaluated", points.at, values.least, values.greatest, values.mean)
        )
    return [line for line in found if len(line.known())]


def charts(store: RunStore) -> dict[str, list[Line]]:
    """Return the lines of each metric that has some: the loss first, as the loop names them."""
    names = dict.fromkeys((*store.batches, *store.evaluations.columns))
    made = {name: lines_of(store, name) for name in names}
    return {name: lines for name, lines in made.items() if lines}


def sentence(name: str, lines: Sequence[Line]) -> str:
    """Return what a chart shows, in words."""
    said: list[str] = []
    for line in lines:
        known = line.known()
        said.append(
            f"{printable(line.name)[:_NAME]}: first {short(known[0])}, last {short(known[-1])}, "
            f"least {short(np.nanmin(line.least))}, greatest {short(np.nanmax(line.greatest))}"
        )
    return "; ".join(said)


def chart(name: str, lines: Sequence[Line], stop: int) -> str:
    """Return an ``<img>`` of a metric's lines, over batches 0 to ``stop``."""
    octets = _svg(name, lines, stop).encode()
    address = f"data:image/svg+xml;base64,{base64.b64encode(octets).decode()}"
    said = escape(sentence(name, lines), quote=True)
    return f'<img alt="{said}" width="{_WIDTH}" height="{_HEIGHT}" src="{address}">'


def _svg(name: str, lines: Sequence[Line], stop: int) -> str:
    low = min(float(np.nanmin(line.least)) for line in lines)
    high = max(float(np.nanmax(line.greatest)) for line in lines)
    logarithmic = low > 0 and high / low > _SPAN_FOR_LOGARITHMS
    scale = _Scale(low, high, stop, logarithmic)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff" rx="4"/>',
        *_axes(scale, stop),
    ]
    at = _LEFT
    for number, line in enumerate(lines):
        colour, dash = _COLOURS[number % 3], _DASHES[number % 3]
        parts += _drawn(line, scale, colour, dash)
        label = escape(printable(line.name)[:_NAME])
        parts.append(
            f'<path d="M{at} 13h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
            f'<text x="{at + 27}" y="17">{label}</text>'
        )
        at += 60 + 6 * len(label)
    if logarithmic:
        parts.append(f'<text x="{_WIDTH - _RIGHT}" y="17" text-anchor="end">logarithmic</text>')
    return "".join((*parts, "</svg>"))


@final
class _Scale:
    def __init__(self, low: float, high: float, stop: int, logarithmic: bool) -> None:
        self.logarithmic = logarithmic
        self._low, self._high = self._bent(low), self._bent(high)
        if not self._high > self._low:
            half = 0.5 if logarithmic else max(abs(self._low) * 0.05, 1e-12)
            self._low, self._high = self._low - half, self._high + half
        self._stop = max(stop, 1)

    def _bent(self, value: Any) -> Any:
        return np.log10(value) if self.logarithmic else np.asarray(value, np.float64)

    def x(self, at: Any) -> Any:
        return _LEFT + np.asarray(at) / self._stop * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: Any) -> Any:
        share = (self._bent(value) - self._low) / (self._high - self._low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def ticks(self) -> Iterator[float]:
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            value = float(self._low + share * (self._high - self._low))
            yield 10.0**value if self.logarithmic else value


def _axes(scale: _Scale, stop: int) -> Iterator[str]:
    for value in scale.ticks():
        y = f"{float(scale.y(value)):.1f}"
        yield f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y}" dy="4" text-anchor="end">{value:.3g}</text>'
    bottom = _HEIGHT - 8
    yield f'<text x="{_LEFT}" y="{bottom}">0</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{bottom}" text-anchor="end">{stop} batches</text>'


def _drawn(line: Line, scale: _Scale, colour: str, dash: str) -> Iterator[str]:
    style = f'fill="none" stroke="{colour}" stroke-width="1.75" stroke-dasharray="{dash}"'
    for part in _unbroken(line):
        x, y = scale.x(line.at[part]), scale.y(line.mean[part])
        if len(x) == 1:
            yield f'<circle cx="{x[0]:.1f}" cy="{y[0]:.1f}" r="2.5" fill="{colour}"/>'
            continue
        if (line.greatest[part] > line.least[part]).any():
            above = _path(x, scale.y(line.greatest[part]))
            below = _path(x[::-1], scale.y(line.least[part])[::-1])
            yield f'<path d="M{above}L{below}Z" fill="{colour}" fill-opacity="0.2"/>'
        yield f'<path d="M{_path(x, y)}" {style}/>'


def _unbroken(line: Line) -> Iterator[slice]:
    known = np.isfinite(line.mean)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    for first, stop in zip(edges[::2], edges[1::2], strict=True):
        yield slice(int(first), int(stop))


def _path(x: Array, y: Array) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True) if math.isfinite(b))
