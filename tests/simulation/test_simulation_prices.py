"""What a simulated broker is charged for its inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.messages import Input, Subscribe, Unsubscribe
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.tables import IndexFactory
from reefcast.routing.tree import Replace
from reefcast.simulation.costs import CostModel, preset
from reefcast.simulation.prices import Prices
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
    """Work of seven comparisons, packed or not."""

    def __init__(self) -> None:
        self.packed: list[bool] = []

    def watch(self, new_index: IndexFactory) -> IndexFactory:
        return new_index

    def drain(self, *, packed: bool) -> float:
        self.packed.append(packed)
        return 7.0


def price(item: Input, work: Work | None = None, costs: CostModel = COSTS) -> float:
    """Return the price of an input at a broker with two advertisements and five subscriptions."""
    core = SimpleNamespace(tables=lambda: {"SRT": 2, "PRT": 5}, last_routed=[])
    node: Any = SimpleNamespace(core=core, comparisons=work, trace=None, prt_rows=0)
    return Prices(costs, [Replace]).of(node, item, [], 0.0)


def test_a_subscription_costs_the_rows_that_it_is_matched_with_and_its_comparisons() -> None:
    assert price(SUBSCRIBE) == pytest.approx(1 + 2 * 0.01 + 5 * 0.001)
    assert price(SUBSCRIBE, work := Work()) == pytest.approx(1.025 + 7e-6)
    assert work.packed == [False]
    assert price(UNSUBSCRIBE) == 100.0
    assert price(UNSUBSCRIBE, Work()) == pytest.approx(100 + 7e-6)  # what it leaves behind


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
    assert isinstance(Prices(COSTS, [], Work).comparisons(active), Work)
    assert Prices(COSTS, [], Work).comparisons(none) is None
    assert Prices(free, [], Work).comparisons(active) is None


def test_comparisons_that_have_a_price_must_be_counted() -> None:
    Setup(graph={"a": ()}, costs=COSTS, comparisons=Work).validate()
    with pytest.raises(ConfigurationError, match="nothing counts them: give `comparisons`"):
        Setup(graph={"a": ()}, costs=COSTS).validate()


# --- presets --------------------------------------------------------------------------------------


def test_the_default_is_what_was_measured() -> None:
    assert preset("measured") == CostModel()
    assert preset("measured").comparison_s == 0.0
