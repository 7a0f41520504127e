"""The cost of an input for a simulated broker, by the model of `costs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reefcast.model.messages import Effect, Input, PeerMessage, Publish, Subscribe
from reefcast.routing.covering.strategies import CoveringOptions
from reefcast.routing.router import RoutingOptions
from reefcast.simulation.costs import CostModel, copies_of
from reefcast.simulation.node import Comparisons, Node


class Prices:
    """Returns the prices of the inputs of one network. `messages`: those of its routing;
    `comparisons`: makes the counter of a broker's comparisons."""

    def __init__(
        self,
        costs: CostModel,
        messages: Iterable[type[PeerMessage]],
        comparisons: Callable[[], Comparisons] | None = None,
    ) -> None:
        self.costs = costs
        self._comparisons = comparisons
        own = tuple(messages)
        self._fixed = costs.fixed(own)
        self._like_subscribe = {Subscribe, *(m for m in own if m.costs_like is Subscribe)}

    def comparisons(self, options: RoutingOptions | None) -> Comparisons | None:
        """Return the counter of a broker's comparisons with these options, if they have a price."""
        covers = isinstance(options, CoveringOptions) and options.covering != "none"
        counted = self._comparisons if covers and self.costs.comparison_s else None
        return counted() if counted else None

    def of(self, node: Node, item: Input, effects: Sequence[Effect], start: float) -> float:
        """Return the seconds of CPU for the input that the core has just handled; trace what it
        matched."""
        core, costs = node.core, self.costs
        cost = self._fixed[type(item)]
        brought = self._subscriptions_in(item)
        if brought:
            cost += self._subscribing_cost(node, item, brought)
        if type(item) is not Publish:
            cost += self._changing_cost(node, item)
        for publish, decision in core.last_routed:
            matching = costs.matching_s(decision, node.prt_rows)
            cost += matching + costs.choice_s(decision)
            if node.trace and node.trace.wants(publish.publication.id):
                in_engine = costs.publication_s + matching
                node.trace.matched(publish.publication, decision, in_engine, start)
        return cost + costs.copy_s * copies_of(effects)

    def _subscriptions_in(self, item: Input) -> int:
        if type(item) in self._like_subscribe:
            return 1
        return len(item.says) if isinstance(item, PeerMessage) else 0

    def _subscribing_cost(self, node: Node, item: Input, brought: int) -> float:
        """Return the cost of `brought` subscriptions, beyond the fixed cost of the message."""
        costs, tables = self.costs, node.core.tables()
        rows = costs.advertisement_row_s * (tables.get("SRT", 0) + tables.get("CLT", 0))
        rows += costs.subscription_row_s * tables["PRT"]
        alone = type(item) in self._like_subscribe  # then the fixed cost has it
        return brought * (rows if alone else rows + costs.subscribe_s)

    def _changing_cost(self, node: Node, item: Input) -> float:
        """Return the cost of the comparisons for an input that may have changed the PRT, in which
        subscriptions come and go; note how many rows it has now."""
        if self.costs.table_row_s:
            node.prt_rows = node.core.tables()["PRT"]
        if node.comparisons is None:
            return 0.0
        packed = isinstance(item, PeerMessage) and type(item) not in self._like_subscribe
        return self.costs.comparison_s * node.comparisons.drain(packed=packed)
