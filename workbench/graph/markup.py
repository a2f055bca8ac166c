"""The little HTML that objects show in a notebook: cards and tables.

In: text as people wrote it. Out: HTML in which all of that text is escaped. Invariant: no text
becomes a tag, whatever a label holds; what is markup already is marked as such by `Markup`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Markup:
    """Text that is HTML already and must not be escaped again."""

    text: str


Content: TypeAlias = "str | Markup"


def escaped(content: Content) -> str:
    """Return ``content`` as HTML; control characters of plain text become visible.

    >>> escaped("<b>"), escaped(Markup("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    if isinstance(content, Markup):
        return content.text
    visible = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in content
    )
    return html.escape(visible)


def element(tag: str, *inner: Content) -> Markup:
    """Return ``inner``, one after another, in an element; ``tag`` may carry attributes."""
    name = tag.split(maxsplit=1)[0]
    return Markup(f"<{tag}>{''.join(escaped(part) for part in inner)}</{name}>")


def preformatted(text: str, style: str = "") -> Markup:
    r"""Return lines of text whose columns stay where they are.

    >>> preformatted("a < b\nc").text
    '<pre>a &lt; b\nc</pre>'
    """
    lines = Markup("\n".join(escaped(line) for line in text.split("\n")))
    return element(f"pre style='{style}'" if style else "pre", lines)


def table(
    header: Sequence[str], rows: Iterable[Sequence[Content]], caption: Content | None = None
) -> Markup:
    """Return a table with a line of headings."""
    head = element("tr", *(element("th scope='col'", each) for each in header))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    above = [] if caption is None else [element("caption", caption)]
    return element("table", *above, element("thead", head), element("tbody", *body))


def card(title: Content, rows: Iterable[tuple[str, Content]]) -> Markup:
    """Return a short table of names and what they are, under a title."""
    lines = [
        element("tr", element("th scope='row'", name), element("td", what)) for name, what in rows
    ]
    return element("table", element("caption", title), element("tbody", *lines))
