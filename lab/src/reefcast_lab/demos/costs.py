"""What the same deliveries cost, and would have cost otherwise, in messages and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reefcast.pipeline.analysis import Analysis


@dataclass(frozen=True, slots=True)
class Cost:
    """One way to serve the subscribers. `link_*`: publications between brokers; `client_*`:
    publications to subscribers. `how` says where the figures are from."""

    name: str
    how: str
    link_messages: int
    link_bytes: int
    client_messages: int
    client_bytes: int

    @property
    def messages(self) -> int:
        return self.link_messages + self.client_messages

    @property
    def size_bytes(self) -> int:
        return self.link_bytes + self.client_bytes


@dataclass(frozen=True, slots=True)
class Flooding:
    """A simulated run of the same network and subscriptions with routing `flooding`: `events` of
    the replayed ones were published, `link_messages` publications crossed links."""

    events: int
    link_messages: int


def compare(analysis: Analysis, events: int, clients: int, flooding: Flooding) -> list[Cost]:
    """Compare content routing as traced, flooding as simulated, and sending every event to every
    subscriber."""
    deliveries = analysis.delays["count"]
    routed = analysis.link_publications
    frame_bytes = analysis.publication_bytes / routed if routed else analysis.body_bytes
    flooded = round(flooding.link_messages * events / flooding.events)
    sample = "" if flooding.events == events else f", {flooding.events} events scaled up"

    def cost(name: str, how: str, links: int, to_clients: int) -> Cost:
        link_bytes, client_bytes = links * frame_bytes, to_clients * analysis.body_bytes
        return Cost(name, how, links, round(link_bytes), to_clients, round(client_bytes))

    return [
        cost("Routing by content", "this run, from its trace", routed, deliveries),
        cost("Flooding", f"simulated{sample}: every broker gets every event", flooded, deliveries),
        cost(
            "Filtering at the client",
            "computed: every broker and every subscriber gets every event",
            flooded,
            events * clients,
        ),
    ]
