"""`reefcast-lab bench http`: small loads with live servers, and its table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from reefcast_lab.bench.http import measure, servers
from reefcast_lab.bench.http.measure import LOADS, HttpFigures, Load, Session
from reefcast_lab.bench.http.page import figures
from reefcast_lab.cli.bench import command

ROW = HttpFigures(
    load="out, server-sent",
    server="reefcast",
    publishers=1,
    batch=100,
    fanout=3,
    cpu_us_per_event=4.5,
    cpu_spread=0.1,
    events_per_s=12345,
    missing=0,
    ratio=0.5,
)
SMALL = [
    *(Load("in", publishers=2), Load("in", batch=5), Load("in", confirmed=True)),
    Load("out", publishers=2, batch=3, fanout=2),
]


def test_the_loads_are_those_that_the_page_shows() -> None:
    assert {(load.batch > 1, load.confirmed) for load in LOADS if not load.fanout} == {
        *((False, False), (False, True)),
        *((True, False), (True, True)),
    }
    assert {load.fanout for load in LOADS} == {0, 1, 100}


def test_the_table() -> None:
    assert figures([replace(ROW, server="aiohttp", ratio=1.0), ROW]) == (
        "| load | server | events/request | fan-out | µs/event (CPU) | events/s | ratio |\n"
        "| ---|---|--:|--:|--:|--:|--: |\n"
        "| out, server-sent | aiohttp | 100 | 3 | 4.5 | 12,345 | 1 |\n"
        "| out, server-sent | reefcast | 100 | 3 | 4.5 | 12,345 | 0.5 |\n"
    )


@pytest.mark.live
@pytest.mark.parametrize("server", servers.SERVERS)
def test_all_comes_and_is_answered(server: str) -> None:
    with servers.running(server) as running:
        for load in SMALL:
            with Session(running, server, load) as session:
                run = session.run(7)
            requests = -(-7 // load.publishers) * load.publishers
            assert run.events == requests * load.batch * max(load.fanout, 1)
            assert run.missing == 0
            assert run.cpu_s > 0


@pytest.mark.live
def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CPU_S", 0.01)
    monkeypatch.setattr(measure, "LOADS", SMALL[-1:])
    done = CliRunner().invoke(command, ["http", "--repeat", "1", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["server"] for row in rows] == list(servers.SERVERS)
    assert [row["missing"] for row in rows] == [0, 0]
    assert rows[0]["ratio"] == 1.0
    first, second = (row["cpu_us_per_event"] for row in rows)
    assert rows[1]["ratio"] == pytest.approx(first / second, rel=0.1)
