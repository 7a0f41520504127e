"""A question about the past as a state machine: messages in, messages out.

Rules
-----
- The broker says which storages answer for the topics of the filter (`Find`, `Found`); each gets a
  request. All answer in the order of `Position`; the answers are merged, so that events come in
  that order, each once, also those that several storages have.
- With a handover an answer stays open for new events. These come in any order, and maybe twice;
  their ids tell.
- A storage may send `window` events more than were read here: reading grants credit.
- An answer that ends early, has a gap, or hangs is requested again, from behind the last event that
  came: maybe from another storage. With a handover, from `SLACK_S` before the question at the
  latest: what a storage stored late may lie before what it had sent. After `ATTEMPTS` without an
  event in between the question fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from reefcast.errors import ConfigurationError, ConnectionLostError, ReefcastError, RefusedError
from reefcast.history.messages import (
    Cancel,
    End,
    Find,
    Found,
    Items,
    More,
    OnPath,
    Position,
    Request,
)
from reefcast.model.filters import parse_filter
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import PublicationId
from reefcast.model.topics import topic_patterns_of
from reefcast.routing.recent import RecentIds

SLACK_S = 60.0
"""How long an event may be on its way, and how much publishers' clocks may differ."""
WINDOW = 4096
ATTEMPTS = 5
LOST = "a broker on the way lost a part of it"


class Past(Protocol):
    """A stored publication, as the asking client sees it; made from its encoded form."""

    @property
    def publisher(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def time_us(self) -> int: ...
    @property
    def id(self) -> PublicationId: ...


E = TypeVar("E", bound=Past)


class Question(NamedTuple):
    """A question about the past; see `Request`. `topics`: names and patterns. `attributes`,
    `payload`: what is wanted of each event. `stretches`: how many, if not events are asked for but
    where they lie; 0 for events."""

    filter: str
    topics: tuple[str, ...]
    since_us: int | None = None
    until_us: int | None = None
    limit: int = 0
    handover_s: float = 0.0
    for_storage: bool = False
    attributes: tuple[str, ...] | None = None
    payload: bool = True
    stretches: int = 0


def question_about(
    filter: str,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    limit: int = 0,
    handover_s: float = 0.0,
    for_storage: bool = False,
    attributes: Iterable[str] | None = None,
    payload: bool = True,
) -> Question:
    """Return the question for a filter and a span of time. Raises `FilterSyntaxError`, and
    `ConfigurationError` for a question that no storage can answer."""
    topics = topic_patterns_of(parse_filter(filter))
    if topics is None:
        raise ConfigurationError(
            f"history of {filter!r}: storages keep topics, so say which: topic = '...' or topic "
            "MATCHES '...', AND what else the events must satisfy"
        )
    if limit < 0:
        raise ConfigurationError(f"limit {limit} is less than 0, which is for all events")
    if since_us is not None and until_us is not None and since_us > until_us:
        raise ConfigurationError("since is later than until")
    names = None if attributes is None else tuple(attributes)
    return Question(
        filter, topics, since_us, until_us, limit, handover_s, for_storage, names, payload
    )


class Numbers:
    """Numbers the requests of one client."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


def position_of(event: Past) -> Position:
    return (event.time_us, event.publisher, event.seq)


class Answer(Generic[E]):
    """The answer of one storage. `after`: the position of the last event that came in order;
    `path`: empty until the first event has come; `late`: events behind the others, in any order,
    once `is_late`."""

    def __init__(self, number: int, topics: tuple[str, ...], after: Position | None) -> None:
        self.number = number
        self.topics = topics
        self.after = after
        self.path: tuple[str, ...] = ()
        self.events: deque[E] = deque()
        self.late: deque[E] = deque()
        self.is_late = False
        self.over = False
        self.taken = 0
        self.came = 0

    @property
    def waits(self) -> bool:
        """Whether the next event must come before anything can be delivered."""
        return not self.over and not self.is_late and not self.events

    def put(self, items: Items, events: Sequence[E]) -> None:
        self.path = items.path
        self.came += len(items.bodies)
        if items.late:
            self.is_late = True
            self.late.extend(events)
            return
        if events:
            self.after = position_of(events[-1])
        self.events.extend(events)

    def credit(self) -> int:
        """Return how many more events may come now, in large steps, and count them as granted."""
        if self.taken < WINDOW // 2:
            return 0
        taken, self.taken = self.taken, 0
        return taken


class Asking(Generic[E]):
    """Follow one question. `handle` and the others return messages for the broker; `error`: why it
    failed; `heard`: counts events, to show progress; `answered`: the path to each storage that sent
    something, or the end, by its id. `made`: makes an event of an encoded publication. `asked_us`:
    when the question is asked; it matters where there is a handover."""

    def __init__(
        self,
        question: Question,
        numbers: Numbers,
        made: Callable[[bytes], E],
        asked_us: int = 0,
    ) -> None:
        self.question = question
        self._recent: Position = (asked_us - round(SLACK_S * 1e6), "", 0)
        self._made = made
        self.error: ReefcastError | None = None
        self.heard = 0
        self.given = 0
        self.answered: dict[str, tuple[str, ...]] = {}
        self._numbers = numbers
        self._finding: dict[int, Position | None] = {}
        self._answers: dict[int, Answer[E]] = {}
        self._failures = 0
        self._started = False
        self._last: Position | None = None
        self._given: RecentIds[PublicationId] = RecentIds()

    # --- what is said -----------------------------------------------------------------------------

    def start(self) -> list[ServiceMessage]:
        """Return the messages that ask first; also after a reconnect, when all paths are void."""
        self._started = True
        self._finding.clear()
        self._answers.clear()
        return self._find(self.question.topics, self._last)

    def _find(self, topics: Sequence[str], after: Position | None) -> list[ServiceMessage]:
        number = self._numbers.next()
        if after is not None and self.question.handover_s:
            after = min(after, self._recent)
        self._finding[number] = after
        return [Find(number=number, topics=tuple(topics), every=self.question.for_storage)]

    def _ask(self, storage: str, topics: tuple[str, ...], after: Position | None) -> Request:
        number = self._numbers.next()
        self._answers[number] = Answer(number, topics, after)
        question = self.question
        return Request(
            id=(self._numbers.client_id, number),
            storage=storage,
            topics=topics,
            filter=question.filter,
            since_us=question.since_us,
            until_us=question.until_us,
            after=after,
            limit=question.limit,
            window=WINDOW,
            handover_s=question.handover_s,
            for_storage=question.for_storage,
            attributes=question.attributes,
            payload=question.payload,
            stretches=question.stretches,
        )

    def cancel(self) -> list[ServiceMessage]:
        """Return the messages that cancel everything that is open."""
        messages = self._cancelled(self._answers.values())
        self._answers.clear()
        self._finding.clear()
        return messages

    def _cancelled(self, answers: Iterable[Answer[E]]) -> list[ServiceMessage]:
        """Return the messages that tell storages to stop, where the path to them is known."""
        client = self._numbers.client_id
        return [
            Cancel(id=(client, answer.number), path=answer.path, at=1)
            for answer in answers
            if answer.path and not answer.over
        ]

    # --- what is heard ----------------------------------------------------------------------------

    def handle(self, message: ServiceMessage) -> list[ServiceMessage]:
        """Handle a message from the network and return the answers to it; messages for another
        question, or too late, are ignored."""
        if isinstance(message, Found):
            return self._found(message)
        if isinstance(message, OnPath):
            answer = self._answers.get(message.id[1])
            if answer is None or answer.over:
                return []
            self.heard += 1
            if isinstance(message, Items):
                return self._came(answer, message)
            if isinstance(message, End):
                if message.before != answer.came and not message.reason:
                    return self._lost(answer)
                return self._told_all(answer, message)
        return []

    def _came(self, answer: Answer[E], items: Items) -> list[ServiceMessage]:
        if items.before != answer.came:
            return self._lost(answer)
        self._failures = 0
        self.answered[items.path[-1]] = items.path
        answer.put(items, [self._made(body) for body in items.bodies])
        return []

    def _told_all(self, answer: Answer[E], end: End) -> list[ServiceMessage]:
        if not end.reason:
            self.answered[end.path[-1]] = end.path
        if end.refused:
            answer.over = True
            refused = RefusedError(f"the question about the past was refused: {end.reason}")
            return self._failed(answer.topics, answer.after, refused, final=True)
        return self._ended(answer, end.reason)

    def _found(self, found: Found) -> list[ServiceMessage]:
        if found.number not in self._finding:
            return []
        after = self._finding.pop(found.number)
        self.heard += 1
        if found.missing:
            nobody = ", ".join(map(repr, found.missing))
            return self._failed(
                found.missing,
                after,
                RefusedError(
                    f"nobody stores {nobody}: start a storage for it (a [[storage]] of the network "
                    "file), or ask for other topics"
                ),
                final=self._last is None and not self._answers,
            )
        return [self._ask(part.storage, part.topics, after) for part in found.parts]

    def _lost(self, answer: Answer[E]) -> list[ServiceMessage]:
        return self._cancelled([answer]) + self._ended(answer, LOST)

    def _ended(self, answer: Answer[E], reason: str) -> list[ServiceMessage]:
        answer.over = True
        if not reason:
            return []
        error = ConnectionLostError(f"an answer about the past broke off: {reason}")
        return self._failed(answer.topics, answer.after, error)

    def _failed(
        self,
        topics: Sequence[str],
        after: Position | None,
        error: ReefcastError,
        *,
        final: bool = False,
    ) -> list[ServiceMessage]:
        """Ask again for what is missing, unless that has been tried often enough."""
        self._failures += 1
        if final or self._failures > ATTEMPTS:
            self.error = error
            return []
        return self._find(topics, after)

    def hangs(self) -> list[ServiceMessage]:
        """Return the messages that ask again for everything open: something should have come, and
        nothing has for too long."""
        self._finding.clear()
        silent = [a for a in self._answers.values() if not (a.over or a.events or a.late)]
        error = ConnectionLostError("no storage answered in time")
        if not silent:
            return self._failed(self.question.topics, self._last, error)
        messages = self._cancelled(silent)
        for answer in silent:
            answer.over = True
            messages += self._failed(answer.topics, answer.after, error)
        return messages

    # --- events -----------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        limit = self.question.limit
        if limit and self.given >= limit:
            return True
        answers = self._answers.values()
        told = all(a.over and not a.events and not a.late for a in answers)
        return self._started and not self._finding and told

    @property
    def hands_over(self) -> bool:
        """Whether only new events may still come."""
        answers = self._answers.values()
        told = all((a.is_late or a.over) and not a.events for a in answers)
        return self._started and not self._finding and told

    def drain(self) -> tuple[list[E], list[ServiceMessage]]:
        """Return the events that can be delivered now, in order, and the messages that follow from
        that."""
        found: list[E] = []
        while not self._finding and not self.over:
            answers = list(self._answers.values())
            if any(answer.waits for answer in answers):
                break
            event = self._next_in_order(answers)
            if event is None:  # not `or`: an event without attributes is false
                event = self._next_late(answers)
            if event is None:
                break
            if self._is_new(event):
                self.given += 1
                found.append(event)
        return found, self._credits()

    def _next_in_order(self, answers: list[Answer[E]]) -> E | None:
        some = [answer for answer in answers if answer.events]
        if not some:
            return None
        first = min(some, key=lambda answer: position_of(answer.events[0]))
        first.taken += 1
        return first.events.popleft()

    @staticmethod
    def _next_late(answers: list[Answer[E]]) -> E | None:
        for answer in answers:
            if answer.late:
                answer.taken += 1
                return answer.late.popleft()
        return None

    def _is_new(self, event: E) -> bool:
        position = position_of(event)
        if self._last is None or position > self._last:
            self._last = position
        elif not self.question.handover_s:
            return False
        return not self.question.handover_s or self._given.is_new(event.id)

    def _credits(self) -> list[ServiceMessage]:
        client = self._numbers.client_id
        return [
            More(id=(client, answer.number), path=answer.path, at=1, count=count)
            for answer in self._answers.values()
            if not answer.over and answer.path and (count := answer.credit())
        ]
