"""Numbers as people read them, with their units."""

from __future__ import annotations

from reefcast.words import noun


def count(value: float | None) -> str:
    """Write 1234567 as "1 234 567" (thin spaces)."""
    return "–" if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(number: int, what: str) -> str:
    """Write 1 and "link" as "1 link", 2 as "2 links"."""
    return f"{count(number)} {noun(number, what)}"


def short(value: float) -> str:
    """Write three digits and k, M or G, for labels in figures."""
    return _scaled(value, ((1e9, "G"), (1e6, "M"), (1e3, "k")), "")


def duration(value_us: float | None) -> str:
    """Write microseconds as µs, ms or s."""
    if value_us is None:
        return "–"
    return _scaled(value_us, ((1e6, " s"), (1e3, " ms")), " µs")


def size(value_bytes: float | None) -> str:
    """Write bytes as kB, MB or GB (powers of 1000)."""
    if value_bytes is None:
        return "–"
    return _scaled(value_bytes, ((1e9, " GB"), (1e6, " MB"), (1e3, " kB")), " B")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _scaled(value: float, units: tuple[tuple[float, str], ...], unit: str) -> str:
    for factor, name in units:
        if value >= factor:
            return f"{_three_digits(value / factor)}{name}"
    return f"{_three_digits(value)}{unit}"


def _three_digits(value: float) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"
