"""What is said of nodes in messages to a page: plain lists, numbers and text.

In: rows, details, cards. Out: what JSON can carry, and float32 buffers beside it. Invariant: no
number in a message is NaN or infinite, which JSON has no word for, and no text is markup.
"""

from __future__ import annotations

from typing import Any, Final

from workbench.runtime.graph_view import Detail, Row, Shown
from workbench.runtime.number_format import format_number
from workbench.runtime.observe import Observability
from workbench.runtime.offer import Applied
from workbench.runtime.value_summary import Histogram, Picture, Summary
from workbench.runtime.why_card import WhyCard

MOST_SIGNS: Final = 300
"""A longer name is cut where it stands in a list; the details of the node have all of it."""

MOST_READERS: Final = 50


def cut(text: str) -> str:
    """Return ``text``, or so much of it as a list has room for."""
    return text if len(text) <= MOST_SIGNS else f"{text[: MOST_SIGNS - 1]}…"


def row_message(row: Row) -> list[Any]:
    """Return a row in the order in which the page takes it apart."""
    return [
        row.place,
        cut(row.name),
        row.shape,
        row.mode,
        cut(row.reading),
        row.is_readable,
        row.drawn_at,
    ]


def detail_message(detail: Detail) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the details of a node, and the buffers of its pictures."""
    buffers: list[memoryview] = []
    made = {
        "place": detail.row.place,
        "name": detail.row.name,
        "shape": detail.row.shape,
        "op": detail.row.node.op,
        "attributes": [[name, cut(text)] for name, text in detail.attributes],
        "value": _shown_message(detail.value, buffers),
        "gradient": None if detail.gradient is None else _shown_message(detail.gradient, buffers),
        "operands": [row_message(row) for row in detail.operands],
        "readers": [row_message(row) for row in detail.readers[:MOST_READERS]],
        "more_readers": max(0, len(detail.readers) - MOST_READERS),
    }
    return made, buffers


def _shown_message(shown: Shown, buffers: list[memoryview]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": shown.name,
        "why": _why(shown.observability),
        "grid": shown.grid,
    }
    if shown.summary is None:
        return made
    return {**made, **_summary_message(shown.summary, buffers)}


def _summary_message(summary: Summary, buffers: list[memoryview]) -> dict[str, Any]:
    return {
        "figures": [list(figure) for figure in summary.figures()],
        "has_bad": bool(summary.nans or summary.infinities),
        "size": summary.size,
        "histogram": _histogram_message(summary.histogram),
        "picture": _picture_message(summary.picture, buffers),
    }


def _histogram_message(histogram: Histogram | None) -> dict[str, Any] | None:
    if histogram is None:
        return None
    edges = [format_number(edge) for edge in (histogram.low, histogram.high)]
    return {"counts": histogram.counts.tolist(), "edges": edges}


def _picture_message(picture: Picture | None, buffers: list[memoryview]) -> dict[str, Any] | None:
    if picture is None:
        return None
    buffers.append(memoryview(picture.cells.tobytes()))
    rows, columns = picture.cells.shape[:2]
    return {
        "rows": rows,
        "columns": columns,
        "of": picture.of,
        "is_image": picture.is_image,
        "buffer": len(buffers) - 1,
    }


def _why(verdict: Observability) -> str:
    return "" if verdict.is_readable else verdict.problem


def card_message(card: WhyCard) -> dict[str, Any]:
    """Return what a card says and offers."""
    cost = card.cost()
    return {
        "name": cut(card.name),
        "sentence": card.sentence,
        "answer": card.answer,
        "readable": card.observability.is_readable,
        "path": [cut(name) for name in card.path],
        "routine": None if card.routine is None else cut(card.routine.name),
        "cost": [
            ["stored", f"{cost.stored_bytes:,} bytes"],
            ["scratch", f"{cost.scratch_bytes:,} bytes"],
        ],
        "offers": [
            [offer.name, offer.label, offer.expected, offer.is_refused] for offer in card.offers()
        ],
    }


def applied_message(applied: Applied) -> list[list[str]]:
    """Return what taking an offer changed, as names and text."""
    return [list(change) for change in applied.changes()]
