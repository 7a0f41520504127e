"""The mesh paper's overlays and feeds, and what their publications match."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import Graph, diameter, hops_from, is_tree, names, random_tree
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.mesh.distribution import Distribution, distribution
from reefcast_lab.experiments.mesh.feeds import Dataset, dataset, workload
from reefcast_lab.experiments.mesh.topology import CONFIGURATIONS, network
from reefcast_lab.experiments.script import Claim, Event, Script

DATASETS = {"DT1": "C1", "DT2": "C1", "DT3": "C2", "DT4": "CPL", "DT5": "CPL", "DT-C": "C3"}
FEW = Dataset(60, feeds=6, skew=1.0, selectivity=0.5, chain=1, title_bytes=9)

# --- overlays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "brokers"), [("C1", 120), ("C2", 250), ("C3", 500), ("CPL", 21)])
def test_overlays_are_full_trees_of_degree_three(name: str, brokers: int) -> None:
    tree = network(name)
    hops = hops_from(tree, next(iter(tree)))
    degrees = Counter(len(around) for around in tree.values())
    assert is_tree(tree) and len(tree) == brokers and {*degrees} <= {1, 2, 3}
    assert degrees[2] <= 1  # the last one may lack a child
    levels = Counter(hops.values())
    assert [levels[i] for i in range(max(levels))] == [
        1,
        *(3 * 2**i for i in range(max(levels) - 1)),
    ]


def test_small_overlays_are_smaller_and_unknown_ones_refused() -> None:
    assert [len(network(name, "small")) for name in CONFIGURATIONS] == [40, 60, 80, 21]
    assert diameter(network("C1", "small")) < diameter(network("C1")) == 11
    with pytest.raises(ConfigurationError, match="no configuration 'C4'; take one of C1, C2"):
        network("C4")


# --- scripts --------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.floats(0.05, 0.95))
def test_a_seed_gives_one_script(
    subscriptions: int, feeds: int, chain: int, selectivity: float
) -> None:
    wanted = Dataset(subscriptions, feeds, 1.0, selectivity, chain, 5)
    brokers = names(7)
    scripts = [
        workload(brokers, wanted, seed).script(90, subscribe_s=3, from_s=4, duration_s=20)
        for seed in (1, 1, 2)
    ]
    assert scripts[0] == scripts[1] != scripts[2]
    claims, events = scripts[0].claims, scripts[0].events
    assert len({claim.client for claim in claims}) == len(claims) == subscriptions
    assert claims[0].from_s == 0 and all(claim.from_s < 3 for claim in claims)
    times = [event.at_s for event in events]
    assert len(times) == 30 and times == sorted(times) and times[0] >= 4 and times[-1] < 24
    assert {event.client for event in events} <= {f"p-{broker}" for broker in brokers}
    homes = {(event.attributes["feed"], event.broker) for event in events}
    assert len(homes) == len({feed for feed, _ in homes}) <= feeds
    for event in events:
        assert len(event.attributes) == chain + 2 and len(str(event.attributes["title"])) == 5


def test_feeds_are_as_popular_as_zipf_says_and_scores_as_selective_as_wanted() -> None:
    wanted = replace(FEW, subscriptions=20_000, selectivity=0.3)
    made = workload(names(5), wanted, 1)
    counts = Counter(text.split(" AND ")[0] for _, _, text in made.subscriptions)
    weights = [1 / rank for rank in range(1, 7)]
    expected = [20_000 * weight / sum(weights) for weight in weights]
    found = [counts[f"feed = 'f{feed:04d}'"] for feed in range(6)]
    assert found == pytest.approx(expected, rel=0.06)


def test_each_predicate_holds_for_the_wanted_share_whatever_the_score() -> None:
    wanted = replace(FEW, subscriptions=6_000, skew=0.0, selectivity=0.3)
    tree = network("CPL")
    script = workload(list(tree), wanted, 1).script(6000, subscribe_s=1, from_s=1, duration_s=60)
    low = [event for event in script.events if int(event.attributes["score1"]) < 50_000]
    for events in (script.events, low):
        found = distribution(tree, Script(script.claims, events)).subscriptions
        assert found.mean == pytest.approx(6_000 / 6 * 0.3, rel=0.02)


def test_only_chains_cover() -> None:
    def covered(chain: int) -> list[int]:
        """Return how many others cover each subscription."""
        wanted = replace(FEW, subscriptions=30, chain=chain)
        made = [parse_filter(text) for _, _, text in workload(names(5), wanted, 1).subscriptions]
        return sorted(sum(covers(a, b) for a in made if a is not b) for b in made)

    assert covered(1) == [0] * 30
    assert covered(3) == [0] * 10 + [1] * 10 + [2] * 10


@pytest.mark.parametrize(
    "change", [{"feeds": 0}, {"chain": 0}, {"selectivity": 0.0}, {"selectivity": 1.0}]
)
def test_datasets_of_nothing_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="take at least one feed"):
        replace(FEW, **change)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_dataset_is_in_the_file(scale: str) -> None:
    density = {}
    for name, configuration in DATASETS.items():
        brokers = network(configuration, scale)
        density[name] = dataset(name, scale).subscriptions / len(brokers)
    assert {name: round(each) for name, each in density.items()} == {
        **dict.fromkeys(("DT1", "DT2", "DT3", "DT4", "DT5"), 54),
        "DT-C": 13,
    }


# --- the matching distribution --------------------------------------------------------------------


def twin(tree: Graph, script: Script) -> tuple[list[int], list[int], list[int], Counter[str]]:
    """Return subscriptions, deliveries and pure forwarders of each publication, and copies of each
    broker."""
    matched, delivered, pure, copies = [], [], [], Counter[str]()
    for event in script.events:
        brokers = [
            c.broker for c in script.claims if parse_filter(c.filter).holds(event.attributes)
        ]
        wanted = {*brokers} - {event.broker}
        back = hops_from(tree, event.broker)
        links, waiting = set[tuple[str, str]](), [*wanted]
        while waiting:
            broker = waiting.pop()
            nearer = min(tree[broker], key=back.__getitem__)
            links.add((nearer, broker))
            waiting += {nearer} - {event.broker}
        matched.append(len(brokers))
        delivered.append(len(wanted))
        pure.append(len({broker for _, broker in links} - wanted))
        copies.update(sender for sender, _ in links)
    return matched, delivered, pure, copies


def check(found: Distribution, tree: Graph, script: Script) -> None:
    matched, delivered, pure, copies = twin(tree, script)
    assert found.publications == len(script.events)
    assert found.subscriptions.mean == pytest.approx(fmean(matched))
    assert found.deliveries.quantiles == tuple(np.quantile(delivered, (0.1, 0.5, 0.9, 0.99)))
    assert found.pure_forwarders.mean == pytest.approx(fmean(pure))
    assert found.copies == pytest.approx({b: copies[b] / len(script.events) for b in tree})
    sends = sum(copies.values())
    assert found.yields == pytest.approx(sum(delivered) / sends if sends else 0.0)


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(0, 2**32), st.integers(0, 25))
def test_the_distribution_is_that_of_paths_walked_one_by_one(
    brokers: int, seed: int, claims: int
) -> None:
    rng = random.Random(seed)
    tree = random_tree(names(brokers), rng)
    script = Script(
        [
            Claim(f"s{i}", rng.choice(list(tree)), f"a = {rng.randrange(3)}", 0.0)
            for i in range(claims)
        ],
        [
            Event("p", rng.choice(list(tree)), {rng.choice("ab"): rng.randrange(3)}, 1.0)
            for _ in range(rng.randrange(1, 9))
        ],
    )
    check(distribution(tree, script), tree, script)


def test_batches_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reefcast_lab.experiments.mesh.distribution.BATCH", 7)
    tree = network("CPL")
    script = workload(list(tree), FEW, 3).script(60, subscribe_s=1, from_s=1, duration_s=30)
    check(distribution(tree, script), tree, script)


def test_what_s0_sends_is_what_a_simulated_tree_sends() -> None:
    tree = network("CPL")
    script = workload(list(tree), FEW, 3).script(600, subscribe_s=1, from_s=5, duration_s=20)
    simulation = Simulation(Setup(graph=tree))
    for client, broker in {(event.client, event.broker) for event in script.events}:
        simulation.advertise(client, broker, "feed IS NOT NULL", 0.0)
    script.load(simulation, 1.0)
    result, found = simulation.run(), distribution(tree, script)
    assert result.messages["publish"] == round(sum(found.copies.values()) * 200)
    assert result.delivered_subscriptions == round(found.subscriptions.mean * 200)


@pytest.mark.parametrize(
    ("name", "deliveries", "pure_forwarders", "yields"),
    [("DT1", 348_000, 559_000, 0.38), ("DT2", 1_034_000, 1_010_000, 0.50)],
)
def test_s0_has_the_deliveries_and_pure_forwarders_of_the_papers_table_2(
    name: str, deliveries: int, pure_forwarders: int, yields: float
) -> None:
    tree = network("C1")
    made = workload(list(tree), dataset(name), 0)
    found = distribution(tree, made.script(3600, subscribe_s=240, from_s=240, duration_s=600))
    assert found.publications == 36_000
    assert found.deliveries.mean * 36_000 == pytest.approx(deliveries, rel=0.05)
    assert found.pure_forwarders.mean * 36_000 == pytest.approx(pure_forwarders, rel=0.05)
    assert found.yields == pytest.approx(yields, abs=0.015)
