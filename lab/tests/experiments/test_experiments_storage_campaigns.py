"""The experiments with storages, tiny: what they measure, and what must hold."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reefcast.errors import ConfigurationError, InternalError
from reefcast.overlay.topology import names, path
from reefcast.pipeline.planning.placement.inputs import checked, mean_hops
from reefcast.pipeline.planning.placement.steps import place
from reefcast_lab.experiments.campaign import Campaign, Run
from reefcast_lab.experiments.storage import advertising, asking, readings, real, trees
from reefcast_lab.experiments.storage.claims import FILES, PAPER
from reefcast_lab.experiments.storage.parameters import section
from reefcast_lab.experiments.storage.placing import PLACEMENTS, alike, popular

pytest.importorskip("scipy")

GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
{nodes}{edges}</graph></graphml>"""


def measured(campaign: Campaign, routing: str, x: float, seed: int = 1) -> dict[str, float]:
    measures = campaign.measure(Run("storage", "small", campaign.name, routing, x, "", seed))
    assert all(measure.at == 0.0 for measure in measures)
    return {measure.metric: measure.value for measure in measures}


figures = cache(measured)
"""Figures that are computed once for all tests, for runs in which a test changes nothing."""


@pytest.mark.parametrize(
    ("campaign", "x"),
    [
        (trees.OVER_BROKERS, 10),
        pytest.param(trees.OVER_CAPACITY, 5, marks=pytest.mark.soak),
        pytest.param(trees.OVER_COPIES, 2, marks=pytest.mark.soak),
    ],
)
def test_none_is_below_the_bound(campaign: Campaign, x: float) -> None:
    found = {one: figures(campaign, one, x) for one in PLACEMENTS}
    assert found["optimum"]["bound"] <= found["optimum"]["computed"] * (1 + 1e-9)
    assert found["optimum"]["computed"] <= found["optimum"]["bound"] / 0.99 + 1e-9
    for one in ("pub/sub", "rnd"):
        assert found[one]["computed"] >= found["optimum"]["bound"] * (1 - 1e-9)
        # 10 topics x 2 copies at 5 for a storage are 4 storages
        assert found[one]["brokers_with_storages"] == 4
    assert found["pub/sub"]["nearer_to_grd_opt"] in (0, 1)
    assert all(0 < each["busiest_share"] <= 1 for each in found.values())


def test_storages_that_keep_all_topics_are_as_many_as_copies() -> None:
    found = {one: figures(trees.OVER_CAPACITY, one, 10) for one in ("pub/sub", "rnd", "optimum")}
    assert {each["brokers_with_storages"] for each in found.values()} == {2}


def test_a_copy_more() -> None:
    hops = [figures(trees.OVER_COPIES, "pub/sub", k) for k in (1, 2)]
    assert "falls" not in hops[0]
    assert hops[1]["falls"] == float(hops[1]["computed"] < hops[0]["computed"])


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 12))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("one", ["pub/sub", "grd_opt", "rnd"])
def test_what_is_simulated_is_what_was_computed(one: str, seed: int) -> None:
    """They agree as far as 200 questions can tell: the standard deviation of their mean is below
    0.1 hops, and that of a share below 0.04. A publication has at least as many copies as a path to
    two storages needs."""
    found = figures(trees.OVER_BROKERS, one, 20, seed)
    assert found["mean_hops"] == pytest.approx(found["computed"], abs=0.4)
    assert found["busiest_share"] == pytest.approx(found["computed_busiest"], abs=0.16)
    assert found["off"] == pytest.approx(abs(found["mean_hops"] / found["computed"] - 1))
    # A request, what was found, and the end: each over all hops. To and fro takes 20 ms a hop.
    assert found["messages"] == pytest.approx(3 * found["mean_hops"], rel=0.01)
    assert found["answer_s"] == pytest.approx(0.02 * found["mean_hops"], rel=0.05)
    assert found["copies_sent"] >= 1


def test_an_answer_that_lacks_something_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = section("placement", "small")
    used = ("asked_s", "questions", "link_s", "publications_per_s")
    values = {name: getattr(entries, name) for name in used}
    forgetful = SimpleNamespace(**values, lifetime_s=5)
    monkeypatch.setattr(asking, "section", lambda name, scale: forgetful)
    with pytest.raises(InternalError, match="should have found"):
        measured(trees.OVER_BROKERS, "pub/sub", 10)


def test_savings() -> None:
    """They are compared with all sums written out."""
    rng = random.Random(5)
    overlay = trees.tree_of(9, 3)
    rates = np.array([[rng.random() for _ in overlay] for _ in range(2)])
    made = checked(overlay, ("t", "u"), rates, 2, 2)
    counts = readings.choices_by_savings(made.hops, made.rates, 2)
    assert counts.sum(axis=1).tolist() == [18, 18]
    brokers = range(9)
    for topic in (0, 1):
        twin = Counter[int]()
        for target in brokers:
            chosen: list[int] = []
            for _ in range(2):
                left = [b for b in brokers if b not in chosen]
                costs = {
                    b: sum(
                        rates[topic][i] * min(made.hops[i][s] for s in (target, *chosen, b))
                        for i in brokers
                    )
                    for b in left
                }
                chosen.append(min(left, key=lambda b: (round(costs[b], 9), b)))
            twin.update(chosen)
        assert counts[topic].tolist() == [twin[b] for b in brokers]


@pytest.mark.parametrize("one", readings.OTHERS)
def test_other_readings(one: str) -> None:
    found = figures(readings.CAMPAIGN, one, 5)
    least = figures(trees.OVER_CAPACITY, "optimum", 5)["bound"]
    assert found["computed"] > 0.5 * least
    if "grd_opt" not in one:
        assert found["computed"] >= least * (1 - 1e-9)


def test_no_assignment_to_the_same_storages_is_better() -> None:
    """Of five topics of two copies on three storages all assignments are tried."""
    rng = random.Random(3)
    overlay = trees.tree_of(12, 1)
    rates = np.array([[rng.random() for _ in overlay] for _ in range(5)])
    made = checked(overlay, tuple("abcde"), rates, 2, 4)
    storages = [made.brokers.index(broker) for broker in place(made).storage_brokers]
    found = mean_hops(made, readings.best_assignment(made, storages, 0.0))
    pairs = list(combinations((made.brokers[one] for one in storages), 2))
    least = min(
        mean_hops(made, dict(zip(made.topics, chosen, strict=True)))
        for chosen in product(pairs, repeat=5)
        if max(Counter(broker for pair in chosen for broker in pair).values()) <= 4
    )
    assert found == pytest.approx(least)
    assert mean_hops(made, place(made).placement) >= least - 1e-9


def test_only_the_first_seeds_are_simulated() -> None:
    seeds = section("placement", "small").simulated_seeds
    found = measured(trees.OVER_BROKERS, "pub/sub", 10, seeds)
    assert "mean_hops" not in found and "off" not in found
    assert found["computed"] > 0 and found["nearer_to_grd_opt"] in (0, 1)


def test_other_readings_are_not_beside_a_figure_of_the_paper() -> None:
    others = ("storage/S1-popular", "storage/S2-popular", "storage/readings", "storage/real")
    assert all(claim.paper is None for claim in PAPER.claims if claim.id in others)
    close = [claim for claim in PAPER.claims if claim.measure == "nearer_to_grd_opt"]
    assert {claim.id for claim in close if claim.explained} == {"storage/S1", "storage/S2"}


def test_rules_of_advertisements() -> None:
    """On a tree of 20, four storages of five topics are each announced once over all 19 links by
    our rule."""
    ours = figures(advertising.CAMPAIGN, advertising.EVERY_STORAGE, 20)
    assert ours == {"messages_to_tell": 380, "messages_to_withdraw": 95, "left_alone": 0}
    paper = figures(advertising.CAMPAIGN, advertising.NEAREST_ONLY, 20)
    assert paper["messages_to_tell"] < 380
    assert paper["messages_to_withdraw"] < 95
    assert 0 < paper["left_alone"] < 1


def test_the_papers_rule_by_hand() -> None:
    """On a line the middle knows both storages, which are equally near, and each end its own. So
    when one storage goes, its end knows none, and neither does the broker beside it."""
    line = path(names(5))
    network = advertising.NearestOnly(line)
    network.store("b1", ["t"])
    assert network.messages == 4
    network.store("b5", ["t"])
    # To b4, which is nearer to it; and from there to b3, which is equally near and stops it.
    assert network.messages == 6
    network.store("b5", [])
    # To b4 and b3; b2 hears of it, and never knew it.
    assert network.messages == 9
    assert [network.knows(broker, "t") for broker in line] == [True, True, True, False, False]


def test_topics_of_different_popularity() -> None:
    rates = popular(50, 20, 2.0, random.Random(1))
    assert rates.shape == (50, 20)
    assert 0 <= rates.min() <= rates.max() <= 2.0
    most = rates.max(axis=1)
    assert most.min() < 0.5
    assert most.max() > 1.5
    assert alike(50, 20, 2.0, random.Random(1)).max(axis=1).min() > 1.0
    found = figures(trees.POPULAR_OVER_BROKERS, "pub/sub", 10)
    assert found["mean_hops"] != figures(trees.OVER_BROKERS, "pub/sub", 10)["mean_hops"]


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a ring of eight, which is no tree."""
    file = tmp_path / "ring.graphml"
    nodes = "".join(f'<node id="n{i}"/>' for i in range(8))
    edges = "".join(f'<edge source="n{i}" target="n{(i + 1) % 8}"/>' for i in range(8))
    file.write_text(GRAPHML.format(nodes=nodes, edges=edges), encoding="utf-8")
    monkeypatch.setenv(real.VARIABLE, str(file))
    return file


def test_a_network_of_ones_own(ring: Path) -> None:
    assert {run.routing for run in real.runs("small")} == set(PLACEMENTS)
    found = measured(real.CAMPAIGN, "pub/sub", 2)
    assert found["brokers"] == 8
    # Four storages on a ring of eight that each keep half of what is asked for.
    assert 0.5 < found["mean_hops"] < 2
    ring.write_text("no network", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="cannot be read as GraphML"):
        measured(real.CAMPAIGN, "pub/sub", 2)


def test_without_one_there_are_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(real.VARIABLE, raising=False)
    assert real.runs("small") == []


def test_every_row_has_claims_a_plot_and_evidence() -> None:
    rows = ("S1", "S2", "S3", "S1-popular", "S2-popular", "readings", "rules", "real")
    ids = [f"storage/{row}" for row in rows]
    assert list(dict.fromkeys(claim.id for claim in PAPER.claims)) == ids
    assert [id for plot in PAPER.plots for id in plot.ids] == ids
    names = [campaign.name for campaign in PAPER.campaigns]
    assert [part.campaign for part in FILES.parts()] == names
    assert {claim.campaign for claim in PAPER.claims} == set(names)
    assert {run.routing for each in PAPER.campaigns[:3] for run in each.runs("paper")} == set(
        PLACEMENTS
    )
