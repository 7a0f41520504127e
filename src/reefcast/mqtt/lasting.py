"""The durable session behind an MQTT session that outlives its connections, as a client of the
broker sees it: `sessions.messages` in the words of MQTT.

What MQTT must remember beyond the events and the filters is in the session's notes, at its home:

- `s/TOPIC FILTER`: the options of a subscription (`subscriptions.Kept`);
- `i/PACKET ID`: the number of a QoS 2 publication of the client that it has not released, and
  `TOLD` behind it when that was answered by PUBREC;
- `d/PACKET ID`: a delivery that no session owes and the client has not acknowledged, as
  `delivering.delivery_note` makes it: a retained value in answer to a SUBSCRIBE, or an event of a
  shared subscription;
- `b/POSITION`, `e/NUMBER`: what `begun` says of deliveries that outlast their subscriptions;
- `o/PACKET ID`: the position of a QoS 2 delivery that the client has received and not completed, 0
  if the client's own session does not owe it.

So the client finds its session as it left it at any broker, whoever died meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from reefcast.errors import RefusedError
from reefcast.model.keeping import Expires
from reefcast.mqtt.asking import Asking, Make
from reefcast.sessions.messages import (
    MOST_DELAY_S,
    MOST_NAME_CHARS,
    Acknowledge,
    AddFilter,
    Attach,
    CloseSession,
    Detach,
    Done,
    Failed,
    ListSessions,
    Note,
    Notes,
    OpenSession,
    ReadNotes,
    RemoveFilter,
    SessionRow,
    Sessions,
)

NEVER = 0xFFFF_FFFF
"""The Session Expiry Interval of a session that does not expire."""
OWN, SHARED = "mqtt:", "mqtt-share:"
"""How the names of durable sessions begin: of a client, of a shared subscription."""
SUBSCRIPTION, TAKEN, RELEASED, DELIVERY = "s/", "i/", "o/", "d/"
BEGUN, ENDED = "b/", "e/"
MOST_TIMES = 5
"""How often a question is asked whose way to the session's home breaks."""
TOLD = "told"
MOST_ACK_WAIT_S = MOST_DELAY_S
"""MQTT sends nothing again while a connection lasts (MQTT-4.4.0-1)."""


def session_name(client_id: str) -> str:
    """Return the name of the durable session of a client."""
    return _short(OWN, client_id)


def shared_name(group: str, topic_filter: str) -> str:
    """Return the name of the durable session of a shared subscription."""
    return _short(SHARED, f"{group}/{topic_filter}")


def _short(mark: str, name: str) -> str:
    if len(mark) + len(name) <= MOST_NAME_CHARS:
        return mark + name
    digest = sha256(name.encode()).hexdigest()[:32]
    return f"{mark}{name[: MOST_NAME_CHARS - len(mark) - 33]}~{digest}"


def expiry_s(interval: int) -> float:
    """Return the option `expiry_s` of a session with this Session Expiry Interval, above 0."""
    return 0.0 if interval == NEVER else float(interval)


def _is_longer(expiry_s: float, than_s: float) -> bool:
    """Return whether a session with this expiry lasts longer; 0 is for ever."""
    return than_s > 0 and (expiry_s == 0 or expiry_s > than_s)


class SessionFailed(RefusedError):
    """A session does not do what it was asked. `gone`: there is none; `again`: it may be asked
    later."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.gone = failed.gone
        self.again = bool(failed.again)


class LastingSession:
    """One durable session. `name`: of the session; `source`: the client's number of it, as long as
    the connection lasts; `consumer`: that of its consumer, 0 while there is none."""

    def __init__(self, asking: Asking, name: str, source: int) -> None:
        self._asking = asking
        self.name = name
        self.source = source
        self.consumer = 0
        self._acknowledged: list[int] = []

    async def open(self, expiry_s: float, *, here: bool, expires: Expires = "fresh") -> bool:
        """Open the session; return whether it is new. `expires`: what was sent to a client does not
        expire (MQTT-4.3.3-7), but may for the other members of a shared subscription. Raises
        `SessionFailed`."""
        options: dict[str, float | int | str] = {
            "expiry_s": expiry_s,
            "ack_wait_s": MOST_ACK_WAIT_S,
            "expires": expires,
        }
        done = await self._done(
            lambda token: OpenSession(token=token, session=self.name, options=options, here=here)
        )
        return bool(done.value)

    async def open_shared(self, expiry_s: float) -> None:
        """Open the session of a shared subscription, which lasts for so long without consumers, or
        longer if another client said so. Raises `SessionFailed`."""
        row = await self.row()
        if row is None:
            await self.open(expiry_s, here=True, expires="all")
        elif _is_longer(expiry_s, row.options.expiry_s):
            await self.open(expiry_s, here=False, expires="all")

    async def leave(self) -> None:
        """Stop consuming a shared subscription; close it if nobody else consumes it."""
        self.detach()
        row = await self.row()
        if row is not None and not row.consumers:
            await self.close()

    async def close(self) -> None:
        """Close the session, if it is there."""
        self.consumer = 0
        await self._ask(lambda token: CloseSession(token=token, session=self.name))

    async def row(self) -> SessionRow | None:
        """Return what its home says of it, None if there is none. Raises `SessionFailed`."""
        answer = await self._ask(lambda token: ListSessions(token=token, session=self.name))
        if isinstance(answer, Failed):
            if answer.gone:
                return None
            raise SessionFailed(answer)
        assert isinstance(answer, Sessions)
        return answer.rows[0] if answer.rows else None

    async def notes(self) -> dict[str, str]:
        """Return its notes. Raises `SessionFailed`."""
        token = 0

        def make(number: int) -> ReadNotes:
            nonlocal token
            token = number
            return ReadNotes(token=number, session=self.name)

        answer = await self._asking.ask(make)
        found: dict[str, str] = {}
        while isinstance(answer, Notes):
            found |= answer.notes
            if not answer.more:
                return found
            answer = await self._asking.more(token)
        raise SessionFailed(answer)

    async def note(self, notes: Mapping[str, str | None]) -> None:
        """Keep notes on the home's disk. Raises `SessionFailed`."""
        self.flush()  # what was acknowledged before is on disk before
        said = dict(notes)
        await self._done(
            lambda token: Note(
                token=token, session=self.name, notes=said, consumer=self.consumer or None
            )
        )

    def note_later(self, notes: Mapping[str, str | None]) -> None:
        """Have notes kept, or removed, some time."""
        if notes:
            said = dict(notes)
            self._asking.tell(
                lambda token: Note(
                    token=token, session=self.name, notes=said, consumer=self.consumer or None
                )
            )

    async def add_filter(self, filter: str) -> int:
        """Subscribe; return the subscription's number when it has settled. Raises
        `SessionFailed`."""
        done = await self._done(
            lambda token: AddFilter(token=token, session=self.name, filter=filter)
        )
        return int(done.value)

    async def remove_filter(self, filter: str) -> None:
        """End the subscription with this filter. Raises `SessionFailed`."""
        await self._done(lambda token: RemoveFilter(token=token, session=self.name, filter=filter))

    async def attach(self, consumer: int, window: int, *, alone: bool) -> None:
        """Become its consumer under this number, `alone`: instead of all others. Raises
        `SessionFailed`."""
        self.consumer = consumer
        try:
            await self._done(
                lambda token: Attach(
                    token=token, session=self.name, consumer=consumer, window=window, alone=alone
                )
            )
        except SessionFailed:
            self.consumer = 0
            raise

    def detach(self) -> None:
        """Stop consuming the session."""
        if self.consumer:
            self.flush()
            consumer, self.consumer = self.consumer, 0
            self._asking.tell(lambda token: Detach(token=token, consumer=consumer))

    def acknowledge(self, position: int) -> None:
        """Acknowledge the event at this position with the next `flush`."""
        self._acknowledged.append(position)

    def flush(self) -> None:
        """Tell the home what was acknowledged."""
        if self._acknowledged and self.consumer:
            consumer, positions = self.consumer, tuple(self._acknowledged)
            self._acknowledged.clear()
            self._asking.tell(
                lambda token: Acknowledge(token=token, consumer=consumer, positions=positions)
            )

    async def _done(self, make: Make) -> Done:
        answer = await self._ask(make)
        if isinstance(answer, Failed):
            raise SessionFailed(answer)
        assert isinstance(answer, Done)
        return answer

    async def _ask(self, make: Make) -> Any:
        """Ask again while the way to the session's home broke, but not for ever."""
        for _ in range(MOST_TIMES):
            answer = await self._asking.ask(make)
            if not (isinstance(answer, Failed) and answer.again == "now"):
                break
        return answer
