"""Places in a text, for the errors of parsers: line, column, and the line itself with a caret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SHOWN_BEFORE, _SHOWN_AFTER = 50, 30


class Place(NamedTuple):
    """`line` and `column` count from 1; `shown` is the line, cut to a readable width, with a caret
    below the place."""

    line: int
    column: int
    shown: str

    def said(self, message: str) -> str:
        """Return a message with the place in front and what is there below it."""
        return f"line {self.line}, column {self.column}: {message}\n{self.shown}"


def place_of(text: str, position: int) -> Place:
    """Return the place of a character, counted from 0; the end of the text is one, too."""
    line = text.count("\n", 0, position) + 1
    start = text.rfind("\n", 0, position) + 1
    return Place(line, position - start + 1, _shown(text, start, position))


def _shown(text: str, start: int, position: int) -> str:
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first, last = max(start, position - _SHOWN_BEFORE), min(end, position + _SHOWN_AFTER)
    before = "..." if first > start else ""
    after = "..." if last < end else ""
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + position - first)}^"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: a, b or c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
