"""Credits of publishers, and congestion between brokers. No I/O, no clock.

Theory of operation
-------------------
Brokers never stop reading from brokers: three of them in a ring, each with a full bounded queue
towards the next, would wait for each other for ever. Instead, the source is slowed down. A client
may send `window` publications; the broker gives credit back as it processes them. Under congestion
it withholds that credit until the congestion is over.

A *target* is a link of this broker: a subscriber or a neighbour. It is congested (a) from when a
subscriber with the policy `block` has more in its queue than its limit, until half of the limit is
left, or until `block_s` have passed: then it is disconnected (see `client_session`); (b) from when
a neighbour that is up has left more than `link_high` publications unacknowledged, until half of
that is left; (c) while a broker beyond that neighbour says that it is congested. In a tree, it is
behind the link by which its notice came, or behind a soft link to there. On an overlay with cycles,
publications may reach it over other links than its notice came by: there every neighbour leads to
every broker. A client that feeds a congested target gets no credit while any target that it fed is
congested.

When publications that came from a *neighbour* feed a target with reason (a) or (b), their publisher
is elsewhere: this broker announces itself congested (CONGESTION with its name and a number; the
newest number of an origin counts), and everyone passes the notice on, away from where it came. Only
reasons (a) and (b) make a broker announce anything, never (c): a notice always stands for a queue
that really is full and that really drains, so that notices cannot keep one another alive; nor can
they go round in cycles, since each broker passes a number on once. They are sent again every
`RENEW_S` and expire after `EXPIRE_S`, in case the notice of the end is lost.

So a subscriber blocks publishers for at most `block_s` at a time, and only if it asked for `block`
or the network file says so.

What this costs: all publishers that send in the direction of a congested broker wait, also those
that do not feed the slow subscriber (on an overlay with cycles: all that send to any other broker);
and publications that are under way when the notice arrives still come, at most one window for each
publisher.

Dynamic routing avoids a link long before any of this, from tens of unacknowledged publications on
(OctopiA's `tau`), while `link_high` is in the thousands. Credit is the last resort, when no path is
free."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from reefcast.model.messages import LinkName
from reefcast.model.wire import Congestion

RENEW_S = 2.0
EXPIRE_S = 7.0
OWN_QUEUE = ""
"""Reasons (a) and (b); any other reason is the name of the broker from which a notice (c) came."""


class Account:
    """The credit of one publishing client. `blockers`: the congested targets that it fed;
    `throttled`: whether its user sends faster than it may."""

    __slots__ = ("allowance", "blockers", "owed", "throttled", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.allowance = window
        self.owed = 0
        self.throttled = False
        self.blockers: set[LinkName] = set()

    @property
    def withheld(self) -> bool:
        return self.throttled or bool(self.blockers)

    def spend(self, count: int) -> bool:
        """Count `count` publications as processed; return False if the client grossly overdraws."""
        self.allowance -= count
        self.owed += count
        return self.allowance >= -2 * self.window

    def grant(self) -> int:
        """Return the credit to give back now; small amounts are saved up."""
        if self.blockers or self.throttled or self.owed * 8 < self.window:
            return 0
        granted, self.owed = self.owed, 0
        self.allowance += granted
        return granted

    def reopen(self) -> int:
        """Return the credit that the new connection of a client that is back starts with."""
        if not self.withheld:
            self.owed = 0
        self.allowance = max(0, self.window - self.owed)
        return self.allowance


class Notice(NamedTuple):
    """A notice of congestion. `links`: the links that lead to the broker that is congested."""

    number: int
    links: tuple[LinkName, ...]
    congested: bool
    expires_s: float


class CongestionControl:
    """Keep all targets, notices and accounts of one broker.

    `grant(client, n)` gives a client credit; `flood(notice, link)` sends a notice to all neighbours
    but `link`. `number` must exceed the numbers that the broker used before it restarted (its start
    time does). `sources(link)`: the links that lead to brokers whose notices come by `link`."""

    def __init__(
        self,
        name: str,
        number: int,
        grant: Callable[[LinkName, int], None],
        flood: Callable[[Congestion, LinkName | None], None],
        sources: Callable[[LinkName], Sequence[LinkName]] = lambda link: (link,),
    ) -> None:
        self.accounts: dict[LinkName, Account] = {}
        self.targets: dict[LinkName, set[str]] = {}
        self._name = name
        self._number = number
        self._grant = grant
        self._flood = flood
        self._sources = sources
        self._announced = False
        self._renew_at_s = 0.0
        self._notices: dict[str, Notice] = {}

    @property
    def announced(self) -> bool:
        """Whether the other brokers have been told that this one is congested."""
        return self._announced

    def full(self, target: LinkName, reason: str = OWN_QUEUE) -> None:
        self.targets.setdefault(target, set()).add(reason)

    def relieved(self, target: LinkName, reason: str = OWN_QUEUE) -> None:
        """Remove a reason; if it was the last, publishers that wait for `target` get credit."""
        reasons = self.targets.get(target)
        if reasons is None or reason not in reasons:
            return
        reasons.remove(reason)
        if not reasons:
            del self.targets[target]
            for client, account in self.accounts.items():
                if target in account.blockers:
                    account.blockers.remove(target)
                    self.settle(client, account)
        if self._announced and not self._own_reasons():
            self._announce(False)

    def settle(self, client: LinkName, account: Account) -> None:
        """Give `client` the credit that it is owed, unless that is withheld."""
        granted = account.grant()
        if granted:
            self._grant(client, granted)

    def fed(self, source: LinkName, targets: Set[LinkName], now: float) -> None:
        """Note that publications from `source` went to `targets`."""
        congested = self.targets.keys() & targets
        if not congested:
            return
        account = self.accounts.get(source)
        if account is not None:
            account.blockers |= congested
        elif not self._announced and any(OWN_QUEUE in self.targets[t] for t in congested):
            self._renew_at_s = now + RENEW_S
            self._announce(True)

    def notice(self, notice: Congestion, link: LinkName, now: float) -> None:
        """Handle a notice that came by `link`; note a new one, and pass it on."""
        known = self._notices.get(notice.origin)
        if notice.origin == self._name or (known and known.number >= notice.number):
            return
        links = tuple(self._sources(link))
        for other in known.links if known else ():
            if other not in links or not notice.congested:
                self.relieved(other, notice.origin)
        if notice.congested:
            for each in links:
                self.full(each, notice.origin)
        expires_s = now + EXPIRE_S
        self._notices[notice.origin] = Notice(notice.number, links, notice.congested, expires_s)
        self._flood(notice, link)

    def tick(self, now: float) -> None:
        """Renew the broker's own notice, and let those of others expire."""
        if self._announced and now >= self._renew_at_s:
            self._renew_at_s = now + RENEW_S
            self._announce(True)
        for origin, notice in self._notices.items():
            if notice.congested and notice.expires_s <= now:
                self._notices[origin] = notice._replace(congested=False)
                for link in notice.links:
                    self.relieved(link, origin)

    def _own_reasons(self) -> bool:
        return any(OWN_QUEUE in reasons for reasons in self.targets.values())

    def _announce(self, congested: bool) -> None:
        self._announced = congested
        self._number += 1
        self._flood(Congestion(self._name, self._number, congested), None)
