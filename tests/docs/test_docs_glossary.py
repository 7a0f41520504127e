"""The first use of a paper's term on a page links to the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from documentation import DOCS, ROOT, Page, tokens_of, written_pages

GLOSSARY = DOCS / "explanation" / "glossary.md"
TERMS = {
    r"SRTs?": "srt",
    r"PRTs?": "prt",
    r"LST": "lst",
    r"SCOTs?": "scot",
    r"[ai]Links?": "alink-ilink",
    r"CIVs?": "cluster-index-vector",
    r"CLT": "clt",
    r"TSC": "tsc",
    r"SPR": "spr",
    r"IDR": "idr",
    r"TID(?:-[SD])?": "tid",
    r"NRS": "nrs",
    r"MOMs?|WOMs?": "mom-wom",
    r"(?i:ghosts?)": "ghost",
    r"(?i:false positives?)": "false-positive",
    r"(?i:covering degree)": "covering-degree",
    r"(?i:soft links?)": "soft-link",
    r"(?i:primary tree)": "primary-tree",
    r"(?i:pure forwarders?)": "pure-forwarder",
    r"(?i:subgroups?)": "subgroup",
    r"(?i:anchors?)": "anchor",
    r"(?i:contacts?)": "contact",
    r"(?i:last hops?|next hops?)": "neighbour-link-hop",
    r"(?i:settled)": "settled",
}
"""How pages write a term, and its heading in the glossary. Terms that are also ordinary words
(view, walk, burst, root, region) are left to the authors."""
PAGES = {
    page.name: page
    for page in [
        *written_pages(),
        Page(ROOT / "README.md"),
        *map(Page, sorted((ROOT / "examples").rglob("*.md"))),
    ]
    if page.path != GLOSSARY
}


def words(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the text of a page in its order, without headings and code, and what it links to."""
    in_heading, target = False, ""
    for token in tokens_of(page.text):
        if token.type in {"heading_open", "heading_close"}:
            in_heading = token.type == "heading_open"
        for child in token.children or () if not in_heading else ():
            if child.type == "link_open":
                target = str(child.attrGet("href"))
            elif child.type == "link_close":
                target = ""
            elif child.type == "text":
                yield child.content, target


def unlinked(page: Page) -> Iterator[str]:
    """Yield the terms whose first use does not link to their place in the glossary."""
    found = list(words(page))
    for term, place in TERMS.items():
        pattern = re.compile(rf"(?<![\w-])(?:{term})(?![\w-])")
        first = next((target for text, target in found if pattern.search(text)), None)
        if first is not None and not first.endswith(f"glossary.md#{place}"):
            yield place


def test_the_glossary_has_the_terms() -> None:
    assert set(TERMS.values()) <= Page(GLOSSARY).anchors


@pytest.mark.parametrize("name", PAGES)
def test_the_first_use_of_a_term_leads_to_the_glossary(name: str) -> None:
    assert list(unlinked(PAGES[name])) == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("# The PRT\n\nA [PRT](explanation/glossary.md#prt), and again a PRT.", []),
        ("A PRT, and again a [PRT](explanation/glossary.md#prt).", ["prt"]),
        ("A [PRT](explanation/glossary.md#srt).", ["prt"]),
        ("| a |\n|---|\n| Ghosts |", ["ghost"]),
        ("`PRT`, PRTX, anti-ghost\n\n    PRT", []),
    ],
)
def test_a_term_without_a_link_is_seen(
    text: str, terms: list[str], tmp_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(GLOSSARY)
    page.text = text
    assert list(unlinked(page)) == terms
