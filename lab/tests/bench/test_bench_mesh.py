"""The benchmark of the mesh measures what it says, and its twins find the same."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import InternalError
from reefcast.overlay.topology import hops_from, names, path, random_tree
from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.strategies import Paths
from reefcast_lab.bench import mesh
from reefcast_lab.bench.mesh import bench, by_s1, by_s2, contracted
from reefcast_lab.cli.bench import command

SUBSCRIPTIONS = [(f"s{i}", f"b{i % 7 + 1}", "x > 0") for i in range(30)]


@given(st.integers(0, 2**32))
def test_the_twins_find_what_the_mesh_finds(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(names(rng.randint(2, 15)), rng)
    me = rng.choice(sorted(tree))
    hops = hops_from(tree, me)
    mom = Neighbourhood(me, {x: min(tree[x], key=hops.__getitem__) for x in tree if x != me})
    links = rng.sample(mom.brokers, rng.randint(0, len(mom.brokers)))
    into, wom = contracted(mom, links), Wom(mom, links)
    assert into == {x: wom.substitute(x) for x in mom.brokers}
    anchors = [rng.choice(mom.brokers) for _ in range(rng.randint(1, 6))]
    for twin, direct in ((by_s1, False), (by_s2, True)):
        assert twin(mom, into, anchors) == set(Paths(wom, direct).sends(anchors, None))


def test_rows_stand_beside_their_twins_the_papers_figures_and_the_aims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mesh, "PUBLICATIONS", 20)
    told: list[str] = []
    rows = list(bench(path(names(7)), SUBSCRIPTIONS, [{"x": 1}, {"x": -1}], told.append))
    assert told == ["7 brokers, 30 subscriptions"]
    assert [row.what for row in rows] == [
        "WOM update",
        "WST update",
        *(f"{what} {strategy}" for what in ("path", "route") for strategy in ("S0", "S1", "S2")),
    ]
    assert [row.n for row in rows] == [4, 25, 20, 20, 20, 20, 20, 20]  # b1 has 5 of its own
    assert [row.paper_us for row in rows[:2]] == [800.0, 17_000.0]
    assert all((row.in_aim is None) == (row.aim_us is None) for row in rows)
    assert all(row.cpu_us > 0 and row.twin_cpu_us > 0 for row in rows)


def test_events_that_match_nothing_are_no_measurement() -> None:
    with pytest.raises(InternalError, match="none of the 1 events matches"):
        list(bench(path(names(7)), SUBSCRIPTIONS, [{"x": -1}], lambda said: None))


def test_prints_rows_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "PUBLICATIONS", 20)
    monkeypatch.setattr(mesh, "ROUNDS", 1)
    arguments = ["mesh", "--scale", "small", "--json"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    rows = json.loads(result.stdout)
    assert len(rows) == 8
    assert rows[0]["what"] == "WOM update"
