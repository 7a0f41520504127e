"""The examples do what their pages say: real programs, real brokers, the commands of the pages."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from example_pages import (
    EXAMPLES,
    ROOT,
    Page,
    Terminals,
    a_broker,
    interrupt,
    line_with,
    lines,
    page,
    until_stored,
)

from children import Children, ended, line_of
from live_networks import until
from reefcast import testing
from reefcast.server.supervisor import free_ports

QUIET = ("", "")
"""Nothing more is printed, neither as output nor as an error."""
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if (path / "README.md").is_file())


@pytest.fixture
async def terminals(tmp_path: Path) -> AsyncIterator[Terminals]:
    """Yield terminals beside a running broker."""
    async with testing.broker(history=False) as broker, Children() as children:
        yield Terminals(children, tmp_path, broker.url)


def beside_a_broker(name: str) -> Page:
    """Return the page without its first command, because the test has a broker already."""
    first, *commands = page(name).commands
    assert first == "reefcast broker"
    return Page(commands, page(name).seen)


def test_the_table_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+)\]\(\1/README.md\)", text, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_page_names_its_programs(name: str) -> None:
    """Each program is run by a command of the page, and linked to."""
    programs = {file.name for file in (EXAMPLES / name).glob("*.py")}
    run = {Path(command.split()[1]) for command in page(name).commands if "python" in command}
    assert run == {Path("examples", name, program) for program in programs}


@pytest.mark.parametrize("name", [".", *NAMES])
def test_links_lead_somewhere(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (EXAMPLES / name / link).exists(), link


def test_the_readme_of_the_project_leads_here() -> None:
    assert "(examples/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


async def test_price_alerts(terminals: Terminals) -> None:
    (alerts, quotes), [seen] = beside_a_broker("price_alerts")
    reader = await terminals.start(alerts)
    printed = await lines(reader, 1)
    assert await terminals.run(quotes) == "published 100 quotes\n"
    printed += await lines(reader, seen.count("\n") - 1)
    assert printed == seen
    assert await interrupt(reader) == QUIET


async def table(reader: Process, filter: str) -> list[str]:
    """Return the columns and the rows of the next table of a dashboard for this filter."""
    await line_with(reader, filter)
    rows = []
    while row := (await line_of(reader.stdout)).decode().strip():
        rows.append(row)
    return rows


async def test_dashboard(terminals: Terminals) -> None:
    (departures, dashboard), (first, second, _) = beside_a_broker("dashboard")
    publisher = await terminals.start(departures)
    assert await lines(publisher, 1) == "publishing departures; Ctrl-C ends it\n"
    reader = await terminals.start(dashboard)
    assert reader.stdin
    heading, columns, *rows = first.splitlines()
    found = await table(reader, heading)
    assert found[0] == columns
    assert {row[:3] for row in found[1:]} == {row[:3] for row in rows}
    reader.stdin.write(second.encode())
    found = await table(reader, second.strip())
    assert [row[:3] for row in found[1:]] == ["SFO"]
    assert float(found[1].split()[2]) > 20
    reader.stdin.write(b"delay >\n")
    await line_with(reader, "line 1, column 8: expected")
    output, errors = await interrupt(reader)
    assert (errors, "Traceback" in output) == ("", False)
    assert await interrupt(publisher) == QUIET


async def test_workers(terminals: Terminals) -> None:
    (*workers, orders), [seen] = beside_a_broker("workers")
    group = [await terminals.start(worker) for worker in workers]
    greetings = [await lines(worker, 1) for worker in group]
    done: dict[int, list[str]] = defaultdict(list)

    async def read(number: int) -> None:
        while line := await line_of(group[number].stdout):
            done[number].append(line.decode())

    readers = [asyncio.create_task(read(number)) for number in range(len(group))]
    assert await terminals.run(orders) == "published 30 orders\n"
    await until(lambda: sum(map(len, done.values())) >= 30)
    for worker in group:
        worker.send_signal(signal.SIGINT)
    await asyncio.gather(*readers)
    assert [await ended(worker) for worker in group] == [(0, "", "")] * 3
    assert greetings[0] + "".join(done[0]) == seen
    taken = [re.findall(r"order (\d+) of (\w+)", "".join(done[number])) for number in range(3)]
    assert sorted(int(order) for each in taken for order, _ in each) == [*range(1, 31)]
    assert [len({customer for _, customer in each}) for each in taken] == [2, 2, 2]
    assert all(each == sorted(each, key=lambda order: int(order[0])) for each in taken)


async def test_history_and_replay(tmp_path: Path) -> None:
    (alone, past, late, live), [seen] = page("history_and_replay")
    async with a_broker(tmp_path, alone) as terminals:
        assert await terminals.run(past) == "published 5 readings\n"
        await until_stored(terminals.url, "readings", 5)
        reader = await terminals.start(late)
        printed = await lines(reader, 6)
        assert await terminals.run(live) == "published 5 readings\n"
        printed += await lines(reader, 5)
        assert printed == seen
        assert await interrupt(reader) == QUIET


def counted(brokers: dict[str, Any], what: str) -> dict[str, int]:
    """Return the counters of the brokers since their start, without those that are 0."""
    counters = {name: broker["counters"] for name, broker in brokers.items()}
    return {name: found[what] for name, found in counters.items() if what in found}


async def test_four_cities(tmp_path: Path) -> None:
    (plan, up, heat, *stations, status), [seen] = page("four_cities")
    text = (EXAMPLES / "four_cities" / "cities.toml").read_text(encoding="utf-8")
    async with Children() as children:
        terminals = Terminals(children, tmp_path)
        terminals.instead = {"examples/four_cities/cities.toml": str(tmp_path / "cities.toml")}
        for city, port in enumerate(free_ports(4), start=1):
            terminals.instead[f"127.0.0.1:730{city}"] = f"127.0.0.1:{port}"
            text = text.replace(f"127.0.0.1:730{city}", f"127.0.0.1:{port}")
        terminals.instead["examples/"] = f"{EXAMPLES}/"
        (tmp_path / "cities.toml").write_text(text, encoding="utf-8")
        assert "4 brokers, 3 links, diameter 2" in await terminals.run(plan)
        network = await terminals.start(up)
        await line_with(network, "network four-cities is up")
        reader = await terminals.start(heat)
        printed = await lines(reader, 1)
        for station in stations:
            assert await terminals.run(station) == "published 24 readings\n"
        printed += await lines(reader, seen.count("\n") - 1)
        assert printed == seen
        brokers = json.loads(await terminals.run(f"{status} --json"))
        assert counted(brokers, "published") == {"lisbon": 24, "paris": 24, "athens": 24}
        assert counted(brokers, "forwarded") == {"athens": 5, "paris": 5}
        assert counted(brokers, "delivered") == {"vienna": 5}
        assert await interrupt(reader) == QUIET
        await interrupt(network)
