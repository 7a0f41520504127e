"""`reefcast topology scot`: what it prints, draws and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reefcast.cli.network import command as network
from reefcast.cli.topology import command
from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast.overlay.scot import evaluation_tree
from reefcast.overlay.scot import scot as scot_from


def topology_scot(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["scot", *arguments])


def test_classification_of_the_evaluation_overlay() -> None:
    done = topology_scot("--tree", "paper", "--clusters", "4", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["regions"] == list("ABCDEFGHIJKLMN")
    wished = {"clusters": 4, "edge": 40, "inner": 16, "a_links": 52, "i_links": 84, "diameter": 6}
    assert {key: found[key] for key in wished} == wished
    assert found["brokers"][0] == {
        "broker": "A-0",
        "region": "A",
        "cluster": 0,
        "kind": "edge",
        "primary": ["F-0"],
        "secondary": ["A-1", "A-2", "A-3"],
    }


def test_text() -> None:
    done = topology_scot("--tree", "path:3", "--clusters", "2")
    assert done.exit_code == 0, done.output
    assert "b2-0, b2-1" in done.output
    assert "3 regions x 2 clusters = 6 brokers (4 edge, 2 inner), 4 aLinks, 3 iLinks" in done.output


def test_the_network_file_reads_as_the_scot_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    asked = ("--tree", "paper", "--clusters", "4", "--out", str(file), "--listen", "[::1]:9000")
    done = topology_scot(*asked)
    assert done.exit_code == 0, done.output
    assert f"wrote {file}" in done.output.replace("\n", " ")
    network = load_network(file)
    assert network.network.routing == "idr"
    made = network.scot()
    assert made is not None
    assert made.graph == scot_from(evaluation_tree(), 4).graph
    assert made.places == scot_from(evaluation_tree(), 4).places
    assert [network.address(name)[1] for name in network.names] == list(range(9000, 9056))


def test_a_routing_of_ones_own_choice(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    asked = ("--tree", "path:3", "--clusters", "2", "--out", str(file))
    assert topology_scot(*asked, "--routing", "flooding").exit_code == 0
    assert load_network(file).network.routing == "flooding"


def test_drawing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "scot.svg"
    done = topology_scot("--tree", "star:4", "--clusters", "3", "--draw", str(file))
    assert done.exit_code == 0, done.output
    assert ">b4-2<" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("--routing", "acyclic"), "needs a tree"),
        (("--routing", "idrr"), "no routing named 'idrr'"),
        (("--listen", "127.0.0.1"), "write host:port"),
        (("--listen", "127.0.0.1:65531"), "6 brokers need the ports 65531 to 65536"),
        (("--listen", "127.0.0.1:0"), "6 brokers need the ports 0 to 5"),
        (("--listen", "0.0.0.0:7301"), "insecure = true"),
        (("--tree", "nowhere.graphml"), "no such file"),
    ],
)
def test_refusals_write_nothing(tmp_path: Path, changed: tuple[str, str], says: str) -> None:
    file = tmp_path / "net.toml"
    asked = {"--tree": "path:3", "--clusters": "2", "--out": str(file), changed[0]: changed[1]}
    done = topology_scot(*(word for option in asked.items() for word in option))
    assert isinstance(done.exception, ConfigurationError)
    assert says in str(done.exception)
    assert not file.exists()


def test_no_clusters_are_refused() -> None:
    assert topology_scot("--tree", "path:3", "--clusters", "0").exit_code == 2


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    tree = tmp_path / "tree.txt"
    tree.write_text("[/b] :heart:\n:heart: [red]x\n")
    done = topology_scot("--tree", str(tree), "--clusters", "1")
    assert done.exit_code == 0, done.output
    for name in ("[/b]", ":heart:", "[red]x"):
        assert f"{name}-0" in done.output


def test_a_plan_shows_names_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    assert topology_scot("--tree", "path:3", "--clusters", "1", "--out", str(file)).exit_code == 0
    file.write_text(file.read_text().replace("b1-0", "[r]").replace("b2-0", ":heart:"))
    planned = CliRunner().invoke(network, ["check", str(file)])
    assert planned.exit_code == 0, planned.output
    assert "[r]" in planned.output.splitlines()[3]
    assert ":heart:" in planned.output.splitlines()[4]
