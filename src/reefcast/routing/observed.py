"""The part of the broker core that only tells: what drivers ask, and what operators see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from reefcast.model.messages import EntityId, Header, LinkName, PeerMessage, Publish, ServiceMessage
from reefcast.overlay.scot import Neighbours
from reefcast.routing.capabilities import OpensLinks, SoftLink
from reefcast.routing.clients import ClientState
from reefcast.routing.consequences import Consequences
from reefcast.routing.counts import Counts
from reefcast.routing.delivering import Delivering
from reefcast.routing.links import Links
from reefcast.routing.neighbour_links import NeighbourLinks
from reefcast.routing.router import Router
from reefcast.routing.services import Services
from reefcast.routing.status import links_status, router_status
from reefcast.routing.tables import MOST_ROWS


class Observed:
    """What is seen of one broker; the broker sets its parts."""

    name: LinkName
    router: Router
    links: Links
    clients: dict[LinkName, ClientState]
    counters: Counts[str]
    delivering: Delivering
    neighbours: NeighbourLinks
    _neighbours: tuple[LinkName, ...]
    _opens_links: OpensLinks
    _scot: Neighbours | None
    _services: Services
    _then: Consequences

    # --- what drivers ask -------------------------------------------------------------------------

    @property
    def soft_links(self) -> Mapping[LinkName, SoftLink]:
        """The links besides those of the overlay that it has, or is about to open or close."""
        return self._opens_links.soft_links

    def alongside(self, link: LinkName) -> Sequence[LinkName]:
        """Return the soft links that lead to brokers behind this neighbour."""
        return self._opens_links.alongside(link)

    @property
    def messages(self) -> tuple[type[PeerMessage | ServiceMessage], ...]:
        """The messages that only brokers exchange, of its routing and of its services."""
        return (*self.router.messages, *self._services.messages)

    @property
    def header(self) -> type[Header]:
        """The header that copies carry from hop to hop."""
        return self.router.header

    def known_as(self, id: EntityId, client: LinkName) -> EntityId:
        """Return the id by which other brokers know the client's own `id`."""
        return self._then.settling.known_as(id, client)

    # --- what can be seen -------------------------------------------------------------------------

    def waiting(self, sent: Iterable[Publish] = ()) -> Iterator[Publish]:
        """Yield the publications in memory only that wait, and of those that the driver `sent`."""
        held = (publish for client in self.clients.values() for publish in client.held)
        yield from self.delivering.in_memory((*held, *self.neighbours.waiting(), *sent))

    @property
    def holds_publications(self) -> bool:
        """Whether publications wait here for their publisher's advertisement to settle."""
        return any(client.held for client in self.clients.values())

    def tables(self) -> dict[str, int]:
        """Return the number of rows of each table, under the papers' names."""
        return {name: len(table) for name, table in self.router.tables().items()}

    def sizes(self) -> dict[str, int]:
        """Return the number of rows of each table, of the router and of the services."""
        of_services = {
            name: len(table)
            for service in self._services
            for name, table in service.tables().items()
        }
        return self.tables() | of_services

    def figures(self) -> dict[str, int]:
        """Return the figures of all services."""
        return {
            name: count for service in self._services for name, count in service.figures().items()
        }

    @property
    def relearning(self) -> bool:
        """Whether neighbours still have to tell what they know, or answers are still to come."""
        return self.neighbours.relearning

    def status(
        self, now: float, asked: Collection[str] = (), most_rows: int = MOST_ROWS, skip: int = 0
    ) -> dict[str, Any]:
        """Return what operators see at `now`, as plain data (see `routing.status`): `most_rows`
        rows, behind the first `skip`, of the tables in `asked` and of those that are always shown.
        Drivers add what only they know."""
        self.links.pass_time(now)
        return {
            "broker": self.name,
            "relearning": self.relearning,
            **links_status(self.links, self._neighbours, self._scot, self.soft_links),
            "owed": self.delivering.status(now),
            **router_status(
                self.router, self._services, self.counters, asked, (skip, skip + most_rows)
            ),
        }
