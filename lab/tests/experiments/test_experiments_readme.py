"""The first page's numbers of the papers' figures are the sums of those on their pages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
COUNTS = re.compile(
    r"^\|.*?\.md\) \| paper \| \d+ \| (\d+) \| (\d+) \| (\d+) \| \d+ \|$", re.MULTILINE
)


def test_the_first_page_counts_what_is_reproduced() -> None:
    pages = (ROOT / "docs" / "reproduction" / "README.md").read_text(encoding="utf-8")
    papers = COUNTS.findall(pages)
    assert len(papers) == pages.count(".md) | paper |") >= 5
    reproduced, explained, missed = (sum(map(int, column)) for column in zip(*papers, strict=True))
    first = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"Of the {reproduced + explained + missed} figures that the papers give, {reproduced} are "
        "reproduced" in first
    )
    assert f"{explained} differ for a reason" in first
    assert f"and {missed} are not reproduced" in first
