"""The example with a page in a browser: what its page says, and what a user sees who types."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from example_pages import EXAMPLES, Terminals, interrupt, line_with, lines, page
from playwright.async_api import Page, expect

from browsers import PATIENCE_MS, browser, page_of
from children import Children
from reefcast.server.supervisor import free_ports

pytestmark = [pytest.mark.live, pytest.mark.long]
NETWORK = "examples/flights_map/flights.toml"


@pytest.fixture
async def terminals(tmp_path: Path) -> AsyncIterator[Terminals]:
    """Yield terminals in which the commands of the page use free ports."""
    text = (EXAMPLES.parent / NETWORK).read_text(encoding="utf-8")
    async with Children() as children:
        terminals = Terminals(children, tmp_path)
        terminals.instead = {NETWORK: str(tmp_path / "flights.toml")}
        for port, free in zip((7301, 8080, 8000), free_ports(3), strict=True):
            terminals.instead[f"127.0.0.1:{port}"] = f"127.0.0.1:{free}"
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
        terminals.instead["examples/"] = f"{EXAMPLES}/"
        (tmp_path / "flights.toml").write_text(text, encoding="utf-8")
        yield terminals


async def has_only(seen: Page, column: int, value: str) -> None:
    """Wait until a column of the table, from 1, has this value in all of its rows."""
    cells = seen.locator(f"#rows td:nth-child({column})")
    await expect(cells.first).to_have_text(value)
    await expect(cells.filter(has_not_text=value)).to_have_count(0)


async def test_a_page_shows_what_matches_while_one_types(terminals: Terminals) -> None:
    (broker, traffic, show), [publishing, serving] = page("flights_map")
    tower = await terminals.start(broker)
    await line_with(tower, "broker tower listens on")
    publisher = await terminals.start(f"{traffic} --url reefcast://127.0.0.1:7301")
    assert await lines(publisher, 1) == publishing
    server = await terminals.start(show)
    said = await lines(server, 1)
    assert said == terminals.replaced(serving)
    base, mark, query = said.split()[1].partition("?")
    expect.set_options(timeout=PATIENCE_MS)
    async with browser() as chromium, page_of(chromium, base, mark + query) as seen:
        await expect(seen.locator("#link")).to_have_text("live")
        await has_only(seen, 3, "JFK")
        await seen.fill("#filter", "origin = 'SYD'")
        await has_only(seen, 2, "SYD")
        await seen.fill("#filter", "origin =")
        await expect(seen.get_by_role("alert")).to_contain_text("line 1, column 9: expected")
        await expect(seen.locator("#filter")).to_have_attribute("aria-invalid", "true")
        await has_only(seen, 2, "SYD")  # that filter is still in force
        await seen.fill("#filter", "altitude >= 0")
        await expect(seen.get_by_role("alert")).to_have_text("")
        await expect(seen.locator("#planes")).to_have_text(re.compile(r"^\d{4}$"))
    for program in (publisher, server, tower):
        await interrupt(program)
