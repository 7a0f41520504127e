"""`reefcast top`, and `reefcast network status --watch`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import reefcast
from live_networks import path_network, running
from reefcast.cli.main import group
from reefcast.cli.top import rendered
from reefcast.cli.top_figures import Sample, brokers, links, slow_clients
from reefcast.network.file import NetworkFile, dump_network


def answer(**fields: Any) -> dict[str, Any]:
    return {
        "session": "s",
        "stopping": False,
        "relearning": False,
        "congested": False,
        "drain": {"state": "no"},
        "clients": [],
        "counters": {},
        "owed": {},
        "lst": {},
        "links": [],
        "memory_mb": 50.0,
        **fields,
    }


def client(name: str, **fields: Any) -> dict[str, Any]:
    return {"client": name, "slow": False, "queue_len": 0, "dropped": 0, **fields}


def test_rates_are_those_since_the_last_sample() -> None:
    """Also of a broker that was started again, which counts from 0, or was not there."""
    first = Sample(
        10.0,
        {
            "a": answer(counters={"published": 100}),
            "b": answer(counters={"delivered": 50}),
            "c": None,
        },
    )
    then = Sample(
        12.0,
        {
            "a": answer(counters={"published": 300, "queue_full": 2, "link_lost": 1}),
            "b": answer(counters={"delivered": 30}, session="another"),
            "c": answer(counters={"published": 7}),
        },
    )
    found = {each.broker: each for each in brokers(first, then)}
    assert (found["a"].published_per_s, found["a"].lost) == (100.0, 3)
    assert found["b"].delivered_per_s == 15.0
    assert found["c"].published_per_s == 0.0
    assert {each.published_per_s for each in brokers(None, then)} == {0.0}
    assert [each.state for each in brokers(None, first)] == ["up", "up", "does not answer"]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"stopping": True, "relearning": True}, "stops"),
        ({"relearning": True}, "relearns"),
        ({"drain": {"state": "empty"}}, "is drained"),
        ({"drain": {"state": "draining"}}, "drains"),
        ({"congested": True}, "congested"),
    ],
)
def test_the_state_of_a_broker(fields: dict[str, Any], state: str) -> None:
    (found,) = brokers(None, Sample(0.0, {"a": answer(**fields)}))
    assert found.state == state


def test_what_has_problems_comes_first_and_what_does_not_fit_is_counted() -> None:
    row = {"queue_len": 0, "load": 0.0, "out_per_s": 5.0}
    lst = {"b": row, "c": row | {"queue_len": 9}, "d": row | {"out_per_s": 0.0}}
    states = {"b": "up", "c": "up", "d": "broken"}
    clients = [client("x[bold]", queue_len=3), client("y", slow=True), client("z")]
    one = answer(
        lst=lst,
        links=[{"link": name, "state": state} for name, state in states.items()],
        clients=clients,
        owed={"d": {"in_custody": 4}},
    )
    now = Sample(0.0, {"a": one} | {f"n{i}": None for i in range(200)})
    assert [each.link for each in links(now)] == ["d", "c", "b"]
    assert [each.client for each in slow_clients(now)] == ["y", "x[bold]"]
    found = brokers(None, now)[0]
    assert (found.queue, found.custody, found.clients) == (12, 4, 3)
    network = path_network(1)
    console = Console(force_terminal=True, width=120, height=30, markup=False, emoji=False)
    with console.capture() as shown:
        console.print(rendered(network, None, now, console))
    lines = shown.get().splitlines()
    assert len(lines) <= 30 and any("more brokers" in line for line in lines)
    assert "1 of 201 brokers up, 3 clients" in lines[0]


async def invoke(*words: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, group, [*map(str, words)])


@pytest.fixture
def stopped_by_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command that sleeps the second time be interrupted. Other threads of this process,
    such as Spark's, may sleep as well."""
    times = count()
    really = time.sleep

    def sleep(seconds: float) -> None:
        if not sys._getframe(1).f_globals["__name__"].startswith("reefcast.cli"):
            really(seconds)
        elif next(times):
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)


def written(folder: Any, network: NetworkFile) -> Any:
    file = folder / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    return file


@pytest.mark.usefixtures("stopped_by_ctrl_c")
async def test_a_running_network(tmp_path: Any) -> None:
    network = path_network(2)
    file = written(tmp_path, network)
    async with (
        running(network) as (first, second),
        reefcast.connect(first) as publisher,
        reefcast.connect(second) as reader,
    ):
        subscription = await reader.subscribe("n > 0")
        await publisher.publish(n=1, confirm=True)
        await anext(subscription)
        plain = await invoke("top", file)
        assert plain.exit_code == 0, plain.output
        assert plain.stdout.count("2 of 2 brokers up, 2 clients") == 2
        told = await invoke("top", file, "--json", "--times", 1)
    row = json.loads(told.stdout)
    assert [each["broker"] for each in row["brokers"]] == ["b1", "b2"]
    assert {(each["broker"], each["link"]) for each in row["links"]} == {("b1", "b2"), ("b2", "b1")}
    assert row["slow_clients"] == []


@pytest.mark.usefixtures("stopped_by_ctrl_c")
async def test_the_status_is_watched(tmp_path: Any) -> None:
    network = path_network(1)
    file = written(tmp_path, network)
    async with running(network):
        watched = await invoke("network", "status", file, "--watch", "--json")
        assert watched.exit_code == 0, watched.output
        assert [[*json.loads(line)] for line in watched.stdout.splitlines()] == [["b1"], ["b1"]]
    gone = await invoke("network", "status", file, "--watch", 0.5)
    assert gone.exit_code == 1 and "does not answer" in gone.stdout
