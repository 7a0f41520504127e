"""The account: what was published, who was owed it, what came.

Owed
----
An event is *owed* to a subscription if one of its filters that holds had settled before the event
was made, and from then on there was always one that held: each settled before the one before it was
withdrawn. Some events are neither owed nor wrong: those made before a filter had settled, and those
under way when the last filter that held for them was withdrawn, or when the subscriber lost its
session (a connection that is lost, and found again by the same broker, makes no difference). But
where the routing keeps the order of a publisher, and a later event of the same publisher had come
by then, the event was owed all the same.

An event is *lost* if it was owed and did not come; *doubled* if the application saw it twice;
*misdelivered* if no filter of the subscription ever held for it, or each that did had ended (its
withdrawal had been answered) before it was made; *out of order* if it came behind a later one of
its publisher, and both were owed.

An `Excuse` says which of the lost a fault may cost: those made within a time, and at most so many.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from .judge import Attributes, Wanted

EventId = tuple[str, int]
OWED, GREY, NOT = "owed", "grey", "not"


class Published(NamedTuple):
    """An event. `called_s`, `made_s`: before and after the call that made it."""

    id: EventId
    event: Attributes
    called_s: float
    made_s: float


@dataclass(slots=True)
class Interest:
    """One filter of a subscription, in one session. Seconds on one clock."""

    wanted: Wanted
    asked_s: float
    settled_s: float = inf
    end_asked_s: float = inf
    ended_s: float = inf

    def stood(self, published: Published) -> bool:
        return self.settled_s <= published.called_s and published.made_s < self.end_asked_s


@dataclass
class Account:
    """One subscription, at `broker`."""

    name: str
    broker: str
    interests: list[Interest] = field(default_factory=list)
    came: list[tuple[EventId, float]] = field(default_factory=list)
    seen: set[EventId] = field(default_factory=set)
    judged: int = 0

    def ask(self, wanted: Wanted, now_s: float) -> Interest:
        interest = Interest(wanted, now_s)
        self.interests.append(interest)
        return interest

    def broken(self, now_s: float) -> list[Wanted]:
        """End all filters that stand, because the session is lost; return those that must be
        requested again."""
        standing = [each for each in self.interests if each.end_asked_s == inf]
        for each in self.interests:
            each.end_asked_s = min(each.end_asked_s, now_s)
            each.ended_s = min(each.ended_s, now_s)
        return [each.wanted for each in standing]


class Excuse(NamedTuple):
    """An allowance: `most` different events made between these times may be lost."""

    since_s: float
    until_s: float
    most: float = inf


class Lost(NamedTuple):
    """A lost event. `account`: who was owed it, `broker`: where."""

    id: EventId
    made_s: float
    account: str
    broker: str


@dataclass
class Outcome:
    """The outcome of one fault. `lost`: events beyond those `excused`; `longest_s`: the longest
    that an event took from the publisher's call to the application. `who`: where something came
    that should not have. `trouble`: what else went wrong, in words."""

    published: int = 0
    owed: int = 0
    lost: list[Lost] = field(default_factory=list)
    excused: list[Lost] = field(default_factory=list)
    doubled: int = 0
    misdelivered: int = 0
    disordered: int = 0
    longest_s: float = 0.0
    who: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not (
            self.lost or self.doubled or self.misdelivered or self.disordered or self.trouble
        )

    @property
    def missing(self) -> int:
        return len(self.lost) + len(self.excused)

    def words(self, began_s: float) -> str:
        """Return the outcome in one line; for lost events also who lost how many, and when they
        were made."""
        said = (
            f"{self.published} published, {self.owed} owed, {len(self.lost)} lost "
            f"(+{len(self.excused)} excused), {self.doubled} doubled, {self.misdelivered} "
            f"misdelivered, {self.disordered} out of order, longest {self.longest_s:.2f} s"
        )
        if self.lost:
            times = [each.made_s - began_s for each in self.lost]
            who = Counter(f"{each.account}@{each.broker}" for each in self.lost).most_common(4)
            of = Counter(each.id[0].split("-")[0] for each in self.lost).most_common(4)
            said += (
                f"; lost were made {min(times):.2f} to {max(times):.2f} s after the begin, "
                f"by {dict(of)}, for {dict(who)}"
            )
        if self.who:
            said += f"; {dict(self.who.most_common(6))}"
        return "; ".join([said, *self.trouble])


class Ledger:
    """The account of all subscriptions. `keeps_order`: what the routing declares. `begin` opens a
    part of the account, `outcome` says how it stands, `close` ends it; wrong events that come later
    count in the next part."""

    def __init__(self, *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        self.accounts: list[Account] = []
        self.known: dict[EventId, Published] = {}
        self._part: list[Published] = []

    def account(self, name: str, broker: str) -> Account:
        account = Account(name, broker)
        self.accounts.append(account)
        return account

    def published(self, published: Published) -> None:
        self._part.append(published)
        self.known[published.id] = published

    @property
    def count(self) -> int:
        """How many events this part has."""
        return len(self._part)

    def longest_since(self, since_s: float) -> float:
        """Return the longest time that an event took which came since then."""
        return max(
            (
                came_s - self.known[id].made_s
                for account in self.accounts
                for id, came_s in account.came[account.judged :]
                if came_s >= since_s and id in self.known
            ),
            default=0.0,
        )

    async def outcome(self, excuses: Sequence[Excuse] = ()) -> Outcome:
        """Return the outcome of this part so far; change nothing. Where filters are replaced again
        and again this takes half a minute: clients get their turns in between, or they would seem
        dead to their brokers."""
        outcome = Outcome(published=len(self._part))
        lost = []
        for account in self.accounts:
            lost += self._judge(account, outcome)
            await asyncio.sleep(0)
        excused_ids: Counter[Excuse] = Counter()
        for of in grouped(lost):
            excuse = self._excuse(of[0], excuses, excused_ids)
            if excuse is not None:
                excused_ids[excuse] += 1
            (outcome.lost if excuse is None else outcome.excused).extend(of)
        return outcome

    def close(self) -> None:
        """End this part, which is judged."""
        for account in self.accounts:
            account.seen.update(id for id, _ in account.came[account.judged :])
            account.judged = len(account.came)
            account.interests = [each for each in account.interests if each.ended_s == inf]
        self.accounts = [account for account in self.accounts if account.interests]
        self._part = []

    # --- one subscription -------------------------------------------------------------------------

    def _judge(self, account: Account, outcome: Outcome) -> list[Lost]:
        claims = Claims(account, self.keeps_order)
        standing = {each.id: claims.standing(each) for each in self._part}
        first_s = self._take(account, standing, outcome)
        owed = [each for each in self._part if standing[each.id] == OWED]
        outcome.owed += len(owed)
        return [
            Lost(each.id, each.made_s, account.name, account.broker)
            for each in owed
            if each.id not in first_s
        ]

    def _take(
        self, account: Account, standing: dict[EventId, str], outcome: Outcome
    ) -> dict[EventId, float]:
        """Judge everything that came; return when each event came first."""
        first_s: dict[EventId, float] = {}
        last: dict[str, int] = {}
        for id, came_s in account.came[account.judged :]:
            if id in first_s or id in account.seen:
                outcome.doubled += 1
                outcome.who[f"doubled for {account.name}@{account.broker}"] += 1
                continue
            first_s[id] = came_s
            of = self.known.get(id)
            if of is None or standing.get(id) == NOT:
                outcome.misdelivered += 1
                outcome.who[f"misdelivered to {account.name}@{account.broker}"] += 1
            elif standing.get(id) == OWED:
                outcome.longest_s = max(outcome.longest_s, came_s - of.made_s)
                publisher, seq = id
                outcome.disordered += self.keeps_order and seq < last.get(publisher, 0)
                last[publisher] = max(seq, last.get(publisher, 0))
        return first_s

    @staticmethod
    def _excuse(lost: Lost, excuses: Sequence[Excuse], used: Counter[Excuse]) -> Excuse | None:
        for excuse in excuses:
            if excuse.since_s <= lost.made_s <= excuse.until_s and used[excuse] < excuse.most:
                return excuse
        return None


class Claims:
    """What one subscription may claim."""

    def __init__(self, account: Account, keeps_order: bool) -> None:
        self._interests = account.interests
        self._keeps_order = keeps_order
        self._latest: dict[str, tuple[list[float], list[int]]] = {}
        if keeps_order:
            for (publisher, seq), came_s in account.came[account.judged :]:
                times, most = self._latest.setdefault(publisher, ([], []))
                times.append(came_s)
                most.append(max(seq, most[-1] if most else 0))

    def standing(self, published: Published) -> str:
        holding = [
            each
            for each in self._interests
            if each.ended_s >= published.made_s and each.wanted.holds(published.event)
        ]
        if not holding:
            return NOT
        until_s = max((each.end_asked_s for each in holding if each.stood(published)), default=-inf)
        while until_s < inf:
            later = [each.end_asked_s for each in holding if each.settled_s <= until_s]
            if max(later, default=-inf) <= until_s:
                break
            until_s = max(later)
        if until_s == inf or self._overtaken(published, until_s):
            return OWED
        return GREY

    def _overtaken(self, published: Published, until_s: float) -> bool:
        """Return whether a later event of the publisher had come by then; False where order is not
        kept."""
        publisher, seq = published.id
        times, most = self._latest.get(publisher, ([], []))
        found = bisect_right(times, until_s)
        return found > 0 and most[found - 1] > seq


def grouped(lost: Iterable[Lost]) -> list[list[Lost]]:
    """Return the losses by event, in the order in which events were made."""
    by_id: dict[EventId, list[Lost]] = {}
    for each in sorted(lost, key=lambda each: each.made_s):
        by_id.setdefault(each.id, []).append(each)
    return list(by_id.values())
