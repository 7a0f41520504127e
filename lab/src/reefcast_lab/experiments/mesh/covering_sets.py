"""How large the covering sets of brokers are in a mesh: what is left of a WST when of two
subscriptions with the same substituted anchor, one of which covers the other, the latter is left
out (paper, section 7, "Impact of fanout").

Computed from the tree and the soft links, for tables that hold every subscription, as the paper's
brokers flood them. Of a publication a broker evaluates the predicates of all subscriptions in its
covering sets: how many of them an index spares is another matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from reefcast.overlay.topology import Edge, Graph
from reefcast.routing.mesh.maps import Wom
from reefcast_lab.experiments.mesh.topology import neighbourhood

AND = " AND "


class CoveringSets(NamedTuple):
    """The covering sets of one broker: subscriptions in all its sets, and their predicates."""

    rows: int
    predicates: int


def covering_sets(
    tree: Graph,
    soft_links: Collection[Edge],
    subscriptions: Sequence[tuple[str, str, str]],
    delta: int,
) -> dict[str, CoveringSets]:
    """Return covering sets by broker; `subscriptions`: client, broker and filter. One covers those
    whose text continues its own, as in the chains of the workload."""
    links: defaultdict[str, set[str]] = defaultdict(set)
    for a, b in soft_links:
        links[a].add(b)
        links[b].add(a)
    texts = list(dict.fromkeys(text for _, _, text in subscriptions))
    number = {text: i for i, text in enumerate(texts)}
    above = [tuple(number[one] for one in _shorter(text) if one in number) for text in texts]
    placed = {(broker, number[text]) for _, broker, text in subscriptions}
    predicates = [text.count("=") + text.count("BETWEEN") for text in texts]
    return {
        broker: _of_one(substitutes(tree, broker, links[broker], delta), placed, above, predicates)
        for broker in tree
    }


def substitutes(tree: Graph, me: str, links: Collection[str], delta: int) -> dict[str, str]:
    """Return the substituted anchor of a subscription at `me`, by the broker of its subscriber."""
    closer, near = neighbourhood(tree, me, delta)
    wom = Wom(near, links)
    found = {me: me}
    for broker in closer:
        found[broker] = wom.substitute(broker) if broker in near else found[closer[broker]]
    return found


def _of_one(
    substitute: dict[str, str],
    placed: Collection[tuple[str, int]],
    above: Sequence[tuple[int, ...]],
    predicates: Sequence[int],
) -> CoveringSets:
    """Return the sets of a broker. `placed`: brokers of filters, which have numbers; by number,
    `above`: those that cover it, and its `predicates`."""
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for broker, number in placed:
        groups[substitute[broker]].add(number)
    left = [
        number
        for numbers in groups.values()
        for number in numbers
        if numbers.isdisjoint(above[number])
    ]
    return CoveringSets(len(left), sum(predicates[number] for number in left))


def _shorter(text: str) -> Iterator[str]:
    """Yield the shorter filters of the chain: a prefix that ends before an AND between predicates
    has fewer of them."""
    parts = text.split(f"{AND}score")
    for number in range(1, len(parts)):
        yield f"{AND}score".join(parts[:number])
