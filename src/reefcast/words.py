"""Numbers with the nouns that they count, in messages."""

from __future__ import annotations


def noun(number: float, one: str, several: str = "") -> str:
    """Return the noun for so many: `one`, or `several` (by default with an s)."""
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "") -> str:
    """Write 1 and "link" as "1 link", 2000 as "2,000 links"."""
    return f"{number:,} {noun(number, one, several)}"
