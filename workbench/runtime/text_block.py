"""Rectangles of text, and how they are put side by side and one above the other.

In: lines. Out: a `Block`, all of whose lines have one width on a terminal. Invariant: a block is
never changed, only put into larger ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

# Below U+0300 and among the frames of tables every character takes one column. Lines of a deep
# tree are thousands of columns long and mostly frame: one search is 100 times a loop's speed.
_UNUSUAL = re.compile("[^\x00-\u02ff\u2500-\u257f]")


def display_width(text: str) -> int:
    """Return the columns that ``text`` takes on a terminal.

    >>> display_width("loss"), display_width("損失")
    (4, 4)
    """
    if _UNUSUAL.search(text) is None:
        return len(text)
    return sum(_character_width(character) for character in text)


@cache
def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Return ``text`` with blanks after it up to ``width`` columns."""
    return text + " " * (width - display_width(text))


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a line of text for each of ``lines``, their parts in columns.

    >>> columns([("node", "bytes"), ("w", "16")])
    ['node  bytes', 'w     16']
    """
    widths = [max(map(display_width, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(pad(text, width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def counted(number: int, thing: str, plural: str = "") -> str:
    """Return how many things there are.

    >>> counted(1, "launch", "launches"), counted(1200, "node")
    ('1 launch', '1,200 nodes')
    """
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of one width.

    Attributes
    ----------
    lines
        Each ``width`` columns wide.
    width
        In columns of a terminal.
    """

    lines: tuple[str, ...]
    width: int

    @property
    def height(self) -> int:
        """Number of lines."""
        return len(self.lines)

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def fitted(self, width: int, height: int) -> Block:
        """Return the block with blanks to the right and below."""
        blank = " " * (width - self.width)
        lines = [line + blank for line in self.lines]
        return Block((*lines, *[" " * width] * (height - len(lines))), width)

    def centred(self, width: int) -> Block:
        """Return the block in the middle of ``width`` columns."""
        left = (width - self.width) // 2
        right = width - self.width - left
        return Block(tuple(" " * left + line + " " * right for line in self.lines), width)


def block(lines: Iterable[str]) -> Block:
    """Return ``lines`` as a block as wide as the widest."""
    texts = list(lines)
    width = max((display_width(text) for text in texts), default=0)
    return Block(tuple(pad(text, width) for text in texts), width)


def beside(blocks: Sequence[Block], separator: str) -> Block:
    """Return ``blocks`` side by side, their first lines level, ``separator`` between them."""
    height = max((each.height for each in blocks), default=0)
    level = [each.fitted(each.width, height) for each in blocks]
    width = sum(each.width for each in blocks) + display_width(separator) * (len(blocks) - 1)
    return Block(
        tuple(separator.join(lines) for lines in zip(*(b.lines for b in level), strict=True)),
        max(width, 0),
    )


def above(upper: Block, lower: Block) -> Block:
    """Return ``upper`` on top of ``lower``, the narrower of the two in the middle."""
    width = max(upper.width, lower.width)
    return Block(upper.centred(width).lines + lower.centred(width).lines, width)


def stacked(blocks: Sequence[Block]) -> Block:
    """Return ``blocks`` one under another, their left edges level."""
    width = max((each.width for each in blocks), default=0)
    return Block(tuple(line for each in blocks for line in each.fitted(width, 0).lines), width)


def framed(rows: Sequence[Sequence[Block]]) -> Block:
    """Return a table of blocks with lines around every cell."""
    columns = len(rows[0])
    widths = [max(row[column].width for row in rows) for column in range(columns)]
    lines = [_rule("┌┬┐", widths)]
    for number, row in enumerate(rows):
        if number:
            lines.append(_rule("├┼┤", widths))
        height = max(cell.height for cell in row)
        cells = [cell.fitted(width, height) for cell, width in zip(row, widths, strict=True)]
        lines.extend(
            "│" + "│".join(parts) + "│" for parts in zip(*(c.lines for c in cells), strict=True)
        )
    lines.append(_rule("└┴┘", widths))
    return Block(tuple(lines), sum(widths) + columns + 1)


def _rule(corners: str, widths: Sequence[int]) -> str:
    left, middle, right = list(corners)
    return left + middle.join("─" * width for width in widths) + right
