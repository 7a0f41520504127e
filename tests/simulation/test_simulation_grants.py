"""Permissions are filters: whatever a user subscribes to, replays, retains or reads from a durable
session, he sees nothing outside of what his roles grant, and all inside. Live brokers, a storage
and clients in simulated time; SQLite judges, with the filters as WHERE clauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from granted_network import TOPICS, WHOLE, Granted, Judge, User, grant_of
from reefcast.client.client import Client
from reefcast.client.handles import inbox_of
from reefcast.errors import RefusedError
from reefcast.network.sections import RoleEntry

COLUMNS = ("n", "desk", "price", "owner")
DESKS, OWNERS = ("fx", "hr", "o'x"), ("anna", "bert")
SETTLED_S = 3.0
"""Longer than anything takes to settle, and to arrive."""

conditions = st.one_of(
    st.sampled_from([f"topic = '{topic}'" for topic in TOPICS]),
    st.sampled_from(["desk = 'fx'", "desk <> 'hr'", "desk IN ('fx', 'o''x')", "desk LIKE 'f%'"]),
    st.builds("price {} {}".format, st.sampled_from([">", "<=", "="]), st.integers(0, 3)),
    st.sampled_from(["owner IS NULL", "NOT owner = 'anna'", "price BETWEEN 1 AND 2", "TRUE"]),
)
own = st.sampled_from(["owner = ${user}", "desk = ${claims.desk}", "NOT desk = ${claims.desk}"])


def joined(terms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda some, word: f" {word} ".join(f"({each})" for each in some),
        st.lists(terms, min_size=1, max_size=3),
        st.sampled_from(["AND", "OR"]),
    )


filters = joined(conditions)
roles = st.builds(
    lambda publish, subscribe: (publish, subscribe),
    st.none() | joined(conditions | own),
    st.none() | joined(conditions | own),
)


class Event(NamedTuple):
    topics: tuple[str, ...]
    values: dict[str, Any]


events = st.builds(
    Event,
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=2, unique=True).map(tuple),
    st.fixed_dictionaries(
        {},
        optional={
            "desk": st.sampled_from(DESKS),
            "price": st.integers(0, 3),
            "owner": st.sampled_from(OWNERS),
        },
    ),
)


class Case(NamedTuple):
    """`roles`: publish and subscribe, by number; `users`: which of them anna and bert have.
    `reads_late`: nobody reads from the durable session before the roles change to `later`."""

    roles: tuple[tuple[str | None, str | None], ...]
    later: tuple[tuple[str | None, str | None], ...]
    users: dict[str, User]
    filter: str
    events: list[Event]
    more: list[Event]
    routing: str
    reads_late: bool

    def entries(self, roles: tuple[tuple[str | None, str | None], ...]) -> list[RoleEntry]:
        return [
            RoleEntry(name=f"r{at}", publish=publish, subscribe=subscribe)
            for at, (publish, subscribe) in enumerate(roles)
        ]

    def grant(
        self, roles: tuple[tuple[str | None, str | None], ...], user: str, *, publish: bool
    ) -> str:
        has = self.users[user]
        texts = [roles[int(name[1:])][0 if publish else 1] for name in has.roles]
        return grant_of(texts, has)


users = st.builds(
    User,
    st.lists(st.sampled_from(["r0", "r1"]), max_size=2, unique=True).map(tuple),
    st.sampled_from([{}, {"desk": "fx"}, {"desk": "o'x"}]),
)
cases = st.builds(
    Case,
    st.tuples(roles, roles),
    st.tuples(roles, roles),
    st.fixed_dictionaries({"anna": users, "bert": users, WHOLE: st.just(User())}),
    filters,
    st.lists(events, min_size=1, max_size=8),
    st.lists(events, min_size=1, max_size=5),
    st.sampled_from(["acyclic", "flooding", "mesh", "tid-s"]),
    st.booleans(),
)


class Run:
    """One case. `judge` has the events that were taken; all are numbered by `n`."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.judge = Judge(COLUMNS)
        self.count = 0

    def expected(self, user: str, filter: str, *, later: bool = False) -> set[int]:
        case = self.case
        grant = case.grant(case.later if later else case.roles, user, publish=False)
        claims = case.users[user].claims
        return self.judge.within(filter, grant, user=user, desk=claims.get("desk"))

    async def publish(
        self, net: Granted, client: Client, events: list[Event], *, retain: bool = False
    ) -> set[int]:
        """Publish events, and return the numbers of those that were not refused; `retain`: each is
        the last value of a key of its own."""
        numbers = {}
        for event in events:
            self.count += 1
            content = {"n": self.count, **event.values}
            self.judge.add(self.count, event.topics, content)
            kept = "n" if retain else False
            id = await client.publish(content, topics=event.topics, retain=kept)
            numbers[id[1]] = self.count
        await asyncio.sleep(SETTLED_S)
        refused = {numbers[seq] for seq in REFUSED[client.id] if seq in numbers}
        return set(numbers.values()) - refused

    def forget(self, refused: set[int]) -> None:
        for number in refused:
            self.judge.database.execute("DELETE FROM event WHERE id = ?", (number,))


REFUSED: dict[str, list[int]] = {}


def refusing(id: str) -> Callable[[Any, str], None]:
    """Note the numbers of a client's publications that are refused."""
    found = REFUSED[id] = []

    def refused(id: Any, reason: str) -> None:
        found.append(id[1])

    return refused


def taken(subscription: Any) -> list[int]:
    """The numbers of the events that have arrived at a subscription."""
    return [event["n"] for event in inbox_of(subscription).pop_all()]


def unique(numbers: list[int]) -> set[int]:
    assert len(numbers) == len(set(numbers)), numbers
    return set(numbers)


async def subscribed(client: Client, filter: str) -> Any:
    """A subscription that has settled; None if it was refused."""
    subscription = client.subscribe(filter)
    try:
        return await subscription
    except RefusedError as error:
        assert "may see nothing" in str(error)
        return None


SETTINGS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


@settings(max_examples=15, **SETTINGS)
@given(cases)
@pytest.mark.filterwarnings("ignore::reefcast.FilterWarning")
def test_nothing_outside_a_grant_is_seen_and_all_inside(case: Case) -> None:
    judge(case)


@pytest.mark.soak
@settings(max_examples=2000, **SETTINGS)
@given(cases)
@pytest.mark.filterwarnings("ignore::reefcast.FilterWarning")
def test_nothing_outside_a_grant_is_seen_whatever_the_roles(case: Case) -> None:
    judge(case)


def judge(case: Case) -> None:
    net = Granted(case.entries(case.roles), case.users, routing=case.routing)
    net.run(lambda net: _seen(net, Run(case)))


async def _seen(net: Granted, run: Run) -> None:
    case = run.case
    await net.storage("b")
    reader = await net.client("anna-reader", "a")
    writer = await net.client("bert-writer", "c", on_refused=refusing("bert-writer"))
    free = await net.client(f"{WHOLE}-writer", "b", on_refused=refusing(f"{WHOLE}-writer"))
    live = await subscribed(reader, case.filter)
    session = None
    with suppress(RefusedError):
        opened = await reader.session("s")
        await opened.subscribe(case.filter)
        session = opened

    # What bert may publish, and only that, is taken.
    accepted = await run.publish(net, writer, case.events)
    claims = case.users["bert"].claims
    grant = case.grant(case.roles, "bert", publish=True)
    publishable = run.judge.publishable(grant, user="bert", desk=claims.get("desk"))
    assert accepted == publishable
    run.forget(set(range(1, run.count + 1)) - accepted)
    retained = await run.publish(net, free, case.events, retain=True)
    assert len(retained) == len(case.events)

    expected = run.expected("anna", case.filter)
    if live is None:
        assert not expected
    else:
        assert unique(taken(live)) == expected
    await _past(run, reader, expected)
    assert await _last_values(run, reader) == expected & retained
    if session is not None:
        looked = [each.event["n"] for each in await session.look()]
        assert unique(looked) == expected
    # An attached consumer, from another broker, gets the same.
    other = await net.client("anna-other", "c")
    waits: set[int] = set()
    if case.reads_late:
        waits = expected if session is not None else set()
    else:
        assert await _consumed(other) == ([] if session is None else sorted(expected))

    # The roles change while all of this runs.
    net.regrant(case.entries(case.later))
    await asyncio.sleep(SETTLED_S)
    before = run.count
    assert await run.publish(net, free, case.more)
    now = {n for n in run.expected("anna", case.filter, later=True) if n > before}
    if live is not None:
        assert unique(taken(live)) == now
    await _past(run, reader, run.expected("anna", case.filter, later=True))
    later = run.expected("anna", case.filter, later=True)
    assert await _last_values(run, reader) == later & retained
    if session is not None:
        visible = waits & run.expected("anna", "TRUE", later=True)
        looked = [each.event["n"] for each in await session.look()]
        assert unique(looked) == now | visible
        assert unique(await _consumed(other)) == now | visible


async def _past(run: Run, reader: Client, expected: set[int]) -> None:
    """History answers what is within the grant."""
    past = f"(topic = 't0' OR topic = 't1') AND ({run.case.filter})"
    try:
        found = [event["n"] async for event in reader.history(past)]
    except Exception as error:
        assert "may see nothing" in str(error)
        assert not expected
        return
    assert unique(found) == expected


async def _last_values(run: Run, reader: Client) -> set[int]:
    """What is retained within the grant."""
    try:
        return unique([event["n"] for event in await reader.retained(run.case.filter)])
    except RefusedError as error:
        assert "may see nothing" in str(error)
        return set()


async def _consumed(client: Client) -> list[int]:
    """What a consumer of anna's session gets, acknowledged."""
    found: list[int] = []
    session = client.session("s")

    async def read() -> None:
        async for event in session:
            found.append(event["n"])
            await event.ack(wait=True)

    reading = asyncio.get_running_loop().create_task(read())
    done, _ = await asyncio.wait((reading,), timeout=SETTLED_S)
    for task in done:
        assert isinstance(task.exception(), RefusedError), task.exception()
    reading.cancel()
    with suppress(asyncio.CancelledError, RefusedError):
        await reading
    with suppress(RefusedError):
        await session.detach()
    return sorted(found)
