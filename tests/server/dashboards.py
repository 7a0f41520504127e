"""A town of brokers with something to see, and a browser that looks at it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from playwright.async_api import Browser, Page, async_playwright

import reefcast
from asking_http import with_admin
from live_networks import make_network, url_of
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection, StorageEntry
from reefcast.server.node import Node

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_BROWSER = "there is no chromium on this machine, and the page is tested in a real browser"
PATIENCE_MS = 60_000
SCRIPT = "<img src=x onerror=document.title=1>"
"""What a stranger may call things, so that a page runs it that takes texts for markup."""


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        await found.close()


@asynccontextmanager
async def page_of(
    browser: Browser, base: str, allowed: tuple[str, ...] = (), **context: Any
) -> AsyncIterator[Page]:
    """A page at this address. In the end it must have had no error, and asked nobody else;
    `allowed`: what may stand in errors of the console."""
    wrong: list[str] = []
    size = context.pop("viewport", {"width": 1280, "height": 860})
    seen = await browser.new_context(viewport=size, reduced_motion="reduce", **context)
    page = await seen.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda said: (
            wrong.append(said.text)
            if said.type == "error" and not any(each in said.text for each in allowed)
            else None
        ),
    )
    page.on(
        "request", lambda asked: None if asked.url.startswith(base) else wrong.append(asked.url)
    )
    await page.goto(base)
    yield page
    title = await page.title()
    await seen.close()
    assert not wrong, wrong
    assert title != "1"


class Town:
    """Brokers a - b - c and b - d; `base`: where the page of a is. A client at c reads what is
    about IBM, slowly at d; the durable session `billing` of a is owed events."""

    def __init__(self, live: Live, network: NetworkFile) -> None:
        self.live = live
        self.network = network
        host, port = network.admin_address("a") or ("", 0)
        self.base = f"http://{host}:{port}/"
        self.writer: reefcast.Client
        self.reader: reefcast.Client

    @property
    def nodes(self) -> dict[str, Node]:
        return self.live.nodes

    async def publish(self, count: int = 1, **attributes: Any) -> None:
        for number in range(count):
            await self.writer.publish(symbol="IBM", price=50 + number, **attributes)


def town_network(folder: Path) -> NetworkFile:
    network = with_admin(make_network("abcd", [("a", "b"), ("b", "c"), ("b", "d")]))
    network.sessions = SessionsSection(directory=str(folder))
    network.storage = [StorageEntry("archive", "b", ["trades"], str(folder / "archive"))]
    return network.validate()


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        live = Live(stack)
        found = Town(live, town_network(folder))
        await live.up(found.network)

        async def client(broker: str, name: str) -> reefcast.Client:
            url = url_of(found.network, broker)
            return await stack.enter_async_context(reefcast.connect(url, name=name))

        found.writer, found.reader = await client("a", "writer"), await client("c", "reader")
        await found.writer.advertise("price > 0")
        kept = [await found.reader.subscribe("symbol = 'IBM' AND price > 10")]
        kept += [await found.reader.subscribe(f"symbol = '{SCRIPT}'")]
        for each in kept:
            await each.settled()
        owner = await client("a", "owner")
        session = await owner.session("billing")
        await session.subscribe("price > 60")
        stack.callback(kept.clear)  # a subscription that nobody holds ends
        stack.callback(lambda: session)
        reading = asyncio.create_task(_read(kept[0]))
        stack.callback(reading.cancel)
        for number in range(30):
            await live.client(live.nodes["d"], f"idle-{number:02}")
        yield found


async def _read(subscription: Any) -> None:
    async for _ in subscription:
        pass
