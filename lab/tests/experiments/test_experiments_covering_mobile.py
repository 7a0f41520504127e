"""The covering paper's mobile scenario."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.covering.mobile import EVERYTHING, mobile_script
from reefcast_lab.experiments.covering.topology import tiered_topology
from reefcast_lab.experiments.script import Claim, Script

TOPOLOGY = tiered_topology()


def small(**changed: float) -> Script:
    given = {
        "subscribers": 60,
        "publishers": 5,
        "selectivity": 0.04,
        "deploy_s": 10.0,
        "duration_s": 130.0,
        "publish_s": 0.7,
        "monitor_move_s": 20.0,
        "move_s": 2.0,
        "seed": 1,
    }
    return mobile_script(TOPOLOGY, **{**given, **changed})


def lives(script: Script) -> dict[str, list[Claim]]:
    """Return the claims of each moving client, in turn."""
    found = defaultdict(list)
    for claim in script.claims:
        if not claim.advertises:
            found[claim.client.rpartition(".")[0]].append(claim)
    return found


def test_who_moves_is_always_at_one_broker_and_comes_to_another_one() -> None:
    for claims in lives(small()).values():
        assert all(a.until_s == b.from_s and a.broker != b.broker for a, b in pairwise(claims))
        assert claims[0].from_s < 10.0 and claims[-1].until_s == math.inf
        assert len({claim.filter for claim in claims}) == 1
        assert len({claim.client for claim in claims}) == len(claims)


def test_moves_have_the_rates_that_were_asked_for() -> None:
    moved = {name: len(claims) - 1 for name, claims in lives(small()).items()}
    monitors = [moved.pop(f"monitor-{i}") for i in range(4)]
    assert monitors == [2, 1, 1, 1]
    assert sum(moved.values()) == 59
    still = lives(small(move_s=math.inf))
    assert all(len(claims) == 1 for name, claims in still.items() if name.startswith("player"))


def test_players_stay_in_their_regions_and_monitors_begin_one_in_each() -> None:
    region_of = {broker: region[0] for region in TOPOLOGY.regions for broker in region}
    everyone = lives(small(duration_s=2000.0))
    players = [claims for name, claims in everyone.items() if name.startswith("player")]
    assert all(len({region_of[claim.broker] for claim in claims}) == 1 for claims in players)
    monitors = [everyone[f"monitor-{i}"] for i in range(4)]
    assert [
        claims[0].broker in region
        for claims, region in zip(monitors, TOPOLOGY.regions, strict=True)
    ] == [True] * 4
    assert all(len({region_of.get(c.broker) for c in claims}) > 2 for claims in monitors)


def test_monitors_cover_players_who_want_a_share_of_the_world() -> None:
    script = small(subscribers=200, publish_s=0.1)
    wide = parse_filter(EVERYTHING)
    filters = [
        parse_filter(claims[0].filter)
        for name, claims in lives(script).items()
        if name.startswith("player")
    ]
    assert all(covers(wide, filter) for filter in filters)
    assert all(wide.holds(event.attributes) for event in script.events)
    matched = sum(f.holds(e.attributes) for f in filters for e in script.events[:400])
    # Squares lie wholly within the world, so its middle is wanted by more than its rim.
    assert matched / (200 * 400) == pytest.approx(0.04, rel=0.15)


def test_plays_and_is_the_same_for_the_same_seed() -> None:
    script = small()
    assert script == small() != small(seed=2)
    simulation = Simulation(Setup(graph=TOPOLOGY.graph))
    script.load(simulation, 0.0)
    result = simulation.run()
    assert result.quiet and not result.refused
    assert all(claim.settled_s < math.inf for claim in result.claims)
    assert len(result.claims) == len(script.claims)
    assert result.delivered_clients >= 4 * len(script.events) - 20


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan])
def test_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(ConfigurationError, match="cannot want a share"):
        small(selectivity=share)
