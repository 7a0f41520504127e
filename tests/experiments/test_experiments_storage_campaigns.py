"""The experiments with storages, tiny: what they measure, and what must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.experiments.campaign import Campaign, Run
from reefcast.experiments.storage import real, trees
from reefcast.experiments.storage.claims import PAPER
from reefcast.experiments.storage.evidence import SECTIONS
from reefcast.experiments.storage.placing import PLACEMENTS

pytest.importorskip("scipy")

GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
{nodes}{edges}</graph></graphml>"""


def figures(campaign: Campaign, routing: str, x: float, seed: int = 1) -> dict[str, float]:
    measures = campaign.measure(Run("storage", "small", campaign.name, routing, x, "", seed))
    assert all(measure.at == 0.0 for measure in measures)
    return {measure.metric: measure.value for measure in measures}


@pytest.mark.parametrize(
    ("campaign", "x"),
    [(trees.OVER_BROKERS, 10), (trees.OVER_CAPACITY, 5), (trees.OVER_COPIES, 2)],
)
def test_none_is_below_the_bound(campaign: Campaign, x: float) -> None:
    found = {one: figures(campaign, one, x) for one in PLACEMENTS}
    assert found["optimum"]["bound"] <= found["optimum"]["mean_hops"] * (1 + 1e-9)
    assert found["optimum"]["mean_hops"] <= found["optimum"]["bound"] / 0.99 + 1e-9
    for one in ("pub/sub", "rnd"):
        assert found[one]["mean_hops"] >= found["optimum"]["bound"] * (1 - 1e-9)
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
    assert hops[1]["falls"] == float(hops[1]["mean_hops"] < hops[0]["mean_hops"])


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of eight, which is no tree."""
    file = tmp_path / "ring.graphml"
    nodes = "".join(f'<node id="n{i}"/>' for i in range(8))
    edges = "".join(f'<edge source="n{i}" target="n{(i + 1) % 8}"/>' for i in range(8))
    file.write_text(GRAPHML.format(nodes=nodes, edges=edges), encoding="utf-8")
    monkeypatch.setenv(real.VARIABLE, str(file))
    return file


def test_a_network_of_ones_own(ring: Path) -> None:
    assert {run.routing for run in real.runs("small")} == set(PLACEMENTS)
    found = figures(real.CAMPAIGN, "pub/sub", 2)
    assert found["brokers"] == 8
    # Four storages on a ring of eight that each keep half of what is asked for.
    assert 0.5 < found["mean_hops"] < 2
    ring.write_text("no network", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="cannot be read as GraphML"):
        figures(real.CAMPAIGN, "pub/sub", 2)


def test_without_one_there_are_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(real.VARIABLE, raising=False)
    assert real.runs("small") == []


def test_every_row_has_claims_a_plot_and_evidence() -> None:
    ids = [f"storage/{row}" for row in ("S1", "S2", "S3", "real")]
    assert list(dict.fromkeys(claim.id for claim in PAPER.claims)) == ids
    assert [id for plot in PAPER.plots for id in plot.ids] == ids
    names = [campaign.name for campaign in PAPER.campaigns]
    assert [section.campaign for section in SECTIONS] == names
    assert {claim.campaign for claim in PAPER.claims} == set(names)
    assert {run.routing for each in PAPER.campaigns[:3] for run in each.runs("paper")} == set(
        PLACEMENTS
    )
