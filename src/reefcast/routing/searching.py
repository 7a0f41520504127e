"""Search the overlay for the home of a session: an echo, which ends when every broker has answered.

Rules
-----
- A broker that gets a search passes it to all of its other neighbours, and answers when they have
  answered: with the brokers that were reached, and those that were missing because their link was
  away, or went meanwhile. It answers a search that it knows at once. So on any overlay each link
  carries a search once in each direction at most.
- The home answers at once (`Here`), and every broker on the way back passes that on.
- Only who has heard from everybody knows that nobody has the session. If two brokers make it at the
  same time, each search reaches the other's broker, unless that has it by then. There the one with
  the lower rank goes first: the other's search waits at its broker for the outcome, and it begins
  again once it ends. Searches of brokers that only want to know wait there, too.

Source: the echo of E. J. H. Chang, IEEE TSE 8(4), 1982; rule 12 of `delivery.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from reefcast.model.messages import LinkName, Send
from reefcast.sessions.relay_messages import Nowhere, Where

SessionKey = tuple[str, str]
"""Owner and name."""


class Search:
    """One search at one broker. `back`: the link that it came by, "" for one of its own.

    `waits_for`: links whose answers are to come; `found`: the home has answered; `beaten`: another
    broker that makes the same session goes first. `held`: what waits for the outcome: searches of
    others for the same session, with their links."""

    def __init__(self, where: Where, back: LinkName, links: Iterable[LinkName]) -> None:
        self.where = where
        self.back = back
        self.waits_for = set(links)
        self.reached: set[str] = set()
        self.missing: set[str] = set()
        self.found = self.beaten = False
        self.held: list[tuple[Where, LinkName]] = []

    @property
    def key(self) -> SessionKey:
        return (self.where.owner, self.where.session)

    @property
    def unreached(self) -> list[str]:
        """The brokers that nobody could ask."""
        return sorted(self.missing - self.reached)


class Searches:
    """The searches that broker `me` takes part in. `links`: its neighbours that can be asked now;
    `expected`: all that it has. `ended` is given a search of its own that is over."""

    def __init__(
        self,
        me: str,
        links: Callable[[], Collection[LinkName]],
        expected: Callable[[], Collection[LinkName]],
        ended: Callable[[Search], list[Send]],
    ) -> None:
        self._me = me
        self._links = links
        self._expected = expected
        self._ended = ended
        self._by_id: dict[str, Search] = {}
        self._own: dict[SessionKey, Search] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def own(self, key: SessionKey) -> Search | None:
        """Return this broker's own search for a session, if one is under way."""
        return self._own.get(key)

    def begin(self, where: Where, back: LinkName = "") -> list[Send]:
        """Begin a search, or take part in one that came by a link; hold it while this broker makes
        the session itself, and goes first."""
        own = self._own.get((where.owner, where.session)) if back else None
        if own is not None and own.where.rank:
            if not where.rank or own.where.rank < where.rank:
                own.held.append((where, back))
                return []
            own.beaten = True
        links = [link for link in self._links() if link != back]
        search = self._by_id[where.id] = Search(where, back, links)
        search.reached.add(self._me)
        search.missing.update(set(self._expected()).difference(links, [back]))
        if not back:
            self._own[search.key] = search
        return [Send(link, where) for link in links] + self._look_over(search)

    def nowhere(self, answer: Nowhere, link: LinkName) -> list[Send]:
        """Note that the session is not behind a link."""
        search = self._by_id.get(answer.id)
        if search is None:
            return []
        search.reached.update(answer.reached)
        search.missing.update(answer.missing)
        search.waits_for.discard(link)
        return self._look_over(search)

    def here(self, id: str, link: LinkName) -> Search | None:
        """Note that the home is behind a link; return the search, but None if that is over, or has
        found it before."""
        search = self._by_id.get(id)
        if search is None or search.found or link not in search.waits_for:
            return None
        search.found = True
        search.waits_for.discard(link)
        if not search.back:
            del self._own[search.key]
        self._forget_if_over(search)
        return search

    def lost(self, link: LinkName) -> list[Send]:
        """Handle that a link is away or gone: what was asked by it counts as not answered."""
        sends: list[Send] = []
        for search in list(self._by_id.values()):
            if search.back == link:
                del self._by_id[search.where.id]
                continue
            search.held = [(where, back) for where, back in search.held if back != link]
            if link in search.waits_for:
                search.waits_for.remove(link)
                search.missing.add(link)
                sends += self._look_over(search)
        return sends

    def _look_over(self, search: Search) -> list[Send]:
        """Conclude a search when all links have answered: unless it has found the home, answer the
        broker that sent it, or end one of this broker's own."""
        if search.waits_for:
            return []
        if search.found:
            self._forget_if_over(search)
            return []
        del self._by_id[search.where.id]
        if search.back:
            reached, missing = tuple(sorted(search.reached)), tuple(sorted(search.missing))
            answer = Nowhere(id=search.where.id, reached=reached, missing=missing)
            return [Send(search.back, answer)]
        del self._own[search.key]
        return self._ended(search)

    def _forget_if_over(self, search: Search) -> None:
        if not search.waits_for:
            self._by_id.pop(search.where.id, None)
