"""Pages of Markdown, taken apart: code blocks with their marks, links, and the anchors of headings.

A comment right before a block says what becomes of it. Readers see none of these comments.

<!-- file: NAME -->           the block is this file, in the directory where the page's commands run
<!-- added to: NAME -->       the block is added to that file
<!-- stays -->                the command runs until the end of the page
<!-- prints -->               what the block before this one prints
<!-- printed by: COMMAND -->  what a command that stays prints; COMMAND is how its line begins
<!-- run by: FILE -->         a test of its own runs the block
<!-- not run: REASON -->      nobody runs it

All blocks of a page in one language share a mark where the page says so anywhere outside of them:
<!-- python of this page: run by: FILE -->. What has no mark is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = "<!-- made by "
"""How a page begins that a program writes, except for `faults.md`."""
MARKS = ("file", "added to", "stays", "prints", "printed by", "run by", "not run")
_COMMENT = re.compile(r"<!-- (?:(\w+) of this page: )?([a-z ]+?)(?:: (.+?))? -->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` counts from 1. `mark` is one of `MARKS` or empty, `about` is what
    follows its colon."""

    language: str
    text: str
    line: int
    mark: str
    about: str


class Page:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")

    @property
    def is_made(self) -> bool:
        return self.text.startswith(MADE)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in their order; an indented block has the language "indented"."""
        shared = {
            language: (mark, about or "")
            for language, mark, about in _COMMENT.findall(self.text)
            if language
        }
        before = ""
        for token in blocks_of(self.text):
            if token.type in {"fence", "code_block"}:
                language = token.info.strip() if token.type == "fence" else "indented"
                found = [each for each in _COMMENT.findall(before) if not each[0]]
                mark, about = found[-1][1:] if found else shared.get(language, ("", ""))
                assert token.map is not None
                yield Block(language, token.content, token.map[0] + 1, mark, about)
            before = token.content if token.type == "html_block" else ""

    def links(self) -> Iterator[str]:
        """Yield the targets of links and images, as they are written."""
        for token in tokens_of(self.text):
            for child in token.children or ():
                target = child.attrGet("href") or child.attrGet("src")
                if child.type in {"link_open", "image"} and target:
                    yield str(target)

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of all headings, as code hosts and the site spell them."""
        found: set[str] = set()
        for heading, inline in pairwise(tokens_of(self.text)):
            if heading.type == "heading_open":
                slug = first = anchor(inline)
                count = 0
                while slug in found:
                    count += 1
                    slug = f"{first}-{count}"
                found.add(slug)
        return found


@cache
def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a page; most pages are asked for by several tests."""
    return MarkdownIt("commonmark").enable("table").parse(text)


@cache
def blocks_of(text: str) -> list[Token]:
    """Return the same tokens without what the lines of texts are made of, in a third of the time:
    every process that collects tests asks for the blocks of all pages."""
    return MarkdownIt("commonmark").enable("table").disable("inline").parse(text)


def anchor(inline: Token) -> str:
    """Return the anchor of a heading with this text."""
    kinds = {"text", "code_inline"}
    words = "".join(child.content for child in inline.children or () if child.type in kinds)
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


def written_pages() -> list[Page]:
    """Return the pages of `docs/` that people write."""
    pages = [Page(path) for path in sorted(DOCS.rglob("*.md"))]
    return [page for page in pages if not page.is_made]


def page(path: str) -> Page:
    """Return one page of `docs/`."""
    return Page(DOCS / path)
