"""The core's side of the compiled path of publications (`server.passage`): what the path must know,
and what it reports.

A publication is *plain* if the core only has to find the next hops of the rows that it matches, and
to follow the course that the routing has set for its link and header (`SetsCourses`): it comes from
a client within its advertisements, which have settled, or from a neighbour; none of its receivers
asked for order, named advisory events (`reserve`) or is absent, and no neighbour to which it goes
is awaited. All others go through `Broker.handle_publications`, which decides the same about the
plain ones: it is the twin that defines what is right.

The routing is asked for a course when a publication needs one. Courses are forgotten before the
core handles anything that is not a publication, whatever that changes (`PlainWay.forget`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reefcast.errors import InternalError
from reefcast.matching.passage.layout import BOUND, CHOSEN, FOLLOWED, UNMATCHED
from reefcast.matching.passage.sources import ANYTHING, Source
from reefcast.model import wire
from reefcast.model.messages import Header, LinkName
from reefcast.routing.capabilities import SetsCourses, capability
from reefcast.routing.clients import ClientState
from reefcast.routing.courses import BoundTables, Rows
from reefcast.routing.holding import Holding
from reefcast.routing.ordering import Ordering
from reefcast.routing.reserve import Reserve
from reefcast.routing.router import Router

if TYPE_CHECKING:
    from reefcast.matching.passage.courses import Courses
    from reefcast.matching.passage.leads import Leads

ROWS = {
    Rows.FOLLOWED: FOLLOWED,
    Rows.CHOSEN: CHOSEN,
    Rows.BOUND: BOUND,
    Rows.UNMATCHED: UNMATCHED,
}
"""What courses say of rows, as kernels are told it."""


class PlainWay:
    """The plain publications of one broker, whose parts it uses."""

    def __init__(
        self,
        router: Router,
        clients: Mapping[LinkName, ClientState],
        ordering: Ordering,
        holding: Holding,
        reserve: Reserve,
    ) -> None:
        self._router = router
        self._clients = clients
        self._links = router.links
        self._counters = router.counters
        self._ordering = ordering
        self._holding = holding
        self._reserve = reserve
        self._sets = capability(router, SetsCourses)
        self._courses: Courses | None = None
        self._bound = BoundTables()

    @property
    def exists(self) -> bool:
        """Whether the routing can have plain publications at all."""
        return self._sets.sets_courses

    def source(self, link: LinkName, now: float) -> Source | None:
        """Return the source of publications that came by `link` (see `Source`); None if none of
        them is plain."""
        router = self._router
        if router.absent or not self._sets.sets_courses:
            return None
        rows = router.prt.compiled()
        if rows is None:
            return None
        filters, leads = rows
        client, own, number = self._clients.get(link), ANYTHING, -1
        topical = filters.is_topical or self._reserve.guards
        if client is None:
            if link not in router.brokers:
                return None
            number = leads.number_of(link)
        elif not client.ever_advertised or client.holding:
            return None
        else:
            within = client.advertised_index()
            if within is not None:
                own, topical = within.address, topical or within.is_topical
        self._links.pass_time(now)
        limits = self._sets.limits()
        if limits is None:
            self.forget()
            return None
        for hop, most in limits.items():
            leads.limit(hop, most)
        courses = self._known(leads).table(link, is_client=client is not None)
        name = b"" if client is None else link.encode()
        return Source(filters, leads, number, own, name, courses, topical)

    # --- what the routing has said ----------------------------------------------------------------

    def forget(self) -> None:
        """Forget all courses, because the core's tables are about to change or may have changed;
        first report to the routing how often its choices were used."""
        courses = self._courses
        if courses is not None:
            for link, choice in courses.choices():
                if choice.uses:
                    self._sets.repeated(choice.hops, link, choice.uses)
            courses.forget()

    @property
    def chooses(self) -> bool:
        """Whether choices are to be counted."""
        return self._courses is not None and self._courses.chooses

    def _known(self, leads: Leads) -> Courses:
        """Return the courses for these leads; the router may have another table by now."""
        if self._courses is None or self._courses.leads is not leads:
            from reefcast.matching.passage.courses import Courses  # loads what no client has

            self.forget()
            self._bound.forget()
            self._courses = Courses(leads)
        return self._courses

    def set_course(self, source: Source, link: LinkName, number: int, header: Header) -> None:
        """Ask the routing for the course of publications that come from this source, by `link`,
        with this header, and enter it under the header's `number`."""
        from reefcast.matching.passage.courses import Directions  # loads what no client has

        course, directions = self._sets.course(header, link), None
        if course is not None:
            always = [(hop, wire.encode_header(each)) for hop, each in course.always]
            onward, table = wire.encode_header(course.onward), 0
            if course.tree is not None:
                table = self._bound.of(course.tree, source.filters, source.leads)
            directions = Directions(onward, always, ROWS[course.rows], table)
        self._known(source.leads).enter(link, number, directions)

    def choose(
        self, source: Source, link: LinkName, number: int, header: Header, found: Sequence[int]
    ) -> None:
        """Ask the routing which neighbours get a copy where a publication with a course matches
        these rows, by their handles in the index."""
        courses, course = self._known(source.leads), self._sets.course(header, link)
        if course is None or courses.is_full(link, number):
            self.forget()
            return
        hops = source.leads.hops_of(found)
        try:
            chosen = self._sets.chosen([source.leads.destinations[to].name for to in hops], link)
        except InternalError:  # the tables do not fit together: the readable way says so
            courses.choose(link, number, hops, None)
            return
        head = wire.encode_header(course.onward)
        courses.choose(link, number, hops, [(hop, head) for hop in chosen])

    # --- what comes of publications ---------------------------------------------------------------

    def leads_to(self, name: LinkName, *, is_client: bool) -> bool:
        """Return whether publications for this client or neighbour may be plain."""
        if not is_client:
            return name not in self._holding.closed
        return name not in self._ordering and name not in self._reserve.naming

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
        if hops:
            self._sets.went(hops)
        for hop, copies in hops.items():
            counters["forwarded"] += copies
            self._links.goes(hop, copies)
