"""`reefcast plan`: what it prints, draws and writes."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from reefcast.cli.plan import command
from reefcast.errors import ConfigurationError
from reefcast.network.file import dump_network, scot_network
from reefcast.network.plan_file import load_plan
from reefcast.overlay import topology
from reefcast.overlay.scot import scot
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = ("b1", "b2", "b3", "b4", "b5")
RATES = """broker,topic,rate_per_s
b1,x,9
b5,y,3
b4,y,1
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write five brokers in a row and a log of requests, of x at one end and of y at the other;
    return the files."""
    lines = ['[network]\nrouting = "acyclic"\n']
    for number, broker in enumerate(BROKERS):
        lines.append(f'[[broker]]\nname = "{broker}"\nlisten = "127.0.0.1:{7301 + number}"\n')
    for a, b in itertools.pairwise(BROKERS):
        lines.append(f'[[link]]\nbetween = ["{a}", "{b}"]\n')
    network, rates = tmp_path / "net.toml", tmp_path / "rates.csv"
    network.write_text("\n".join(lines), encoding="utf-8")
    rates.write_text(RATES, encoding="utf-8")
    return ["placement", str(network), "--rates", str(rates)]


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def shared_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands take the tests' one session, and leave it open."""
    session = "reefcast.pipeline.session.spark_session"
    monkeypatch.setattr(session, lambda name, master: contextlib.nullcontext(spark))


@pytest.mark.long
def test_json(files: list[str]) -> None:
    done = plan(*files, "--copies", "1", "--capacity", "1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["weights"] == pytest.approx({"x": 9 / 13, "y": 4 / 13})
    assert found["storages"] == [
        {"broker": "b1", "share": pytest.approx(9 / 13), "topics": ["x"]},
        {"broker": "b5", "share": pytest.approx(4 / 13), "topics": ["y"]},
    ]
    hops = found["mean_hops"]
    assert hops["plan"] == pytest.approx(1 / 13) == hops["grd_opt"]
    assert hops["optimum"] == pytest.approx(1 / 13)
    assert hops["rnd"] >= hops["plan"]


def test_what_is_kept_is_placed_in_any_case(files: list[str]) -> None:
    """Requests for x count for the pattern that is kept; nobody asks for z."""
    with Path(files[1]).open("a", encoding="utf-8") as network:
        network.write('[[storage]]\nname = "s"\nbroker = "b3"\ndirectory = "d"\n')
        network.write('topics = ["x/#", "z"]\n')
    done = plan(*files, "--copies", "1", "--capacity", "2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["weights"] == pytest.approx({"x/#": 9 / 13, "y": 4 / 13, "z": 0})
    kept = [topic for each in found["storages"] for topic in each["topics"]]
    assert sorted(kept) == ["x/#", "y", "z"]


@pytest.mark.long
def test_text_and_files(files: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, drawing = tmp_path / "plan.toml", tmp_path / "plan.svg"
    written = ("--out", str(out), "--draw", str(drawing))
    done = plan(*files, "--copies", "1", "--capacity", "1", *written)
    assert done.exit_code == 0, done.output
    assert "69 %" in done.output and "the best that there is" in done.output
    assert [each.broker for each in load_plan(out, BROKERS)] == ["b1", "b5"]
    assert ">b3<" in drawing.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("--copies", "3", "--storages", "2"), "3 copies of a topic in 2 storages"),
        (("--copies", "2", "--storages", "3"), "3 storages x 1 topics = 3: take at least 4"),
        (("--log", "requests"), "either --rates or --log"),
    ],
)
def test_what_cannot_be(files: list[str], changed: tuple[str, ...], says: str) -> None:
    done = plan(*files, "--capacity", "1", *changed)
    assert isinstance(done.exception, ConfigurationError)
    assert says in str(done.exception)


@pytest.mark.spark
def test_rates_from_a_log(files: list[str], shared_spark: None, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [(i * 1_000_000, "b1", "x") for i in range(9)] + [(10_000_000, "b5", "y")]
    times_us, brokers, topics = map(list, zip(*rows, strict=True))
    log = tmp_path / "requests"
    log.mkdir()
    table = pa.table({"time_us": times_us, "broker": brokers, "topic": topics})
    pq.write_table(table, log / "all.parquet")
    asked = ("placement", files[1], "--log", str(log), "--copies", "1", "--capacity", "1")
    done = CliRunner().invoke(command, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["weights"] == pytest.approx({"x": 0.9, "y": 0.1})
    assert [each["broker"] for each in found["storages"]] == ["b1", "b5"]


# --- plans that are tables -----------------------------------------------------------------------


def write_parquet(file: Path, **columns: list[object]) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), file)
    return file


@pytest.mark.spark
def test_clusters(shared_spark: None, tmp_path: Path) -> None:
    events = write_parquet(tmp_path / "events.parquet", event=[0, 1, 2, 3], x=[0, 1, 2, 3])
    subscriptions = write_parquet(
        tmp_path / "subscriptions.parquet",
        client=["ann", "bob", "eve", "joe"],
        filter=["x < 2", "x >= 2", "x <= 1", "x > 1"],
    )
    out, drawing = tmp_path / "plan.parquet", tmp_path / "plan.svg"
    asked = ("clusters", events, subscriptions, "--clusters", 2)
    done = plan(*asked, "--capacity", 2, "--out", out, "--draw", drawing, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["figures"]["clusters entered by a publication, this plan"] == 1.0
    placed = {row["client"]: row["cluster"] for row in found["rows"]}
    assert placed["ann"] == placed["eve"] != placed["bob"] == placed["joe"]
    assert pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist() == found["rows"]
    assert ">subscribers<" in drawing.read_text(encoding="utf-8")
    text = plan(*asked)
    assert "none is below" in text.output and "ann" in text.output
    refused = plan(*asked, "--capacity", 1)
    assert "2 clusters x 1 subscribers = 2, but there are 4" in str(refused.exception)
    neither = plan("clusters", events, subscriptions)
    assert "either --clusters or --network" in str(neither.exception)
    wrong = plan("clusters", subscriptions, subscriptions, "--clusters", 2)
    assert "has no column event; it has client, filter" in str(wrong.exception)


@pytest.mark.spark
def test_clusters_of_a_network(
    files: list[str], spark: SparkSession, shared_spark: None, tmp_path: Path
) -> None:
    """If leaving costs enough, all subscribers stay at home."""
    made = scot(topology.path(["x", "y"]), 2)
    network = tmp_path / "scot.toml"
    listen = (f"127.0.0.1:{7301 + number}" for number in range(len(made.graph)))
    text = dump_network(scot_network(made, listen, routing="spr"))
    network.write_text(text, encoding="utf-8")
    subscriptions = write_parquet(
        tmp_path / "subscriptions.parquet",
        client=["ann", "bob"],
        filter=["x = 1", "x = 1"],
        broker=["x-0", "y-1"],
    )
    events = write_parquet(tmp_path / "events.parquet", event=[0], x=[1])
    asked = ("clusters", events, subscriptions, "--network", network, "--capacity", 2, "--json")
    found = json.loads(plan(*asked, "--away", 5).output)
    assert [(row["home"], row["cluster"]) for row in found["rows"]] == [(0, 0), (1, 1)]
    assert found["figures"]["everybody at home"] == 2.0
    together = json.loads(plan(*asked).output)
    assert len({row["cluster"] for row in together["rows"]}) == 1
    refused = plan(*asked[:3], "--network", files[1])
    assert "is not a SCOT" in str(refused.exception)
    from reefcast.pipeline.planning.clusters import at_home

    elsewhere = spark.createDataFrame([("joe", "x-9")], "client STRING, broker STRING")
    with pytest.raises(ConfigurationError, match="1 brokers of subscribers, such as 'x-9'"):
        at_home(elsewhere, {"x-0": 0})


@pytest.mark.spark
def test_links(shared_spark: None, tmp_path: Path) -> None:
    """On five brokers in a row with one subscriber at the far end, a link of four hops saves
    three."""
    simulation = Simulation(
        Setup(graph=topology.path(BROKERS), trace=TraceOptions(tmp_path / "trace"))
    )
    simulation.subscribe("client", "b5", "x >= 0", at_s=0.0)
    for x in range(10):
        simulation.publish("publisher", "b1", {"x": x}, at_s=1.0 + x)
    simulation.run()
    drawing = tmp_path / "plan.svg"
    done = plan("links", tmp_path / "trace", "--draw", drawing, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["rows"][0] == {
        "a": "b1",
        "b": "b5",
        "distance": 4,
        "publications": 10,
        "spared": 30,
        "gain": 30.0,
        "chosen": True,
    }
    assert found["figures"]["links that would have paid"] == 6
    assert ">b3<" in drawing.read_text(encoding="utf-8")
    refused = plan("links", tmp_path / "trace", "--fanout", 1)
    assert "fanout = 1 leaves no broker room" in str(refused.exception)
    assert "holds no trace" in str(plan("links", tmp_path).exception)


@pytest.mark.spark
def test_covering(shared_spark: None, tmp_path: Path) -> None:
    subscriptions = write_parquet(
        tmp_path / "subscriptions.parquet",
        subscription=list(range(30)),
        filter=["x > 0", *(f"x = {i}" for i in range(1, 20)), *(f"y = {i}" for i in range(10))],
    )
    out, drawing = tmp_path / "plan.parquet", tmp_path / "plan.svg"
    done = plan("covering", subscriptions, "--out", out, "--draw", drawing)
    assert done.exit_code == 0, done.output
    rows = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    assert rows[0] == {"subscription": 0, "filter": "x > 0", "triggered": 19}
    assert len(rows) == 11 and rows[1]["triggered"] == 0
    assert "covering degree" in done.output and f"wrote {drawing}" in done.output
    found = json.loads(plan("covering", subscriptions, "--json").output)
    assert found["rows"] == rows
    assert found["figures"]["roots of all subscriptions, share"] == pytest.approx(11 / 30)
    wrong = plan("covering", out.with_name("no-such-folder"))
    assert wrong.exit_code == 2
