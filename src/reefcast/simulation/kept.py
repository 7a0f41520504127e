"""Publications that simulated neighbours keep for a broker that is down: those that it has not
acknowledged, and those that came since. A live broker's links do the same (`server.outputs`). When
the broker is back, the neighbour's core gets them with `LinkUp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from reefcast.model.messages import Input, LinkName, Publish
from reefcast.simulation.links import Link
from reefcast.simulation.node import Node


class HasNodes(Protocol):
    """The part of a world that this module needs."""

    nodes: dict[str, Node]

    def empty(self, link: Link, now: float) -> list[Publish]: ...

    def lose(
        self, node: Node, item: Input, at: float, link: LinkName | None = None, reason: str = ...
    ) -> None: ...


class Kept:
    """What the links of one world keep for brokers that are down. `is_soft`: whether there is a
    soft link between two brokers, which keeps nothing."""

    def __init__(self, world: HasNodes, is_soft: Callable[[LinkName, LinkName], bool]) -> None:
        self._world = world
        self._is_soft = is_soft

    def unserved(self, node: Node) -> dict[LinkName, list[Publish]]:
        """Return the publications that wait for the broker's CPU and came from live neighbours,
        which have not had them acknowledged."""
        from_neighbours: dict[LinkName, list[Publish]] = {
            other: []
            for other in node.neighbours
            if self._world.nodes[other].up and not self._is_soft(other, node.name)
        }
        for _, link, item, _ in node.queue:
            if link in from_neighbours and isinstance(item, Publish):
                from_neighbours[link].append(item)
        return from_neighbours

    def keep(self, node: Node, other: Node, unserved: Sequence[Publish], now: float) -> None:
        """Keep at `node` what it sent to `other`, which is down and has not acknowledged it."""
        if not node.up or other.name not in node.linked:
            return
        under_way = [*unserved, *self._world.empty(node.links[other.name], now)]
        kept = node.kept.setdefault(other.name, [])
        kept += [msgspec.structs.replace(publish, again=True) for publish in under_way]

    def missed(self, node: Node, out: Link, message: Any, at: float) -> None:
        """Handle a message that found the other end of its link down or restarted: a publication
        waits until the neighbour is back, unless that has been given up."""
        if type(message) is Publish and node.up and out.target in node.linked:
            node.kept.setdefault(out.target, []).append(message)
        else:
            self._world.lose(node, message, at, out.target)

    def give_up(self, node: Node, link: LinkName, now: float) -> None:
        """Lose what is kept for a neighbour that is gone for good."""
        for publish in node.kept.pop(link, ()):
            self._world.lose(node, publish, now, link)
