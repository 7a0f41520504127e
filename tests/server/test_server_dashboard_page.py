"""The dashboard in a real browser: each view, a broker that dies while one looks, wrong rights, the
keyboard, phones, the dark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from dashboards import SCRIPT, Town, town
from playwright.async_api import Browser, Locator, Page, expect

from asking_http import with_admin
from browsers import PATIENCE_MS, browser, page_of
from live_networks import path_network, until
from reefcast.network.sections import RoleEntry
from secured import OTHER_PASSWORD, PASSWORD, secured

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.live, pytest.mark.long]
VIEWS = (
    *("overview", "brokers", "links", "tables", "clients", "sessions", "storages", "top"),
    *("explain", "follow", "broker/b"),
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    async with town(tmp_path_factory.mktemp("town")) as found:
        expect.set_options(timeout=PATIENCE_MS)
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: Browser, place: Town) -> AsyncIterator[Page]:
    async with page_of(chromium, place.base) as found:
        yield found


async def go(page: Page, view: str) -> None:
    await page.goto(f"{page.url.partition('#')[0]}#/{view}")


# --- the views -----------------------------------------------------------------------------------


async def test_the_overview(page: Page, place: Town) -> None:
    await expect(page.locator(".tile", has_text="Brokers up")).to_contain_text("4 of 4")
    await expect(page.locator("g.broker")).to_have_count(4)
    await expect(page.locator(".graph line.up")).to_have_count(3)
    await expect(page.locator(".tile", has_text="Clients")).to_contain_text("33")
    await expect(page.locator("#live")).to_have_text("live")
    await expect(page.locator("#where")).to_contain_text("test by a")


async def test_a_broker_dies_while_one_looks_and_comes_back(page: Page, place: Town) -> None:
    dying = page.locator("g.broker[data-broker=d]")
    await expect(dying).to_have_class("broker up")
    await place.live.crash(place.nodes["d"])
    await expect(dying).to_have_class("broker down")
    await expect(dying).to_contain_text("down")
    await expect(page.locator(".tile", has_text="Brokers up")).to_contain_text("3 of 4")
    await expect(page.locator(".problems .bad")).to_contain_text("d is down: 127.0.0.1")
    await expect(page.locator(".graph line.down")).to_have_count(1)
    await go(page, "broker/d")
    await expect(page.get_by_role("alert")).to_contain_text("It is down: 127.0.0.1")
    await place.live.node(place.network, "d")
    for number in range(30):
        await place.live.client(place.nodes["d"], f"idle-{number:02}")
    await expect(page.get_by_role("alert")).to_have_count(0)
    await go(page, "overview")
    await expect(page.locator(".graph line.up")).to_have_count(3)


async def test_brokers_and_links(page: Page, place: Town) -> None:
    await go(page, "brokers")
    await expect(page.locator("tbody tr")).to_have_count(4)
    await expect(page.locator("tr[data-key=d]")).to_contain_text("30")
    await page.get_by_role("button", name="Clients").click()
    await expect(page.locator("tbody tr").first).to_contain_text("d")
    await expect(page.locator("th[aria-sort=descending]")).to_have_text("Clients")
    await go(page, "links")
    await expect(page.locator("tbody tr")).to_have_count(6)
    await expect(page.locator("tr[data-key='a b'] .badge")).to_have_text("up")
    await page.locator("tr[data-key='a b'] a").last.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Broker b")
    await expect(page.locator("tbody tr")).to_have_count(3)


async def test_tables(page: Page, place: Town) -> None:
    await go(page, "broker/c")
    await page.get_by_role("link", name="PRT: ").click()
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(page.locator("tbody")).to_contain_text("symbol = 'IBM' AND price > 10")
    await expect(page.locator("tbody")).to_contain_text(SCRIPT)  # as a text
    await page.get_by_label("Table").select_option("SRT")
    await expect(page.locator("tbody")).to_contain_text("price > 0")


async def test_clients_a_page_at_a_time(page: Page, place: Town) -> None:
    await go(page, "clients/d")
    await expect(page.locator(".count")).to_have_text("1–30 of 30")
    await page.get_by_label("Search").fill("idle-2")
    await page.get_by_label("Search").press("Enter")
    await expect(page.locator(".count")).to_have_text("1–10 of 10")
    await page.get_by_role("button", name="Client").click()
    await expect(page.locator("tbody tr").first).to_contain_text("idle-29")
    await go(page, "clients")
    await expect(page.locator(".count")).to_have_text("1–33 of 33")
    await expect(page.get_by_label("Broker")).to_have_value("all")


async def test_a_client_that_does_not_keep_up(page: Page, place: Town) -> None:
    session = place.nodes["c"].clients.sessions[place.reader.id]
    session.port.limit, session.port.paused = 5, True
    await place.publish(20)
    await go(page, "clients/c")
    await expect(page.locator("tbody .badge.bad").first).to_have_text("slow")
    await go(page, "overview")
    await expect(page.locator(".problems")).to_contain_text("c: 1 of its clients do not keep up")
    session.port.limit = 10_000
    session.port.resume()


async def test_storages_and_top_subscriptions(page: Page, place: Town) -> None:
    await go(page, "storages")
    await expect(page.locator("tbody tr")).to_contain_text("archive")
    await expect(page.locator("tbody .badge")).to_have_text("does not answer")
    await go(page, "top/c")
    publishing = asyncio.create_task(_again(place))
    await expect(page.locator("tbody")).to_contain_text("symbol = 'IBM' AND price > 10")
    publishing.cancel()


async def _again(place: Town) -> None:
    while True:
        await place.publish()
        await asyncio.sleep(0.02)


async def test_sessions_are_drained_by_who_confirms(page: Page, place: Town) -> None:
    await place.publish(15)
    await go(page, "sessions")
    row = page.locator("tr", has_text="billing")
    await expect(row.locator(".badge")).to_have_text("none")
    await row.get_by_role("button", name="drain").click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    home = place.nodes["a"].host.core.delivering.home
    assert home is not None
    (session,) = home.each()
    assert session.queue.entries
    await row.get_by_role("button", name="drain").click()
    await page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    await until(lambda: not session.queue.entries)
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_why_a_wish_cannot_be_met(chromium: Browser, place: Town) -> None:
    async with page_of(chromium, place.base, allowed=("400",)) as page:
        await go(page, "broker/b")
        await page.get_by_role("button", name="Move a link").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Move a link").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("acyclic")


async def test_explain(page: Page, place: Town) -> None:
    await go(page, "explain")
    await page.get_by_label("Filter").fill("symbol = 'IBM' AND price > 10")
    await page.get_by_label("Event:").fill('{"symbol": "IBM", "price": "12"}')
    await page.get_by_role("button", name="Explain").click()
    await expect(page.locator(".verdict")).to_contain_text("does not match")
    await expect(page.locator(".node.decisive")).to_contain_text("price > 10")
    await expect(page.locator(".tree .hint")).to_contain_text("hint:")
    await place.publish(1, note="a recent one")
    await page.locator(".paths button", has_text="a recent one").click()
    await expect(page.locator(".verdict")).to_contain_text("matches")
    await expect(page.get_by_label("Event:")).to_have_value(
        '{"symbol":"IBM","price":50,"note":"a recent one"}'
    )


async def test_a_wrong_filter_is_explained_too(chromium: Browser, place: Town) -> None:
    async with page_of(chromium, place.base, allowed=("400",)) as page:
        await go(page, "explain")
        await page.get_by_label("Filter").fill("price > > 1")
        await page.get_by_role("button", name="Explain").click()
        await expect(page.get_by_role("alert")).to_contain_text("line 1, column 9")


async def test_follow(page: Page, place: Town) -> None:
    await go(page, "follow")
    await page.get_by_label("Filter").fill("note = 'followed'")
    await page.get_by_role("button", name="Follow").click()
    watching = [node.host.watching for node in place.nodes.values()]
    await until(lambda: all("note = 'followed'" in each._watches for each in watching))
    await place.publish(1, note="followed")
    await place.publish(1, note="another")
    await page.locator(".paths button").click()
    await expect(page.locator(".steps li")).to_have_count(3)
    steps = [await each.inner_text() for each in await page.locator(".steps li").all()]
    assert [step[0] for step in steps] == ["a", "b", "c"]
    assert "from its publisher writer" in steps[0]
    assert "→ b" in steps[0]
    assert "delivered" in steps[2]
    assert "to reader" in steps[2]
    await page.get_by_role("link", name="Why does a filter match").click()
    await expect(page.get_by_label("Event:")).to_have_value(
        '{"symbol":"IBM","price":50,"note":"followed"}'
    )


async def test_the_broker_of_the_page_dies_and_comes_back(chromium: Browser, place: Town) -> None:
    network = with_admin(path_network(1))
    node = await place.live.node(network, "b1")
    host, port = network.admin_address("b1") or ("", 0)
    lost = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET")
    async with page_of(chromium, f"http://{host}:{port}/", allowed=lost) as page:
        await expect(page.locator("#live")).to_have_text("live")
        await place.live.crash(node)
        await expect(page.locator("#live")).to_have_text("connecting again")
        await expect(page.locator("body")).to_have_class("stale")
        node = await place.live.node(network, "b1")
        await expect(page.locator("#live")).to_have_text("live")
        await expect(page.locator("body")).not_to_have_class("stale")
    await place.live.crash(node)


# --- how it is used ------------------------------------------------------------------------------


async def test_by_keyboard_alone(page: Page, place: Town) -> None:
    await expect(page.locator("g.broker")).to_have_count(4)
    await page.keyboard.press("Tab")
    await expect(page.locator(".skip")).to_be_focused()
    for _ in range(4):
        await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Links", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Links")
    await expect(page.locator("#main")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("th[aria-sort=descending]")).to_have_text("From")
    link = page.locator("tr[data-key='d b'] a").first
    await link.focus()
    await page.evaluate(COUNT_RENEWALS)
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while await page.evaluate("window.renewals") < 2:  # noqa: ASYNC110 (in the browser)
            await asyncio.sleep(0.1)
    await expect(link).to_be_focused()  # although the table was renewed
    await go(page, "overview")
    await page.locator("g.broker[data-broker=c]").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Broker c")


COUNT_RENEWALS = """() => {
    window.renewals = 0;
    const seen = new MutationObserver(() => { window.renewals += 1; });
    seen.observe(document.querySelector("tbody"), {childList: true});
}"""


async def test_fifty_brokers(page: Page, place: Town) -> None:
    await expect(page.locator("g.broker")).to_have_count(4)
    places, took_ms = await page.evaluate(FIFTY)
    assert len({tuple(each) for each in places}) == 50
    for x, y, width, height in places:
        assert 0 < x < width
        assert 0 < y < height
    assert took_ms < PATIENCE_MS / 10  # renewing the drawing: some milliseconds


FIFTY = """async () => {
    const {heard, state} = await import("/state.js");
    const [known] = state.network.brokers;
    const name = number => `broker-${number}`;
    const brokers = [...Array(50).keys()].map(number => ({...known, broker: name(number)}));
    const end = {...state.network.links[0].ends[0]};
    const links = [...Array(49).keys()].map(number => ({
        between: [name(number + 1), name(number >> 1)].sort(), kind: "", up: true, ends: [end, end],
    }));
    const network = {...state.network, brokers, links};
    heard(network);
    const began = performance.now();
    for (let times = 0; times < 10; times += 1) heard(network);
    const took = (performance.now() - began) / 10;
    const drawing = document.querySelector(".graph").viewBox.baseVal;
    const at = circle => [circle.cx.baseVal.value, circle.cy.baseVal.value];
    const circles = [...document.querySelectorAll(".graph circle")];
    return [circles.map(circle => [...at(circle), drawing.width, drawing.height]), took];
}"""


async def test_at_the_width_of_a_phone(chromium: Browser, place: Town) -> None:
    phone = {"width": 360, "height": 740}
    async with page_of(chromium, place.base, viewport=phone) as page:
        for view in VIEWS:
            await go(page, view)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            if view not in ("explain", "follow"):
                await expect(page.locator("tbody tr, g.broker").first).to_be_visible()
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, view


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_light_and_dark(chromium: Browser, place: Town, scheme: str) -> None:
    async with page_of(chromium, place.base, color_scheme=scheme) as page:
        await expect(page.locator(".tile").first).to_be_visible()
        for selector in (".tile strong", ".tile .label", ".nav a", ".nav a[aria-current]"):
            text, back = await colours(page.locator(selector).first)
            assert contrast(text, back) >= 4.5, (scheme, selector)
        _, back = await colours(page.locator("main"))
        assert (luminance(back) < 0.1) is (scheme == "dark")


async def colours(place: Locator) -> tuple[list[float], list[float]]:
    """Return the colours of an element's text, and of what is behind it."""
    while (found := await place.evaluate(COLOURS)) is None:
        pass  # the page put another one in its place meanwhile
    text, back = found
    return text, back


COLOURS = """element => {
    if (!element.isConnected) return null;
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    let [back, at] = [[0, 0, 0, 0], element];
    while (at && back[3] === 0) {
        back = numbers(getComputedStyle(at).backgroundColor);
        if (back.length === 3) back.push(1);
        at = at.parentElement;
    }
    return [numbers(getComputedStyle(element).color).slice(0, 3), back.slice(0, 3)];
}"""


def luminance(colour: list[float]) -> float:
    """As WCAG defines it."""
    parts = [each / 255 for each in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


# --- who may -------------------------------------------------------------------------------------


async def test_signing_in_and_rights(chromium: Browser, tmp_path: Path, place: Town) -> None:
    network = with_admin(secured(tmp_path))
    network.role = [
        RoleEntry("fx-desk"),
        RoleEntry("administrator", rights=["status"]),
    ]
    node = await place.live.node(network.validate(), "b1")
    host, port = network.admin_address("b1") or ("", 0)
    async with page_of(chromium, f"http://{host}:{port}/", allowed=("401", "403", "400")) as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")

        async def sign_in(user: str, password: str) -> None:
            await page.get_by_label("User").fill(user)
            await page.get_by_label("Password").fill(password)
            await page.keyboard.press("Enter")

        await sign_in("otto", OTHER_PASSWORD)
        await expect(page.get_by_role("alert")).to_contain_text("the password is wrong")
        await sign_in("anna", PASSWORD)
        await expect(page.get_by_role("alert")).to_contain_text("no right to 'status'")
        await page.reload()
        await sign_in("otto", PASSWORD)
        await expect(page.locator("#where")).to_contain_text("otto")
        await expect(page.locator("g.broker")).to_have_count(1)
        await go(page, "follow")
        await expect(page.get_by_role("alert")).to_contain_text("user 'otto' may see nothing")
        await go(page, "broker/b1")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Broker b1")
        await expect(page.locator(".tile").first).to_be_visible()
        await expect(page.get_by_role("button", name="Move a link")).to_have_count(0)
        network.role = [RoleEntry("fx-desk"), RoleEntry("administrator")]
        node.regrant(network.role)
        await expect(page.get_by_role("alert")).to_contain_text("no right to 'status'")
    await place.live.crash(node)
