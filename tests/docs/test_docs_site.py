"""The site of the documentation builds without a warning, and can be read and searched offline."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documentation import ROOT

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(each) is None for each in ("sphinx", "myst_parser", "furo")),
    reason="`make site` installs what builds the site",
)
REMOTE = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=["'](?:https?:)?//"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|preconnect|icon))[^>]*\bhref=["'](?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//"""
)
"""What a browser would fetch from another server to show a page."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "-q", "--fail-on-warning", "-c", "docs/_site", "-d", folder / "made"]
    done = subprocess.run(
        [sys.executable, *words, ".", folder / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_every_page_is_there(site: Path) -> None:
    pages = [page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 35
    assert [page for page in pages if not (site / page.with_suffix(".html")).exists()] == []
    assert 'url=docs/README.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    shown = [file for file in site.rglob("*") if file.suffix in {".html", ".css"}]
    assert len(shown) > 50
    found = {file.name: REMOTE.findall(file.read_text(encoding="utf-8")) for file in shown}
    assert {name: urls for name, urls in found.items() if urls} == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example.org/x.js">',
        '<link href="//fonts.example.org/x.css" rel="stylesheet">',
        "@import url('https://fonts.example.org/x.css')",
        "src: url(https://fonts.example.org/x.woff2)",
    ],
)
def test_what_is_fetched_from_elsewhere_is_found(text: str) -> None:
    assert REMOTE.search(text)


def test_search_finds_words_of_the_pages(site: Path) -> None:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    for word, page in (
        ("ghost", "docs/explanation/covering"),
        ("systemd", "docs/how-to/operate"),
        ("nazaré", "docs/tutorial/first-network"),
    ):
        found = index["terms"][word]
        pages = [index["docnames"][n] for n in ([found] if isinstance(found, int) else found)]
        assert page in pages


@pytest.mark.parametrize("title", ["Tutorial", "How-to guides", "Reference", "Explanation"])
def test_the_navigation_has_the_kinds_of_pages(site: Path, title: str) -> None:
    page = (site / "docs" / "how-to" / "operate.html").read_text(encoding="utf-8")
    tree = page[page.index('class="sidebar-tree"') :]
    assert re.search(rf'<a class="reference internal" href="[./\w-]+">{title}</a>', tree)
    assert "glossary.html" in tree
