"""Workloads with topics, and `reefcast simulate` with a network file of gossip."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from reefcast.cli.simulate import command
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.topics import topics_of
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import BrokerEntry, NetworkSection
from reefcast.simulation.workload import Workload, read_workload, stock_workload


def stock(topics: int) -> Workload:
    return stock_workload(
        ["b1", "b2"], subscriptions=200, publications=2000, rate_per_s=100.0, seed=3, topics=topics
    )


@pytest.mark.long
def test_with_topics_each_is_about_one_and_as_many_match() -> None:
    shares = []
    for topics in (0, 5):
        workload = stock(topics)
        filters = [parse_filter(s.filter) for s in workload.subscribers]
        matches = sum(
            filter.matches(Publication("p", 1, 0, event.attributes, event.topics))
            for event in workload.events[:500]
            for filter in filters
        )
        shares.append(matches / (500 * len(filters)))
    about = {topics_of(parse_filter(s.filter)) for s in stock(5).subscribers}
    assert about == {(f"t{number}",) for number in range(1, 6)}
    assert {event.topics for event in stock(5).events} == about
    assert shares == [pytest.approx(0.02, rel=0.3)] * 2


def test_the_topics_of_publications_are_read_from_their_column(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"filter": ["topic = 'x'"], "broker": ["b1"], "client": ["c"]}),
        tmp_path / "subscriptions.parquet",
    )
    for column, expected in (
        (pa.array([["x", "y"], None, []]), [("x", "y"), (), ()]),
        (pa.array(["x", None, "y"]), [("x",), (), ("y",)]),
    ):
        pq.write_table(pa.table({"topic": column, "a": [1, 2, 3]}), tmp_path / "events.parquet")
        workload = read_workload(
            tmp_path / "subscriptions.parquet",
            tmp_path / "events.parquet",
            ["b1"],
            publications=3,
            publishers=1,
            rate_per_s=1.0,
            seed=0,
        )
        assert [event.topics for event in workload.events] == expected
        assert [event.attributes for event in workload.events] == [{"a": 1}, {"a": 2}, {"a": 3}]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def network(tmp_path: Path) -> Path:
    described = NetworkFile(
        network=NetworkSection(routing="gossip"),
        routing={"contacts": ["b1", "b2"], "round_s": 0.5},
        broker=[BrokerEntry(name=f"b{number}") for number in range(1, 6)],
    )
    file = tmp_path / "net.toml"
    file.write_text(dump_network(described), encoding="utf-8")
    return file


def simulate(network: Path, *arguments: str) -> Result:
    sizes = ("--subscriptions", "40", "--publications", "60")
    return CliRunner().invoke(command, [str(network), *sizes, *arguments])


@pytest.mark.long
def test_a_network_of_gossip_is_simulated_and_ends_though_it_is_never_quiet(network: Path) -> None:
    done = simulate(network, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.output)
    assert summary["published"] == 60
    assert summary["expected"] == summary["delivered"] > 0
    assert summary["simulated_s"] > 11.0
    assert summary["messages"]["walk"] > 500


@pytest.mark.long
def test_the_brokers_show_their_topics(network: Path) -> None:
    done = simulate(network, "--inspect", "--json")
    assert done.exit_code == 0, done.output
    inspected = json.loads(done.output)["inspect"]
    rows = inspected["b1"]["rows"]["topics"]
    assert rows["columns"] == ["topic", "view", "known by", "for", "neighbours"]
    assert rows["rows"]
    text = simulate(network, "--inspect", "--table", "topics").output
    assert "and contact" in text
    assert "View: nodes that it sends to" in text


def test_it_cannot_have_another_routing_without_links(network: Path) -> None:
    done = simulate(network, "--routing", "flooding")
    assert "not connected" in str(done.exception)
