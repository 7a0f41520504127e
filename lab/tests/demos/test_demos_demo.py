"""The demo as a user runs it, small; and its exit code when the check fails."""

from __future__ import annotations

import json
import zipfile
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

from analyses import an_analysis
from reefcast.cli.analyze import command as analyze
from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast_lab.cli.demo import Terminal, command
from reefcast_lab.datasets import flights
from reefcast_lab.datasets.flights import EVENT_COUNT
from reefcast_lab.demos import demo
from reefcast_lab.demos.check import Check
from reefcast_lab.demos.costs import Cost
from reefcast_lab.demos.replay import Timing

pytestmark = pytest.mark.spark


@pytest.fixture(params=[5000, pytest.param(EVENT_COUNT, marks=pytest.mark.soak)])
def year(request, monkeypatch, tmp_path):
    """Let the year have its first flights only, which Spark brings into order in a tenth of the
    time; with `--soak` also all."""
    if request.param == EVENT_COUNT:
        return
    whole, folder = flights.find_data(), tmp_path / "first flights"
    folder.mkdir()
    for name in ("weather.csv", "planes.csv"):
        (folder / name).symlink_to(whole / name)
    with (
        zipfile.ZipFile(whole / "flights.csv.zip").open("flights.csv") as lines,
        zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive,
    ):
        archive.writestr("flights.csv", b"".join(islice(lines, 1 + request.param)))
    monkeypatch.setattr(flights, "find_data", lambda: folder)
    monkeypatch.setattr(flights, "EVENT_COUNT", request.param)


@pytest.mark.long
def test_small_demo(spark, year, tmp_path):
    """Real flights, a SCOT of four brokers, a hundred subscriptions: nothing is lost, doubled or
    invented. Both commands take the Spark session that this process has already."""
    sizes = ("--events", "1500", "--subscriptions", "100", "--tree", "path:2", "--clusters", "2")
    folders = ("--out", str(tmp_path / "demo"), "--data", str(tmp_path / "data"))
    done = CliRunner().invoke(command, [*sizes, *folders, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    summary = json.loads(done.stdout)
    assert (summary["published"], summary["brokers"]) == (1500, 4)
    assert summary["expected"] == summary["delivered"] > 100
    assert (summary["lost"], summary["duplicated"], summary["unexpected"]) == (0, 0, 0)
    assert 0 < summary["link_messages"] < summary["flooding_link_messages"]
    assert summary["seconds"] > 0
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert "exactly as Spark SQL says" in page
    assert "What dynamic routing did" in page
    assert summary["idr_unreachable"] == 0
    analysis = CliRunner().invoke(analyze, [str(tmp_path / "demo" / "trace"), "--json"])
    figures = json.loads(analysis.stdout)
    assert sum(link["publications"] for link in figures["links"]) == summary["link_messages"]


def a_summary(options, check):
    costs = [Cost(name, "", 10, 100, 5, 50) for name in ("ours", "flooding", "filtering")]
    return demo.Summary(check, an_analysis(), costs, options, Timing(1.0, 1.5), 9.0, {})


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_exit_code_and_output(monkeypatch, lost, code, json_flag):
    check = Check(50_000, 50_000, 0, 0, 120, 120 - lost, lost, 0, 0)
    monkeypatch.setattr(demo, "run_demo", lambda options, show: a_summary(options, check))
    result = CliRunner().invoke(command, ["--out", "somewhere", *json_flag])
    assert result.exit_code == code
    if json_flag:
        summary = json.loads(result.stdout)
        assert summary["lost"] == lost
        assert summary["report"] == "somewhere/report.html"
    else:
        assert len(result.stdout.strip().splitlines()) == 11
        assert ("FAILED" if lost else "passed") in result.stdout


@pytest.mark.usefixtures("java")
def test_all_events(monkeypatch):
    seen = []
    check = Check(1, 1, 0, 0, 1, 1, 0, 0, 0)

    def run(options, show):
        seen.append(options.events)
        return a_summary(options, check)

    monkeypatch.setattr(demo, "run_demo", run)
    assert CliRunner().invoke(command, ["--events", "all", "--json"]).exit_code == 0
    assert seen == [EVENT_COUNT]
    assert "neither a number" in CliRunner().invoke(command, ["--events", "many"]).output


@pytest.mark.usefixtures("java")
def test_what_a_demo_needs_is_made_beforehand(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(demo, "prepare_demo", lambda data, master: made.append(data))
    result = CliRunner().invoke(command, ["--prepare", "--data", str(tmp_path)])
    assert (result.exit_code, result.output, made) == (0, "", [tmp_path])


def test_the_first_figures_are_told_once(capsys):
    show = Terminal(100, quiet=False)
    for published, delivered in ((1, 0), (2, 5), (3, 9)):
        show.replayed(published, delivered)
    told = capsys.readouterr().err
    assert "2 events published, 5 delivered" in told
    assert told.count("first figures after") == 1


@pytest.mark.parametrize(
    "wrong",
    [{"events": 0}, {"clusters": 0}, {"clusters": 70}, {"tree": "path:0"}, {"subscriptions": 0}],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        demo.DemoOptions(**wrong).validate()


def test_the_overlay_is_a_scot_with_dynamic_routing(tmp_path):
    network = demo.make_network(demo.DemoOptions(out=tmp_path))
    made = network.scot()
    assert (network.network.routing, len(made.tree), made.clusters) == ("idr", 3, 4)
    assert len(network.link) == 4 * 2 + 3 * 6
    written = load_network(tmp_path / "network.toml")
    assert written.scot() == made
    assert written.trace == network.trace


def test_places_follow_from_the_seed():
    first, again, other = (demo.place_publishers(demo.DemoOptions(seed=n)) for n in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == ["EWR", "JFK", "LGA"]
    assert len(set(first.values())) == 3
    alone = demo.place_publishers(demo.DemoOptions(tree="path:1", clusters=1))
    assert len(set(alone.values())) == 1
