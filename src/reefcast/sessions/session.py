"""One durable session: its queue, its consumers, and what has been handed out.

An entry of the queue goes these ways:

    owed --synced--> READY --window has room--> OUT --acknowledged--> gone
                       ^                         |
                       +--rejected, not in time,-+--too often--> DEAD
                       |  consumer detached      |
                       +------ DELAYED <---------+

Before an entry goes out, the disk knows that it may have: for the first time by the session's
*mark*, which runs ahead by what fits into the windows; later by `PutTries`, written when the entry
comes back. So a restart never takes what a consumer may have had for new.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from reefcast.errors import LocalError
from reefcast.model.filters import Filter
from reefcast.model.keeping import (
    Position,
    PutMark,
    PutNotes,
    PutSession,
    SessionNumber,
    SessionOptions,
    SessionRecord,
    StoredSession,
)
from reefcast.model.publication import PublicationId
from reefcast.model.subjects import Subject
from reefcast.sessions.collecting import Collected
from reefcast.sessions.consumers import Consumer, Consumers, Lane
from reefcast.sessions.events import Entry, Events, State
from reefcast.sessions.lines import NONE, Heap, is_not_delayed
from reefcast.sessions.notes import Notebook
from reefcast.sessions.outcome import ConsumerName, Delivery, Told
from reefcast.sessions.queue import FOREVER_S, Queue
from reefcast.sessions.seen import Seen
from reefcast.sessions.waiting import Waiting

READ_AHEAD = 64
"""Bodies that are read at once at least, where there are so many."""
TOO_OFTEN = "it was handed out {tries} times, and never acknowledged"


class Session:
    """See the module's docstring; `utc_s` is seconds UTC. `waiting`: publications for which the
    queue has no room, by id. `full`: that it is full has been told. `lacks_bodies`: what comes next
    is being read from the disk."""

    __slots__ = (
        "_again",
        "_asked",
        "_collected",
        "_delayed",
        "_events",
        "_mark",
        "_marks",
        "_sent",
        "alone_since_s",
        "consumers",
        "full",
        "lacks_bodies",
        "notes",
        "number",
        "queue",
        "record",
        "seen",
        "waiting",
    )

    def __init__(
        self,
        number: SessionNumber,
        stored: StoredSession,
        collected: Collected,
        events: Events,
        dedup_s: float,
        utc_s: float,
    ) -> None:
        self.number = number
        self.record = stored.record
        self.waiting: OrderedDict[PublicationId, Waiting] = OrderedDict()
        self.seen = Seen(number, dedup_s, stored.seen)
        self.queue = Queue(
            number, stored.record.options, collected, events, stored.owed, stored.mark
        )
        self.consumers = Consumers()
        self.notes = Notebook(stored.notes)
        self.alone_since_s = utc_s
        self.full = False
        self.lacks_bodies = False
        self._collected = collected
        self._events = events
        self._mark = self._asked = stored.mark
        self._marks: list[tuple[int, Position]] = []
        self._delayed = Heap(is_not_delayed)
        self._sent: deque[tuple[float, Entry, int]] = NONE
        self._again = [each for each in self.queue.entries.values() if each.tries]

    def advise(
        self,
        kind: Told,
        id: PublicationId | None = None,
        *,
        by: PublicationId | None = None,
        consumer: ConsumerName = "",
        reason: str = "",
        count: int = 1,
    ) -> None:
        """Tell what happened to this session."""
        owner, name = self.record.owner, self.record.name
        self._collected.advise(
            kind, owner, name, consumer=consumer, reason=reason, id=id, by=by, count=count
        )

    # --- what it is ------------------------------------------------------------------------------

    def configure(self, options: SessionOptions) -> None:
        """Take other options. The same ones are not written again: who comes back opens its
        session each time."""
        if options != self.record.options:
            self.queue.options = options
            self._change(msgspec.structs.replace(self.record, options=options))

    def subscribe(self, filter: str) -> int:
        """Note a subscription, and return its number."""
        number = self.record.last_subscription + 1
        subscriptions = self.record.subscriptions | {number: filter}
        self._change(
            msgspec.structs.replace(
                self.record, subscriptions=subscriptions, last_subscription=number
            )
        )
        return number

    def unsubscribe(self, number: int) -> None:
        """Forget a subscription."""
        kept = {other: text for other, text in self.record.subscriptions.items() if other != number}
        self._change(msgspec.structs.replace(self.record, subscriptions=kept))

    def note(self, notes: dict[str, str | None]) -> None:
        """Keep notes. Raises `LimitError`."""
        self.notes.put(notes)
        if notes:
            self._collected.put(PutNotes(self.number, notes))

    def belongs_to(self, subject: Subject | None) -> None:
        """Note who its owner is from now on."""
        if subject != self.record.subject:
            self._change(msgspec.structs.replace(self.record, subject=subject))

    def _change(self, record: SessionRecord) -> None:
        self.record = record
        self._collected.put(PutSession(self.number, record))

    # --- handing out -----------------------------------------------------------------------------

    def added(self, entry: Entry) -> None:
        """Let consumers know a new entry, and the disk that it may soon be handed out."""
        self.consumers.append(entry)
        if self.consumers.window:
            self._mark_ahead(entry.position)

    def hand_out(self, utc_s: float) -> None:
        """Hand out what may be, as far as windows have room."""
        while self._marks and self._marks[0][0] <= self._collected.synced:
            self._mark = self._marks.pop(0)[1]
        self.lacks_bodies = False
        lanes = list(self.consumers.lanes)
        alone = len(self.consumers.by_name) == 1
        while (consumer := self.consumers.freest(lanes)) is not None:
            if not self._hand_out_to(consumer, consumer.room if alone else 1, utc_s):
                lanes.remove(consumer.lane)

    def _hand_out_to(self, consumer: Consumer, count: int, utc_s: float) -> bool:
        """Hand the next `count` entries to a consumer, as its window allows; return whether there
        were so many. What goes out leaves the lanes by itself."""
        for _ in range(count):
            entry = self._next(consumer.lane, consumer.room)
            if entry is None:
                return False
            self._hand_out(entry, consumer, utc_s)
        return True

    def _next(self, lane: Lane, room: int) -> Entry | None:
        """Return what the lane's consumers get next; None if there is nothing yet. What follows in
        the queue waits: it is to come behind."""
        while (entry := lane.first()) is not None and self._may_leave(entry):
            if entry.event.body is None:
                ahead = max(READ_AHEAD, room)
                self._events.want(each.event for each in lane.next(ahead))
                self._events.want((entry.event,))
                self.lacks_bodies = True
                return None
            if lane.wants(entry):
                return entry
            lane.pop(entry)
        return None

    def _may_leave(self, entry: Entry) -> bool:
        """Return whether the entry may be handed out: whether the disk has it, and knows that it
        may have been handed out. If it does not know that, have it written."""
        if entry.batch > self._collected.synced:
            return False
        if not entry.tries:
            self._mark_ahead(entry.position)
            return entry.position <= self._mark
        if entry.known <= entry.tries:
            for each in self._again:
                if each.state is State.READY and each.known <= each.tries:
                    self.queue.count_try(each)
            self._again.clear()
            return False
        return True

    def _mark_ahead(self, position: Position) -> None:
        """Move the mark before it is reached, so that nothing waits for it."""
        window = self.consumers.window
        if position > self._asked - window // 2:
            self._asked = max(position, self._asked) + window
            self._marks.append((self._collected.batch, self._asked))
            self._collected.put(PutMark(self.number, self._asked))

    def _hand_out(self, entry: Entry, consumer: Consumer, utc_s: float) -> None:
        entry.state = State.OUT
        entry.tries += 1
        self.consumers.hand_over(entry, consumer)
        self._sent.append((utc_s, entry, entry.tries))
        event = entry.event
        assert event.body is not None
        self._collected.deliveries.append(
            Delivery(
                consumer.name,
                self.record.owner,
                self.record.name,
                entry.position,
                event.id,
                event.body,
                entry.subscriptions,
                entry.tries,
                entry.late,
            )
        )
        self._events.unload_if_much(event)

    # --- what comes back -------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, position: Position, *, up_to: bool) -> None:
        """Take an acknowledgement. Raises `LocalError` for what was never handed out."""
        entry = self.find(position)
        if entry is not None:
            self.remove(entry)
        if up_to:
            for each in [each for each in consumer.out.values() if each.position <= position]:
                del consumer.out[each.position]
                self.queue.remove(each)

    def find(self, position: Position) -> Entry | None:
        """Return the entry that a consumer names; None: it is no longer owed. Raises `LocalError`
        for one that no consumer can have."""
        if not 0 < position <= self._mark:
            raise LocalError(
                f"session {self.record.name!r} has handed out no event {position}; acknowledge or "
                "reject events by the numbers that came with them"
            )
        entry = self.queue.entries.get(position)
        if entry is not None and not entry.tries:
            raise LocalError(
                f"session {self.record.name!r} has not handed out event {position} yet"
            )
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove an entry, wherever it is."""
        if entry.state is State.OUT and (holder := self.consumers.holder(entry)) is not None:
            del holder.out[entry.position]
        self.queue.remove(entry)

    def give_back(self, entry: Entry, ready_s: float = 0.0) -> None:
        """Owe an entry again that a consumer had, but not before `ready_s`; or not at all, if it
        was handed out often enough."""
        if (holder := self.consumers.holder(entry)) is not None:
            del holder.out[entry.position]
        most = self.queue.options.max_deliveries
        if most and entry.tries >= most:
            self._bury(entry)
            return
        self.queue.count_try(entry)
        if ready_s:
            entry.state = State.DELAYED
            self._delayed.push(ready_s, entry)
        else:
            entry.state = State.READY
            self.consumers.give_back(entry)

    def _bury(self, entry: Entry) -> None:
        reason = TOO_OFTEN.format(tries=entry.tries)
        self.advise(Told.DEAD_LETTER, entry.event.id, reason=reason)
        for each in self.queue.bury(entry, reason):
            self.advise(
                Told.DROPPED, each.event.id, by=entry.event.id, reason="too many dead letters"
            )
            self.queue.remove(each)
            self.queue.dropped += 1

    def bury_returned(self) -> None:
        """Make dead letters of what may have been handed out often enough before a restart."""
        most = self.queue.options.max_deliveries
        for entry in self._again if most else ():
            if entry.state is State.READY and entry.tries >= most:
                self._bury(entry)

    # --- consumers -------------------------------------------------------------------------------

    def attach(self, name: ConsumerName, window: int, filter: Filter | None) -> None:
        """Attach a consumer."""
        if self._sent is NONE:
            self._sent = deque()
        ready = (each for each in self.queue.entries.values() if each.state is State.READY)
        self.consumers.add(name, window, filter, ready)
        self.advise(Told.ATTACHED, consumer=name)

    def detach(self, name: ConsumerName, utc_s: float) -> None:
        """Detach a consumer; what it has is owed again."""
        consumer = self.consumers.remove(name)
        for entry in sorted(consumer.out.values(), key=lambda each: each.position):
            self.give_back(entry)
        if not self.consumers.by_name:
            self.alone_since_s = utc_s
        self.advise(Told.DETACHED, consumer=name)

    # --- time ------------------------------------------------------------------------------------

    def due(self, utc_s: float) -> None:
        """Do what is due: delays end, acknowledgements are missing, events and ids are too old."""
        while (first := self._delayed.first()) is not None and first[0] <= utc_s:
            self._delayed.pop()
            first[1].state = State.READY
            self.consumers.give_back(first[1])
        while self._late_s <= utc_s:
            self.give_back(self._sent.popleft()[1])
        self.expire(self.queue.too_old(utc_s))
        self.seen.forget(utc_s, self._collected)

    def expire(self, entries: Iterable[Entry]) -> None:
        """Drop entries that are worth nothing any more."""
        for entry in entries:
            self.advise(Told.EXPIRED, entry.event.id)
            self.queue.dropped += 1
            self.remove(entry)

    @property
    def _late_s(self) -> float:
        """When the next acknowledgement is overdue."""
        while self._sent:
            sent_s, entry, tries = self._sent[0]
            if entry.state is State.OUT and entry.tries == tries:
                return sent_s + self.queue.options.ack_wait_s
            self._sent.popleft()
        return FOREVER_S

    @property
    def ends_s(self) -> float:
        """When the session ends for want of consumers; inf: never."""
        if self.consumers.by_name or not self.record.options.expiry_s:
            return FOREVER_S
        return self.alone_since_s + self.record.options.expiry_s

    @property
    def due_s(self) -> float:
        """When something is to be done next, in seconds UTC; inf: never."""
        delayed = self._delayed.first()
        ready_s = FOREVER_S if delayed is None else delayed[0]
        return min(self.ends_s, self._late_s, self.queue.due_s, self.seen.due_s, ready_s)
