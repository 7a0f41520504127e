"""What inputs cost a simulated broker, and what the presets were fitted to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reefcast.model.messages import Input, Publish, Subscribe, Unsubscribe
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.router import Decision
from reefcast.routing.tree import Replace
from reefcast.simulation.costs import CostModel, preset
from reefcast.simulation.prices import Prices
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

COSTS = CostModel(
    copy_s=0.0,
    subscribe_s=1.0,
    unsubscribe_s=100.0,
    advertisement_row_s=0.01,
    subscription_row_s=0.001,
    comparison_s=1e-6,
)
SUBSCRIBE = Subscribe(("c", 1), "x = 1", 0)
UNSUBSCRIBE = Unsubscribe(("c", 1), 0)


def replace(number: int) -> Replace:
    return Replace(id=("c", 1), subscriptions=tuple((("d", i), "x = 1") for i in range(number)))


class Work:
    """Seven comparisons, packed or not."""

    def __init__(self) -> None:
        self.packed: list[bool] = []

    def drain(self, *, packed: bool) -> float:
        self.packed.append(packed)
        return 7.0


def price(item: Input, work: Work | None = None, costs: CostModel = COSTS) -> float:
    """At a broker with two advertisements and five subscriptions."""
    core = SimpleNamespace(tables=lambda: {"SRT": 2, "PRT": 5}, last_routed=[])
    node: Any = SimpleNamespace(core=core, graph_work=work, trace=None, prt_rows=0)
    return Prices(costs, [Replace]).of(node, item, [], 0.0)


def test_a_subscription_costs_the_rows_that_it_is_matched_with_and_its_comparisons() -> None:
    assert price(SUBSCRIBE) == pytest.approx(1 + 2 * 0.01 + 5 * 0.001)
    assert price(SUBSCRIBE, work := Work()) == pytest.approx(1.025 + 7e-6)
    assert work.packed == [False]
    assert price(UNSUBSCRIBE, Work()) == 100.0


@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_comes_packed_costs_an_unsubscription_and_each_of_its_subscriptions(
    number: int,
) -> None:
    each = price(SUBSCRIBE)
    assert price(replace(number)) == pytest.approx(100 + number * each)
    if number:
        assert price(replace(number), work := Work()) == pytest.approx(100 + number * each + 7e-6)
        assert work.packed == [True]


def test_comparisons_are_counted_where_they_have_a_price_and_covering_is_looked_for() -> None:
    free = CostModel(comparison_s=0.0)
    active, none = AcyclicOptions(covering="active"), AcyclicOptions()
    assert Prices(COSTS, []).graph_work(active) is not None
    assert Prices(COSTS, []).graph_work(none) is None
    assert Prices(free, []).graph_work(active) is None


def test_a_broker_is_busy_for_what_its_comparisons_cost() -> None:
    """Three subscriptions none of which covers another: the last meets two."""
    busy = []
    for comparison_s in (0.0, 0.5):
        free = dict.fromkeys(CostModel.__slots__, 0.0)
        costs = CostModel(**{**free, "comparison_s": comparison_s})
        options = AcyclicOptions(covering="active")
        simulation = Simulation(Setup(graph={"a": ()}, options=options, costs=costs))
        for i in range(3):
            simulation.subscribe(f"c{i}", "a", f"x = {i}", at_s=float(10 * i))
        settled = [claim.settled_s for claim in simulation.run().claims]
        busy.append([at - 10 * i for i, at in enumerate(settled)])
    assert busy[0] == [0.0] * 3
    assert busy[1] == pytest.approx([0.0, 0.5, 1.0])


# --- presets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "publication_ms", "matching_ms"),
    [(14_000, 3.0, 0.81), (21_000, 4.5, 1.3), (26_000, 5.4, 1.6)],
)
def test_padres2011_gives_the_times_that_it_was_fitted_to(
    rows: int, publication_ms: float, matching_ms: float
) -> None:
    """Table II: 3.0 ms a publication and 0.81 ms a subscription with *active*; the others follow
    from their tables, half as large in the mean while they grow."""
    costs = preset("padres2011")
    decision = Decision(local={}, hops=[], matched=0)
    publication_s = costs.fixed()[Publish] + costs.matching_s(decision, rows)
    assert publication_s == pytest.approx(publication_ms * 1e-3, rel=0.05)
    matched_s = costs.subscribe_s + costs.subscription_row_s * rows / 2
    assert matched_s == pytest.approx(matching_ms * 1e-3, rel=0.05)


def test_padres2011_compares_as_long_as_the_paper_and_unsubscribes() -> None:
    costs = preset("padres2011")
    assert 6400 * costs.comparison_s == pytest.approx(12e-3, rel=0.05)
    assert costs.fixed()[Unsubscribe] == 1.4e-3


def test_the_default_is_what_was_measured() -> None:
    assert preset("measured") == CostModel()
    assert preset("measured").comparison_s == 0.0
