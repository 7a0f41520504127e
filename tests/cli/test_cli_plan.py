"""`reefcast plan storage`: what it prints, draws and writes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reefcast.cli.plan import command
from reefcast.errors import ConfigurationError
from reefcast.storage.placement.plan_file import load_plan

BROKERS = ("b1", "b2", "b3", "b4", "b5")
RATES = """broker,topic,rate_per_s
b1,x,9
b5,y,3
b4,y,1
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Five brokers in a row; who asks for x is at one end, who asks for y at the other."""
    lines = ['[network]\nrouting = "acyclic"\n']
    for number, broker in enumerate(BROKERS):
        lines.append(f'[[broker]]\nname = "{broker}"\nlisten = "127.0.0.1:{7301 + number}"\n')
    for a, b in itertools.pairwise(BROKERS):
        lines.append(f'[[link]]\nbetween = ["{a}", "{b}"]\n')
    network, rates = tmp_path / "net.toml", tmp_path / "rates.csv"
    network.write_text("\n".join(lines), encoding="utf-8")
    rates.write_text(RATES, encoding="utf-8")
    return ["storage", str(network), "--rates", str(rates)]


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


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
def test_rates_from_a_log(files: list[str], java: None, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [(i * 1_000_000, "b1", "x") for i in range(9)] + [(10_000_000, "b5", "y")]
    times_us, brokers, topics = map(list, zip(*rows, strict=True))
    log = tmp_path / "requests"
    log.mkdir()
    table = pa.table({"time_us": times_us, "broker": brokers, "topic": topics})
    pq.write_table(table, log / "all.parquet")
    asked = ("storage", files[1], "--log", str(log), "--copies", "1", "--capacity", "1")
    done = CliRunner().invoke(command, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["weights"] == pytest.approx({"x": 0.9, "y": 0.1})
    assert [each["broker"] for each in found["storages"]] == ["b1", "b5"]
