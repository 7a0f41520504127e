"""The core's side of the compiled path of publications (`server.passage`): what the path must know,
and what it reports.

A publication is *plain* if the core only has to find the next hops of the rows that it matches: it
comes from a client within its advertisements, which have settled, or from a neighbour; the routing
follows rows (`FollowsRows`); none of its receivers asked for order or is absent, and no neighbour
to which it goes is awaited. All others go through `Broker.handle_publications`, which decides the
same about the plain ones: it is the twin that defines what is right."""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.matching.passage.sources import ANYTHING, Source
from reefcast.model.messages import LinkName
from reefcast.routing.capabilities import FollowsRows, capability
from reefcast.routing.clients import ClientState
from reefcast.routing.holding import Holding
from reefcast.routing.ordering import Ordering
from reefcast.routing.router import Router


class PlainWay:
    """The plain publications of one broker, whose parts it uses."""

    def __init__(
        self,
        router: Router,
        clients: Mapping[LinkName, ClientState],
        ordering: Ordering,
        holding: Holding,
    ) -> None:
        self._router = router
        self._clients = clients
        self._links = router.links
        self._counters = router.counters
        self._ordering = ordering
        self._holding = holding
        self._follows_rows = capability(router, FollowsRows)

    @property
    def exists(self) -> bool:
        """Whether the routing can have plain publications at all."""
        return self._follows_rows.follows_rows

    def source(self, link: LinkName, now: float) -> Source | None:
        """Return the source of publications that came by `link` (see `Source`); None if none of
        them is plain."""
        router = self._router
        if router.absent or not self._follows_rows.follows_rows:
            return None
        rows = router.prt.compiled()
        if rows is None:
            return None
        client = self._clients.get(link)
        if client is None:
            if link not in router.brokers:
                return None
            self._links.pass_time(now)
            return Source(*rows, rows[1].number_of(link), ANYTHING, b"")
        if not client.ever_advertised or client.holding:
            return None
        self._links.pass_time(now)
        within = client.advertised_index()
        return Source(*rows, -1, ANYTHING if within is None else within.address, link.encode())

    def leads_to(self, name: LinkName, *, is_client: bool) -> bool:
        """Return whether publications for this client or neighbour may be plain."""
        return name not in (self._ordering if is_client else self._holding.closed)

    def passed(
        self, link: LinkName, count: int, nowhere: int, delivered: int, hops: Mapping[LinkName, int]
    ) -> None:
        """Count plain publications that came by `link` and were forwarded: `nowhere` of them to
        nobody, `delivered` times one to a client, and copies to the neighbours in `hops`."""
        counters = self._counters
        if link in self._clients:
            counters["published"] += count
            counters["unwanted"] += nowhere
        else:
            self._links.came(link, count)
            counters["false_positive"] += nowhere
        counters["delivered"] += delivered
        for hop, copies in hops.items():
            counters["forwarded"] += copies
            self._links.goes(hop, copies)
