"""Storages and clients that ask them, simulated: by the state machines that live ones have.

Rules
-----
- A storage is a client. What it is delivered it keeps in memory, also over a crash of its broker.
  When its subscription has settled it asks the others for what it lacks, and then says what it
  stores: again after each reconnect.
- The way between a client and its broker takes no time, nor does looking up what was stored.
- When a client's broker crashes all that is asked of it is void, and what it asks it asks again.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from reefcast.errors import RefusedError
from reefcast.history.asking import Asking, Numbers, Question, position_of, question_about
from reefcast.history.messages import (
    Cancel,
    End,
    Items,
    More,
    Position,
    Request,
    RequestId,
    Stores,
)
from reefcast.history.replying import Reply
from reefcast.history.rows import topics_of
from reefcast.model.filters import Filter
from reefcast.model.messages import ServiceMessage
from reefcast.model.patterns import is_topic_match
from reefcast.model.publication import Publication, PublicationId
from reefcast.model.topics import topic_filter
from reefcast.model.wire import decode_publication, encode_publication

PATIENCE_S = 10.0
"""Without a word from a storage, after which a question is asked again."""

Messages = list[ServiceMessage]
Later = Callable[[float], int]
"""Has the client woken at that time; returns by which number."""
Row = tuple[Position, Publication, bytes]


@dataclass(slots=True)
class Asked:
    """A question and what became of it; times in seconds, inf for never. `handle`: the scenario's
    number for it; `found`: the publications, in the order in which they were given; `hops`: links
    between brokers to each storage that answered, by its name; `error`: why it failed."""

    handle: int
    client: str
    broker: str
    question: Question
    asked_s: float
    ended_s: float = math.inf
    error: str = ""
    found: list[PublicationId] = field(default_factory=list)
    hops: dict[str, int] = field(default_factory=dict)


class Memory:
    """What a storage keeps, by topic, in the order of positions."""

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self._topics: dict[str, list[Row]] = {}

    def add(self, publication: Publication, body: bytes) -> None:
        row = (position_of(publication), publication, body)
        for topic in topics_of(publication):
            rows = self._topics.setdefault(topic, [])
            if not rows or row[0] > rows[-1][0]:
                rows.append(row)
            elif row[0] != rows[bisect_left(rows, row[0], key=_position)][0]:
                insort(rows, row, key=_position)

    def __iter__(self) -> Iterator[PublicationId]:
        """Those with several topics several times; also what is too old by now."""
        return (row[1].id for rows in self._topics.values() for row in rows)

    def read(self, request: Request, filter: Filter, now_s: float) -> list[bytes]:
        """All that the request wants, in order."""
        since_us = (now_s - self.lifetime_s) * 1e6
        if request.since_us is not None:
            since_us = max(since_us, request.since_us)
        found = {
            row[0]: row
            for topic, rows in self._topics.items()
            if any(is_topic_match(topic, asked) for asked in request.topics)
            for row in rows[bisect_left(rows, since_us, key=_time_us) :]
        }
        chosen = (
            found[position][2]
            for position in sorted(found)
            if (request.until_us is None or position[0] < request.until_us)
            and (request.after is None or position > request.after)
            and filter.matches(found[position][1])
        )
        return list(chosen)[: request.limit or None]


def _position(row: Row) -> Position:
    return row[0]


def _time_us(row: Row) -> int:
    return row[0][0]


class Inquiry:
    """A question under way. `take` is given the events that come; `end`, told why nothing more does
    (None: that was all), says what is to be said then. `path`: told of what answers."""

    def __init__(
        self,
        asking: Asking[Publication],
        patience_s: float,
        take: Callable[[list[Publication]], None],
        end: Callable[[Exception | None, float], Messages],
        path: Callable[[tuple[str, ...]], None] = lambda path: None,
    ) -> None:
        self.asking = asking
        self.patience_s = patience_s + asking.question.handover_s
        self.take, self.end, self.path = take, end, path


class PastClient:
    """The part of one client that is about history. Methods return what it says to its broker."""

    def __init__(self, client: str, broker: str, later: Later) -> None:
        self.client, self.broker = client, broker
        self.asked: list[Asked] = []
        self.storage: SimStorage | None = None
        self._later = later
        self._online = False
        self._numbers = Numbers(client)
        self._planned: dict[int, tuple[Question, float]] = {}
        self._open: list[Inquiry] = []
        self._wakes: dict[int, Callable[[float], Messages]] = {}

    def plan(self, handle: int, question: Question, patience_s: float) -> None:
        """What the script `handle` will ask."""
        self._planned[handle] = (question, patience_s)

    def become_storage(self, handle: int, topics: Sequence[str], lifetime_s: float) -> SimStorage:
        """By the subscription with this handle."""
        self.storage = SimStorage(self, handle, topics, lifetime_s)
        return self.storage

    # --- connections and scripts ------------------------------------------------------------------

    def connected(self, now: float) -> Messages:
        self._online = True
        return [message for inquiry in self._open for message in self._start(inquiry, now)]

    def disconnected(self) -> None:
        self._online = False
        self._wakes.clear()
        if self.storage is not None:
            self.storage.disconnected()

    def act(self, handle: int, now: float) -> Messages:
        """A script's time has come."""
        if handle not in self._planned:
            wake = self._wakes.pop(handle, None)
            return [] if wake is None else wake(now)
        question, patience_s = self._planned.pop(handle)
        asked = Asked(handle, self.client, self.broker, question, now)
        self.asked.append(asked)
        return self.ask(
            Inquiry(
                self._asking(question),
                patience_s,
                lambda events: asked.found.extend(event.id for event in events),
                partial(_ended, asked),
                lambda path: asked.hops.update({path[-1]: len(path) - 3}),
            ),
            now,
        )

    def settled(self, handle: int, now: float) -> Messages:
        storage = self.storage
        return storage.settled(now) if storage is not None and storage.handle == handle else []

    def withdrawn(self, handle: int) -> Messages:
        storage = self.storage
        return storage.withdrawn() if storage is not None and storage.handle == handle else []

    def wake_at(self, at_s: float, action: Callable[[float], Messages]) -> None:
        """Unless the connection is lost before."""
        self._wakes[self._later(at_s)] = action

    # --- asking -----------------------------------------------------------------------------------

    def _asking(self, question: Question) -> Asking[Publication]:
        return Asking(question, self._numbers, decode_publication)

    def question(self, topic: str) -> Asking[Publication]:
        """About all that is stored of a topic."""
        return self._asking(question_about(topic_filter([topic]), for_storage=True))

    def ask(self, inquiry: Inquiry, now: float) -> Messages:
        self._open.append(inquiry)
        return self._start(inquiry, now) if self._online else []

    def drop(self, inquiry: Inquiry) -> None:
        self._open.remove(inquiry)

    def _start(self, inquiry: Inquiry, now: float) -> Messages:
        self._watch(inquiry, now)
        return inquiry.asking.start()

    def hear(self, message: ServiceMessage, now: float) -> Messages:
        """From the broker."""
        if isinstance(message, Request | More | Cancel):
            return [] if self.storage is None else self.storage.hear(message, now)
        said: Messages = []
        for inquiry in list(self._open):
            heard = inquiry.asking.heard
            said += inquiry.asking.hear(message)
            if inquiry.asking.heard != heard:
                if isinstance(message, Items) or (isinstance(message, End) and not message.reason):
                    inquiry.path(message.path)
                said += self._go_on(inquiry, now)
        return said

    def _go_on(self, inquiry: Inquiry, now: float) -> Messages:
        """It was answered, or not in time."""
        asking = inquiry.asking
        events, said = asking.take()
        inquiry.take(events)
        if asking.over or asking.error is not None:
            self._open.remove(inquiry)
            return said + asking.cancel() + inquiry.end(asking.error, now)
        return said

    def _watch(self, inquiry: Inquiry, now: float) -> None:
        heard = inquiry.asking.heard
        self.wake_at(now + inquiry.patience_s, lambda at: self._look(inquiry, heard, at))

    def _look(self, inquiry: Inquiry, heard: int, now: float) -> Messages:
        """Asks again if nothing came in the meantime."""
        if inquiry not in self._open:
            return []
        said = inquiry.asking.hangs() if inquiry.asking.heard == heard else []
        self._watch(inquiry, now)
        return said + self._go_on(inquiry, now)


def _ended(asked: Asked, error: Exception | None, now: float) -> Messages:
    asked.ended_s = now
    asked.error = "" if error is None else str(error)
    return []


class SimStorage:
    """A storage: see the module's docstring. `handle`: of its subscription; `failed`: why it could
    not get what it lacks from the others, so that it does not answer."""

    def __init__(
        self, client: PastClient, handle: int, topics: Sequence[str], lifetime_s: float
    ) -> None:
        self.handle = handle
        self.topics = tuple(topics)
        self.memory = Memory(lifetime_s)
        self.failed = ""
        self._client = client
        self._replies: dict[RequestId, Reply] = {}
        self._catching_up: Inquiry | None = None

    # --- keeping ----------------------------------------------------------------------------------

    def keep(self, publication: Publication) -> Messages:
        """It was delivered."""
        body = encode_publication(publication)
        self.memory.add(publication, body)
        said = [m for reply in self._replies.values() for m in reply.came(publication, body)]
        self._forget_over()
        return said

    def settled(self, now: float) -> Messages:
        """The subscription stands: what it lacks of each topic comes first."""
        return self._catch_up(list(self.topics), now)

    def _catch_up(self, topics: list[str], now: float) -> Messages:
        if not topics:
            return [Stores(topics=self.topics)]
        asking = self._client.question(topics[0])
        end = partial(self._caught_up, topics[1:])
        self._catching_up = Inquiry(asking, PATIENCE_S, self._take, end)
        return self._client.ask(self._catching_up, now)

    def _take(self, events: Iterable[Publication]) -> None:
        for event in events:
            self.memory.add(event, encode_publication(event))

    def _caught_up(self, left: list[str], error: Exception | None, now: float) -> Messages:
        """A `RefusedError` says that nobody else stores the topic."""
        self._catching_up = None
        if error is not None and not isinstance(error, RefusedError):
            self.failed = str(error)
            return []
        return self._catch_up(left, now)

    def withdrawn(self) -> Messages:
        """It stores nothing more; who has asked gets the rest."""
        self._give_up_catching_up()
        return [Stores(topics=())]

    def disconnected(self) -> None:
        self._replies.clear()
        self._give_up_catching_up()

    def _give_up_catching_up(self) -> None:
        if self._catching_up is not None:
            self._client.drop(self._catching_up)
            self._catching_up = None

    # --- answering --------------------------------------------------------------------------------

    def hear(self, message: Request | More | Cancel, now: float) -> Messages:
        if isinstance(message, Request):
            return self._begin(message, now)
        reply = self._replies.get(message.id)
        if reply is None:
            return []
        if isinstance(message, Cancel):
            del self._replies[message.id]
            return []
        said = reply.grant(message.count)
        self._forget_over()
        return said

    def _begin(self, request: Request, now: float) -> Messages:
        reply = self._replies[request.id] = Reply(request, self._client.client)
        said = reply.found(self.memory.read(request, reply.filter, now)) + reply.all_found()
        if request.handover_s:
            self._client.wake_at(now + request.handover_s, lambda _: self._close(reply))
        self._forget_over()
        return said

    def _close(self, reply: Reply) -> Messages:
        said = reply.close() if self._replies.get(reply.request.id) is reply else []
        self._forget_over()
        return said

    def _forget_over(self) -> None:
        self._replies = {id: reply for id, reply in self._replies.items() if not reply.over}
