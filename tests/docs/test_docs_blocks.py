"""Every code block of the documentation runs, or names the test that runs it, or says why none
does."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs_terminal import Terminal, commands, matches, parse

from documentation import DOCS, MARKS, ROOT, Block, Page, written_pages
from reefcast.cli.main import group as product
from reefcast.network.file import read_network
from reefcast_lab.cli.main import group as laboratory

PAGES = {page.name: page for page in written_pages()}
LANGUAGES = {"python", "console", "sh", "toml", "ini", "text"}
GROUPS = {"reefcast": product, "reefcast-lab": laboratory}
ELSEWHERE = {"run by", "not run"}


def is_run(block: Block) -> bool:
    return block.mark not in ELSEWHERE and (block.language != "text" or block.mark != "")


RUN = [name for name, page in PAGES.items() if any(map(is_run, page.blocks()))]


def test_there_are_pages() -> None:
    assert len(PAGES) > 25
    assert len(RUN) > 10


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_fenced_and_marked(name: str) -> None:
    for block in PAGES[name].blocks():
        where = f"{name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language or 'nothing'}"
        assert block.mark in ("", *MARKS), f"{where}: {block.mark}"
        assert block.mark in {"", "stays", "prints"} or block.about, f"{where}: {block.mark}?"


@pytest.mark.parametrize("name", PAGES)
def test_the_test_that_runs_a_block_is_there(name: str) -> None:
    file = Path(name).name
    for block in PAGES[name].blocks():
        if block.mark == "run by":
            assert file in (ROOT / block.about).read_text(encoding="utf-8"), (name, block.line)


@pytest.mark.parametrize("name", RUN)
def test_blocks_run(name: str, tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        for block in filter(is_run, PAGES[name].blocks()):
            play(terminal, block)


def play(terminal: Terminal, block: Block) -> None:
    """Do what a reader would do with the block."""
    if block.mark in {"file", "added to"}:
        (terminal.write if block.mark == "file" else terminal.add)(block.about, block.text)
        written = (terminal.directory / block.about).read_text(encoding="utf-8")
        if "[[broker]]" in written:
            read_network(written)
    elif block.mark == "prints":
        assert matches(block.text, terminal.printed), terminal.printed
    elif block.mark == "printed by":
        terminal.wait_printed(block.about, block.text)
    elif block.language == "python":
        terminal.python(block.text)
    elif block.language == "console":
        for command, output in commands(block.text):
            (terminal.stay if block.mark == "stays" else terminal.run)(command, output)
    elif block.language == "toml":
        read_network(block.text)
    else:
        raise AssertionError(f"line {block.line}: say what becomes of this {block.language}")


# --- what is not run ------------------------------------------------------------------------------


def shown_commands(page: Page) -> Iterator[str]:
    """Yield the commands of blocks, and of systemd units."""
    for block in page.blocks():
        if block.language == "console":
            assert block.text.startswith("$ "), f"{page.name}:{block.line}: begin with `$ `"
            yield from (command for command, _ in commands(block.text))
        if block.language == "ini":
            unit = configparser.ConfigParser(strict=False, interpolation=None)
            unit.optionxform = str
            unit.read_string(block.text)
            yield unit["Service"]["ExecStart"].replace("%i", "north")


def words_of(command: str) -> tuple[str, list[str]] | None:
    """Return the words of a reefcast command with its arguments, after any variables."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    while words and "=" in words[0]:
        words.pop(0)
    name = Path(words[0]).name if words else ""
    return (name, words[1:]) if name in GROUPS else None


@pytest.mark.parametrize("name", PAGES)
def test_commands_are_those_that_there_are(name: str) -> None:
    for command in shown_commands(PAGES[name]):
        found = words_of(command)
        if found is not None and not {"--help", "--version"} & set(found[1]):
            parse(GROUPS[found[0]], found[1])


@pytest.mark.parametrize("words", ["brocker", "publish --nothing", "network", "network upp x.toml"])
def test_commands_that_there_are_not_are_found(words: str) -> None:
    with pytest.raises(click.UsageError):
        parse(product, words.split())


def test_outputs_are_compared() -> None:
    assert matches("a ... c\n", "a b c  \n") and matches("a\n...\nd", "a\nb\nc\nd")
    assert not matches("a ... c", "a b d") and not matches("a", "a b")


# --- commands in the text -------------------------------------------------------------------------

INLINE = re.compile(r"`(reefcast(?:-lab)?(?: [a-z][a-z-]*)+)")


@pytest.mark.parametrize("path", [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"], ids=str)
def test_commands_named_in_the_text_are_those_that_there_are(path: Path) -> None:
    for text in INLINE.findall(path.read_text(encoding="utf-8")):
        name, *words = text.split()
        command: click.Command | None = GROUPS[name]
        for word in words:
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word)
            assert command is not None, f"{path.name}: there is no `{text}`"
