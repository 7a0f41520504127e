"""All durable sessions of one broker, which is their *home*.

Rules
-----
- Every call takes `now` (the core's clock) and changes the state at once; what it wants done
  collects until `take`. The driver calls `take(token)` after each input, writes the changes, and
  calls `kept(token)` when they are synced, and `take` again.
- Nothing is handed out before the disk knows it: neither an event that is not synced, nor one of
  which a restart would not know that it may have been handed out (`PutMark`, `PutTries`). If it
  were, and the broker died, the publisher or a neighbour would send it again, and a consumer that
  had acknowledged it would get it a second time as if it were new (P2). This holds for events
  without confirmation, too: neighbours send those again as well (P5).
- What a consumer was told is done (`reply`) is synced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reefcast.model.keeping import Contents, EventNumber, Position, SessionOptions
from reefcast.model.messages import LinkName, Publish
from reefcast.sessions.outcome import ConsumerName, Outcome, Verdict


class SessionStatus(NamedTuple):
    """What `list` and `show` say of a session. Times in seconds UTC, ages in seconds."""

    owner: str
    name: str
    link: LinkName
    options: SessionOptions
    subscriptions: dict[int, str]
    consumers: dict[ConsumerName, int]
    """-> how many events it has not acknowledged."""
    events: int
    bytes: int
    out: int
    dead_letters: int
    waiting: int
    """Publications that are blocked, for the queue is full."""
    dropped: int
    """Since the broker started, by limits and age."""
    oldest_s: float
    created_s: float


class Home:
    """`epoch_s`: what makes seconds UTC of `now`. `contents`: what the store held at the start.
    `dedup_s`: for how long ids are remembered. `memory_bytes`: how much of bodies that wait stays
    in memory."""

    def __init__(
        self,
        contents: Contents | None = None,
        *,
        epoch_s: float = 0.0,
        dedup_s: float = 3600.0,
        memory_bytes: int = 64 << 20,
    ) -> None: ...

    # --- sessions --------------------------------------------------------------------------------

    def create(
        self,
        owner: str,
        name: str,
        link: LinkName,
        options: SessionOptions,
        now: float,
        *,
        reply: object = None,
    ) -> None:
        """Create a session. `link`: the name that its rows have in the core, which no session had
        before. Raises `LocalError` if there is one with this name. `reply` as in `Outcome`."""

    def configure(
        self, owner: str, name: str, options: SessionOptions, now: float, *, reply: object = None
    ) -> None:
        """Give a session other options; what exceeds them goes by its policy when the next event
        comes. Raises `LocalError` if there is no such session (as all calls do)."""

    def subscribe(
        self, owner: str, name: str, filter: str, now: float, *, reply: object = None
    ) -> int:
        """Note a subscription of a session and return its number, which is new for this session."""

    def unsubscribe(
        self, owner: str, name: str, number: int, now: float, *, reply: object = None
    ) -> None:
        """Forget a subscription; what the session owes already for it stays owed."""

    def close(self, owner: str, name: str, now: float, *, reply: object = None) -> LinkName:
        """End a session with all that it owes, and return its link, whose rows are to go."""

    def sessions(self) -> list[SessionStatus]:
        """Return the status of all sessions, by owner and name."""

    def status(self, owner: str, name: str) -> SessionStatus:
        """Return the status of one session."""

    def expired(self) -> list[LinkName]:
        """Return, once, the links of sessions that ended by their `expiry_s`: their rows are to
        go."""

    def drain(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Drop everything that a session owes but for dead letters; return how many events."""

    def move_dead_letters(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Owe a session's dead letters again, in their old places and with tries from 0; return how
        many."""

    def drop_dead_letters(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Forget a session's dead letters; return how many."""

    def read(
        self, owner: str, name: str, after: Position, most: int, question: object, *, dead: bool
    ) -> None:
        """Read `most` events of the queue behind position `after`, or of the dead letters; the
        answer comes as `Read` with the `question`."""

    # --- publications ----------------------------------------------------------------------------

    def owe(self, publish: Publish, to: Mapping[LinkName, Sequence[int]], now: float) -> Verdict:
        """Owe a publication to the sessions with the links in `to` (-> numbers of their matching
        subscriptions, ascending). Sessions that have had it before do not get it again. Links that
        are no session's are left out. `publish.body` is needed."""

    # --- consumers -------------------------------------------------------------------------------

    def attach(
        self,
        owner: str,
        name: str,
        consumer: ConsumerName,
        window: int,
        now: float,
        *,
        filter: str = "",
        reply: object = None,
    ) -> None:
        """Attach a consumer, who may have `window` events that it has not acknowledged. `filter`: a
        further one, which an event must match to go to this consumer. Several consumers share the
        events. Raises `LocalError` for a filter that is none, or a name that is taken."""

    def resize(self, consumer: ConsumerName, window: int, now: float) -> None:
        """Change a consumer's window; 0 pauses it."""

    def detach(self, consumer: ConsumerName, now: float) -> None:
        """Detach a consumer; what it has not acknowledged is owed again at once. Nothing happens if
        it is not attached."""

    def acknowledge(
        self,
        consumer: ConsumerName,
        position: Position,
        now: float,
        *,
        up_to: bool = False,
        reply: object = None,
    ) -> None:
        """Take a consumer's acknowledgement of an event; `up_to`: and of all that were handed to it
        before. One that comes too late (the event is owed again) counts; of one that is owed no
        more nothing is left to do. Raises `LocalError` for a position that was never handed out,
        and for a consumer that is not attached."""

    def reject(
        self,
        consumer: ConsumerName,
        position: Position,
        now: float,
        *,
        delay_s: float = 0.0,
        reply: object = None,
    ) -> None:
        """Owe an event again that this consumer has, not before `delay_s` have passed. Nothing
        happens if it has it no more. Raises as `acknowledge`."""

    # --- the driver's ----------------------------------------------------------------------------

    def take(self, token: int) -> Outcome:
        """Return what is to be done; `token`, greater than all before: what `kept` will say when
        these changes are synced. It counts only if there are changes."""

    def kept(self, token: int, now: float) -> None:
        """Note that all changes up to those of `token` are synced."""

    def fetched(self, bodies: Mapping[EventNumber, bytes], missing: Iterable[EventNumber]) -> None:
        """Take bodies out of the store; those that are `missing` (damaged) are owed no more, which
        is told."""

    def due(self, now: float) -> None:
        """Do what is due by the clock."""
