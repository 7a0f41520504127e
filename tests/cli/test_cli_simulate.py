"""`reefcast simulate`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reefcast.cli.exit_codes import NO, NOT_QUIET, OUR_FAULT
from reefcast.cli.simulate import command
from reefcast.errors import ConfigurationError
from reefcast.model.messages import Effect, Publish, Send
from reefcast.network.file import NetworkFile, dump_network, scot_network
from reefcast.network.sections import BrokerEntry, LinkEntry, OverloadSection
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing.broker import Broker
from reefcast.routing.router import Decision
from reefcast.simulation import checkers
from reefcast.simulation import simulation as simulation_module
from reefcast.traces.vocabulary import FOUND_OVERLOADED

SMALL = ("--subscriptions", "20", "--publications", "60")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Write a network of three brokers in a row, with jitter; return its file."""
    described = NetworkFile(
        broker=[BrokerEntry(name=name) for name in ("b1", "b2", "b3")],
        link=[
            LinkEntry(between=("b1", "b2"), jitter_s=0.001),
            LinkEntry(between=("b2", "b3"), bandwidth_mbit_per_s=1.0),
        ],
    )
    file = tmp_path / "net.toml"
    file.write_text(dump_network(described), encoding="utf-8")
    return file


def simulate(network: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, [str(network), *SMALL, *arguments])


def test_summary_of_a_correct_run(network: Path) -> None:
    done = simulate(network, "--json", "--seed", "7")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.output)
    assert summary["published"] == 60
    assert summary["expected"] == summary["delivered"] > 0
    assert summary["lost"] == summary["duplicated"] == summary["unexpected"] == 0
    assert summary["seed"] == 7
    assert "unseed" in summary
    delays = [summary[f"delay_{which}_us"] for which in ("p50", "p90", "p99", "max")]
    assert delays == sorted(delays)
    assert 1000 < delays[0] < 1_000_000  # two hops take 2 ms and more


def test_text_and_faults(network: Path) -> None:
    done = simulate(
        network, "--fault", "crash:broker=b2,at_s=1.01,restart_s=1.03", "--fault", "drop:share=0.1"
    )
    assert done.exit_code == 0, done.output
    assert "link_lost" in done.output
    assert "fault" in done.output


def test_a_failed_check_exits_with_1(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checkers.CHECKERS, "lost", lambda evidence: ["p#1 never arrived"])
    done = simulate(network)
    assert done.exit_code == NO
    assert "p#1 never arrived" in done.output


def test_no_progress_exits_with_3(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_ever(self: Broker, batch: Sequence[Publish], *where: object) -> list[Effect]:
        self.last_routed = [(publish, Decision({}, [], 0)) for publish in batch]
        return [Send(self.router.brokers[0], publish) for publish in batch]

    monkeypatch.setattr(Broker, "handle_publications", for_ever)
    monkeypatch.setattr(simulation_module, "MESSAGE_LIMIT", 1000)
    done = simulate(network)
    assert done.exit_code == NOT_QUIET
    assert "seed 0" in done.output


def test_a_broker_that_raises_exits_with_4(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Broker, *arguments: object) -> list[Effect]:
        raise ZeroDivisionError

    monkeypatch.setattr(Broker, "handle_publications", broken)
    done = simulate(network)
    assert done.exit_code == OUR_FAULT
    assert "ZeroDivisionError" in done.output


def test_workload_from_files(network: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = {"subscription": [0], "filter": ["a > 1"], "broker": ["b3"], "client": ["alice"]}
    pq.write_table(pa.table(wanted), tmp_path / "subscriptions.parquet")
    events = {"event": [0, 1, 2], "time_us": [0, 1, 2], "a": [1, 2, None]}
    pq.write_table(pa.table(events), tmp_path / "events.parquet")
    done = simulate(
        network,
        "--json",
        *("--subscriptions-from", str(tmp_path / "subscriptions.parquet")),
        *("--publications-from", str(tmp_path / "events.parquet")),
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.output)
    assert (summary["published"], summary["delivered"]) == (3, 1)


@pytest.fixture
def scot_file(tmp_path: Path) -> Path:
    """Write a SCOT of six brokers whose links between clusters are slow; return its file."""
    made = scot(path(["x", "y"]), 3)
    network = scot_network(made, [""] * len(made.graph), routing="idr")
    for link in network.link:
        if link.between in made.i_links:
            link.bandwidth_mbit_per_s = 0.1
    network.overload = OverloadSection(tau=1.0, window_s=0.005)
    file = tmp_path / "scot.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    return file


@pytest.mark.long
@pytest.mark.parametrize("routing", ["idr", "spr", "flooding"])
def test_a_scot_with_any_routing(scot_file: Path, tmp_path: Path, routing: str) -> None:
    trace = tmp_path / "trace"
    done = simulate(scot_file, "--routing", routing, "--trace", str(trace), "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.output)
    assert summary["routing"] == routing
    assert summary["lost"] == summary["duplicated"] == summary["unexpected"] == 0
    places = json.loads((trace / "run.json").read_text())["places"]
    assert places["y-2"] == {"region": "y", "cluster": 2}


@pytest.mark.long
def test_the_threshold_of_the_network_file_counts(scot_file: Path, tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    def detours(file: Path) -> int:
        trace = tmp_path / file.stem
        burst = ("--rate", "20000", "--publications", "400", "--selectivity", "0.5")
        done = simulate(file, *burst, "--trace", str(trace))
        assert done.exit_code == 0, done.output
        rows = ds.dataset(trace / "counter").to_table().to_pylist()
        return sum(row["count"] for row in rows if row["counter"] == FOUND_OVERLOADED)

    lazy = tmp_path / "lazy.toml"
    lazy.write_text(scot_file.read_text().replace("tau = 1.0", "tau = 1000000.0"))
    assert detours(scot_file) > 0
    assert detours(lazy) == 0


@pytest.mark.parametrize("routing", ["idr", "spr"])
def test_a_network_without_places_is_refused(network: Path, routing: str) -> None:
    done = simulate(network, "--routing", routing)
    assert isinstance(done.exception, ConfigurationError)
    assert "needs a SCOT" in str(done.exception)


# --- --inspect ------------------------------------------------------------------------------------

BURST = ("--rate", "20000", "--publications", "400", "--selectivity", "0.5")


@pytest.mark.long
def test_inspect_shows_the_brokers_as_they_are_at_the_end(scot_file: Path) -> None:
    done = simulate(scot_file, *BURST, "--inspect", "--table", "PRT", "--rows", "2")
    assert done.exit_code == 0, done.output
    for words in ("CLT", "PRT", "LST", "aLink", "CIV: a bit for each cluster", "case III"):
        assert words in done.output
    assert re.search(r"and \d+ more", done.output)


def test_inspect_in_json_has_what_a_broker_says_of_itself(scot_file: Path) -> None:
    done = simulate(scot_file, *BURST, "--inspect", "--rows", "3", "--json")
    summary = json.loads(done.output)
    assert summary["brokers"] == len(summary["inspect"]) == 6
    answers = summary["inspect"]
    for name, answer in answers.items():
        assert answer["broker"] == name
        assert list(answer["rows"]) == ["CLT"]  # the PRT was not asked for
        clt = answer["rows"]["CLT"]
        assert len(clt["rows"]) == min(3, answer["tables"]["CLT"])
        assert clt["left_out"] == answer["tables"]["CLT"] - len(clt["rows"])
        assert {link["link"]: link["state"] for link in answer["links"]} == dict.fromkeys(
            answer["lst"], "up"
        )
        assert all(link["queue_len"] == 0 for link in answer["lst"].values())
    assert sum(answer["counters"].get("published", 0) for answer in answers.values()) == 400
    assert sum(answer["counted"]["case III"] for answer in answers.values()) > 0
    assert sum(len(answer["clients"]) for answer in answers.values()) == 20 + 10


def test_nothing_is_inspected_unasked(scot_file: Path) -> None:
    assert "inspect" not in json.loads(simulate(scot_file, "--json").output)
    refused = simulate(scot_file, "--table", "PRT")
    assert refused.exit_code == 2
    assert "--table goes with --inspect" in refused.output


def test_a_broker_that_stays_down_does_not_answer(network: Path) -> None:
    down = ("--fault", "crash:broker=b3,at_s=1.02", "--inspect")
    assert "does not answer" in simulate(network, *down).output
    answers = json.loads(simulate(network, *down, "--json").stdout)["inspect"]
    assert answers["b3"] is None
    states = {link["link"]: link["state"] for link in answers["b2"]["links"]}
    assert states == {"b1": "up", "b3": "away"}


def test_neighbours_are_as_patient_as_the_network_file_says(network: Path) -> None:
    text = network.read_text(encoding="utf-8")
    assert "link_patience_s = 60.0" in text
    network.write_text(text.replace("link_patience_s = 60.0", "link_patience_s = 2.0"))
    ends = {}
    for patience_s in ("", ",link_patience_s=2", ",link_patience_s=30"):
        down = ("--fault", f"crash:broker=b3,at_s=1.02{patience_s}")
        ends[patience_s] = json.loads(simulate(network, *down, "--json").stdout)["simulated_s"]
    assert ends[""] == ends[",link_patience_s=2"] < 1.02 + 30 < ends[",link_patience_s=30"]


# --- the routing's options ------------------------------------------------------------------------

NEAR = """
from msgspec.structs import replace

from reefcast.model.messages import Header
from reefcast.routing.flooding import Flooding
from reefcast.routing.router import RoutingOptions


class Options(RoutingOptions, frozen=True):
    links: int = 100


class Near(Flooding):
    name = "near"
    options = Options
    best_effort = True

    def __init__(self, where):
        super().__init__(where)
        self.links_at_most = where.options.links

    def route(self, publications, found, link):
        for publish, decision in zip(publications, super().route(publications, found, link)):
            far = publish.header.hops >= self.links_at_most
            yield replace(decision, hops=[]) if far else decision
"""
"""A routing that floods as far as so many links."""


@pytest.fixture
def near(network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the network with this routing and its options; return its file."""
    (tmp_path / "near_routing.py").write_text(NEAR)
    monkeypatch.syspath_prepend(tmp_path)
    text = network.read_text().replace('"acyclic"', '"near_routing:Near"')
    file = tmp_path / "near.toml"
    file.write_text(f"{text}\n[routing]\nlinks = 0\n")
    return file


def test_the_options_of_the_network_file_count(near: Path) -> None:
    def sent(*arguments: str) -> tuple[str, int]:
        done = simulate(near, "--json", *arguments)
        assert done.exit_code == 0, done.output
        summary = json.loads(done.output)
        return summary["routing"], summary["messages"]["publish"]

    assert sent() == ("near_routing:Near", 0)
    assert sent("--routing", "near_routing:Near") == ("near_routing:Near", 0)


def test_another_routing_has_its_defaults_whatever_the_file_says(near: Path, network: Path) -> None:
    other = json.loads(simulate(near, "--json", "--routing", "flooding").output)
    assert other["messages"]["publish"] == 60 * 2
    assert (other["routing"], other["lost"]) == ("flooding", 0)
    plain = simulate(network, "--json", "--routing", "near_routing:Near")
    assert json.loads(plain.output)["messages"]["publish"] == 60 * 2


def digest_of(directory: Path) -> str:
    """Return a digest of every file's name and bytes."""
    digest = hashlib.sha256()
    for file in sorted(each for each in directory.rglob("*") if each.is_file()):
        digest.update(str(file.relative_to(directory)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def test_one_seed_gives_one_run_to_the_last_byte_of_its_trace(
    network: Path, tmp_path: Path
) -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        trace = tmp_path / hash_seed
        arguments = [str(network), *SMALL, "--trace", str(trace), "--json"]
        arguments += ["--fault", "reorder:share=0.3,up_to_s=0.05"]
        arguments += ["--fault", "crash:broker=b2,at_s=1.01,restart_s=1.03"]
        done = subprocess.run(
            [sys.executable, "-m", "reefcast", "simulate", *arguments],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
        outputs.add((done.stdout, digest_of(trace)))
    assert len(outputs) == 1


def test_a_trace_directory_holds_one_run(network: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    simulate(network, "--trace", str(trace))
    first = digest_of(trace)
    simulate(network, "--trace", str(trace))
    assert digest_of(trace) == first
