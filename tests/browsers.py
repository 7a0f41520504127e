"""Pages in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO_BROWSER = "there is no chromium on this machine, and the page is tested in a real browser"
PATIENCE_MS = 60_000


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Yield a browser; skip the test if there is none."""
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
    browser: Browser, base: str, path: str = "", allowed: tuple[str, ...] = (), **context: Any
) -> AsyncIterator[Page]:
    """Yield a page at this address. In the end it must have had no error, and asked nobody else;
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
    await page.goto(base + path)
    yield page
    title = await page.title()
    await seen.close()
    assert not wrong, wrong
    assert title != "1"
