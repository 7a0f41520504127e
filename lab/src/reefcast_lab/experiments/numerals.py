"""Numbers on pages, in one style."""

from __future__ import annotations


def thin(number: str) -> str:
    """Put thin spaces in place of the commas between thousands."""
    return number.replace(",", "\N{NARROW NO-BREAK SPACE}")


def short(number: float) -> str:
    """Return a number with three digits, or more where they are whole."""
    return thin(f"{number:,.0f}") if abs(number) >= 100 else f"{number:.3g}"
