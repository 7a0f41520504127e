"""Tables in pages of Markdown: made of rows, and put between the marks that a page has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reefcast.errors import LocalError


def fill(page: Path, block: str, text: str, command: str = "match") -> None:
    """Put `text` between the page's marks of this block; `LocalError` if there are none."""
    start = f"<!-- {block}: made by `reefcast-lab bench {command}` -->"
    end = f"<!-- end of {block} -->"
    old = page.read_text(encoding="utf-8")
    if old.count(start) != 1 or old.count(end) != 1:
        raise LocalError(f"{page} has no place for the {block}: write {start} and {end} into it")
    before, rest = old.split(start)
    after = rest.split(end)[1]
    page.write_text(f"{before}{start}\n\n{text}\n{end}{after}", encoding="utf-8")


def short(number: float | None) -> str:
    """Return a number with three digits, or more where they are whole."""
    if number is None:
        return ""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def markdown(titles: Sequence[str], lines: Iterable[Sequence[str]], align: str = "") -> str:
    """Return a table. `align`: l or r for each column; without it, all but the first go right."""
    rules = {"l": "---", "r": "--:"}
    marks = [rules[side] for side in align or "l" + "r" * (len(titles) - 1)]
    head = [" | ".join(titles), "|".join(marks)]
    return "".join(f"| {line} |\n" for line in [*head, *map(" | ".join, lines)])
