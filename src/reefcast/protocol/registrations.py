"""The filters of a client's subscriptions and advertisements, which its broker keeps. No I/O.

Rules
-----
- Each filter is a registration of its own on the wire, with a number that is never used again.
- Each control message carries a fresh token; the broker answers `Settled` or `Refused` with it.
- While there is no connection, the client does not know whether the broker still has the
  registrations: settled ones count as pending, and ending ones as ended. If the broker has them
  (`go_on`), their states are restored; if not, `renew` sends every remaining registration again
  under a new number."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from reefcast.errors import RefusedError
from reefcast.model.messages import Advertise, ControlMessage, Subscribe, Unadvertise, Unsubscribe


class State(Enum):
    PENDING = auto()  # sent (or about to be), not answered
    SETTLED = auto()  # known to every broker that must know it
    REFUSED = auto()
    ENDING = auto()  # withdrawn, not answered
    ENDED = auto()


class Owner(Protocol):
    """A subscription or advertisement, seen from its registrations."""

    def registration_changed(self, registration: Registration[Any]) -> None: ...


OwnerType = TypeVar("OwnerType", bound=Owner)


class Registration(Generic[OwnerType]):
    """One filter. `number` and `token` are those of the current connection; `error` says why the
    filter was refused; `watched`: a caller waits for this answer and will raise the error;
    `order_s`: see `Subscribe`."""

    __slots__ = (
        "advertises",
        "error",
        "filter",
        "number",
        "order_s",
        "owner",
        "state",
        "token",
        "watched",
    )

    def __init__(
        self,
        owner: OwnerType,
        filter: str,
        *,
        advertises: bool = False,
        watched: bool = False,
        order_s: float = 0.0,
    ) -> None:
        self.owner = owner
        self.filter = filter
        self.advertises = advertises
        self.watched = watched
        self.order_s = order_s
        self.state = State.PENDING
        self.number = 0
        self.token = 0
        self.error: RefusedError | None = None

    @property
    def unanswered(self) -> bool:
        return self.state in (State.PENDING, State.ENDING)

    def become(self, state: State) -> None:
        self.state = state
        self.owner.registration_changed(self)


class Registrations(Generic[OwnerType]):
    """All registrations of one client, by number and by awaited token. They have numbers above
    `last_number`."""

    def __init__(self, client_id: str, last_number: int = 0) -> None:
        self.by_number: dict[int, Registration[OwnerType]] = {}
        self._client_id = client_id
        self._by_token: dict[int, Registration[OwnerType]] = {}
        self._last_number = last_number
        self._last_token = 0

    def add(self, registration: Registration[OwnerType]) -> ControlMessage:
        """Add a registration; return the message that tells the broker."""
        self._last_number += 1
        registration.number = self._last_number
        self.by_number[registration.number] = registration
        identity = (self._client_id, registration.number)
        token = self._next_token(registration)
        if registration.advertises:
            return Advertise(identity, registration.filter, token)
        return Subscribe(identity, registration.filter, token, registration.order_s)

    def end(self, registration: Registration[OwnerType]) -> ControlMessage:
        """End a registration that is PENDING or SETTLED; return the message."""
        self._by_token.pop(registration.token, None)
        identity = (self._client_id, registration.number)
        token = self._next_token(registration)
        registration.become(State.ENDING)
        if registration.advertises:
            return Unadvertise(identity, token)
        return Unsubscribe(identity, token)

    def settled(self, token: int) -> None:
        """Handle an answer; ignore one that nobody waits for any more because of a withdrawal."""
        registration = self._by_token.pop(token, None)
        if registration is None:
            return
        if registration.state is State.ENDING:
            self._forget(registration, State.ENDED)
        else:
            registration.become(State.SETTLED)

    def refused(self, token: int, reason: str) -> None:
        registration = self._by_token.pop(token, None)
        if registration is None:
            return
        if registration.state is State.ENDING:  # it was refused before, so there is nothing to end
            self._forget(registration, State.ENDED)
            return
        what = "advertisement" if registration.advertises else "subscription"
        registration.error = RefusedError(f"{what} {registration.filter!r} was refused: {reason}")
        self._forget(registration, State.REFUSED)

    def disconnect(self) -> None:
        """Handle the loss of the connection, and maybe of the broker's registrations."""
        for registration in list(self.by_number.values()):
            if registration.state is State.ENDING:
                self._forget(registration, State.ENDED)
            elif registration.state is State.SETTLED:
                registration.become(State.PENDING)

    def go_on(self) -> None:
        """Resume at a broker that still has the registrations: those without a pending answer had
        settled."""
        for registration in list(self.by_number.values()):
            if registration.token not in self._by_token:
                registration.become(State.SETTLED)

    def renew(self) -> list[ControlMessage]:
        """Return the messages for a broker that knows nothing: advertisements first, then
        subscriptions."""
        standing = sorted(
            self.by_number.values(), key=lambda entry: (not entry.advertises, entry.number)
        )
        self.by_number.clear()
        self._by_token.clear()
        return [self.add(registration) for registration in standing]

    def _forget(self, registration: Registration[OwnerType], state: State) -> None:
        del self.by_number[registration.number]
        self._by_token.pop(registration.token, None)
        registration.become(state)

    def _next_token(self, registration: Registration[OwnerType]) -> int:
        self._last_token += 1
        registration.token = self._last_token
        self._by_token[self._last_token] = registration
        return self._last_token
