"""Every relative link of every page of the repository leads to a file that exists, and to one of
its headings; every page of `docs/` is in an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation import DOCS, ROOT, Page

FOLDERS = ("docs", "lab", "examples")
FILES = [*ROOT.glob("*.md"), *(f for each in FOLDERS for f in sorted((ROOT / each).rglob("*.md")))]
# Texts that papers' pages are made of have the links of those pages.
PAGES = {page.name: page for page in map(Page, FILES) if page.path.name != "notes.md"}
INDEXES = ("tutorial", "how-to", "reference", "explanation", "reproduction")


def broken(page: Page) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for link in page.links():
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (page.path.parent / path).resolve() if path else page.path
        leads = file.exists() and ROOT in file.parents
        if not leads or (anchor and (file.suffix != ".md" or anchor not in Page(file).anchors)):
            yield link


def test_there_are_pages() -> None:
    assert {"README.md", "lab/README.md", "docs/README.md"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    assert list(broken(PAGES[name])) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("documentation.ROOT", tmp_path)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "page.md"
    file.write_text(
        "# `Here` we are\n\n[a](page.md#here-we-are) [b](page.md#gone) [c](gone.md)\n"
        "![d](gone.svg) [e](https://example.org/gone) [f](#here-we-are) [g](#gone)\n"
    )
    assert list(broken(Page(file))) == ["page.md#gone", "gone.md", "gone.svg", "#gone"]


@pytest.mark.parametrize("folder", INDEXES)
def test_every_page_is_in_the_index_of_its_folder(folder: str) -> None:
    index = Page(DOCS / folder / "README.md")
    linked = {link.partition("#")[0] for link in index.links()}
    pages = {file.name for file in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert pages - linked == set()


def test_the_first_page_leads_to_every_index() -> None:
    linked = set(Page(DOCS / "README.md").links())
    assert {f"{folder}/README.md" for folder in INDEXES} <= linked


@pytest.mark.parametrize("folder", [*INDEXES[:-1], ""])
def test_every_index_leads_to_the_glossary(folder: str) -> None:
    index = Page(DOCS / folder / "README.md")
    found = {(index.path.parent / link).resolve() for link in index.links()}
    assert DOCS / "explanation" / "glossary.md" in found
