"""Durable sessions of a tortured network, as their owners see them."""

from __future__ import annotations

from typing import Any

from reefcast.model.filters import parse_filter
from reefcast.model.keeping import StoredOwed, StoredSession
from reefcast.model.messages import LinkDown, LinkKind, LinkUp
from reefcast.model.publication import Publication
from reefcast.sessions.messages import (
    AddFilter,
    Asked,
    CloseSession,
    Done,
    Failed,
    Manage,
    OpenSession,
    RemoveFilter,
)
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.lives import Life

Options = dict[str, float | int | str]


class Wanted:
    """A durable session: where it is, its filters, and which of them have settled.

    - `asked`: filter -> the token by which it was asked for; `removed`: those that are to go.
    - `life`: the session as it is on disk, None before it was written.
    - `ended`: its owner has closed it, or it has expired.
    - `open`: what has been asked and not answered, by token.
    """

    def __init__(
        self, network: Brokers, name: str, home: str, options: Options | None = None
    ) -> None:
        self._network = network
        self.name, self.home = name, home
        self.options = options or {}
        self.asked: dict[str, int] = {}
        self.settled: set[str] = set()
        self.removed: set[str] = set()
        self.life: Life | None = None
        self.ended = False
        self.open: dict[int, Asked] = {}
        self._failed: list[Asked] = []
        self._last_token = 1
        self._attached = False

    @property
    def policy(self) -> str:
        """What happens when its queue is full."""
        return str(self.options.get("policy", "drop_oldest"))

    def settled_for(self, publication: Publication) -> set[str]:
        """Return the settled subscriptions that this publication matches."""
        if self.ended:
            return set()
        return {text for text in self.settled if parse_filter(text).matches(publication)}

    # --- what its owner does ----------------------------------------------------------------------

    def want(self, filter: str) -> None:
        """Ask for one more subscription."""
        add = AddFilter(token=self._token(), session=self.name, filter=filter)
        self.asked[filter] = add.token
        self._ask(add)

    def remove(self, filter: str) -> None:
        """Ask for the end of a subscription that has settled."""
        self.settled.discard(filter)
        self.removed.add(filter)
        self._ask(RemoveFilter(token=self._token(), session=self.name, filter=filter))

    def manage(self, wish: Any) -> None:
        """Drain the queue, or move or drop its dead letters, if the home is up."""
        life = self.life
        if life is None or not self._attached:
            return
        life.moves = life.moves or wish == "move_dead_letters"
        life.drops = life.drops or wish == "drop_dead_letters"
        if wish == "drain":
            life.released |= self._owed().keys()
        manage = Manage(token=self._token(), session=self.name, wish=wish)
        self._network.put(self.home, manage, self.name)

    def _owed(self) -> dict[int, StoredOwed]:
        """Return what the home wants on disk of the queue, by position."""
        watch = self._network.watches[self.home]
        stored: StoredSession
        for stored in watch.contents.sessions.values():
            if self.life is not None and stored.record.link == self.life.link:
                return stored.owed
        return {}

    @property
    def has_dead_letters(self) -> bool:
        """Whether it has dead letters."""
        return any(owed.dead for owed in self._owed().values())

    def close(self) -> None:
        """Ask for the end of the session."""
        self.ended = True
        self.open = {}
        self._failed = []
        self._ask(CloseSession(token=self._token(), session=self.name))

    def _token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _ask(self, what: Asked) -> None:
        self.open[what.token] = what
        if self.home in self._network.cores:
            if not self._attached:
                self._attach()
            self._say(what)

    def _attach(self) -> None:
        self._attached = True
        self._network.put(self.home, LinkUp(LinkKind.CLIENT), self.name)

    def _say(self, what: Asked) -> None:
        if isinstance(what, AddFilter):
            opening = OpenSession(token=1, session=self.name, options=self.options, here=True)
            self._network.put(self.home, opening, self.name)
        self._network.put(self.home, what, self.name)

    def expire(self) -> None:
        """Note that the session has ended by itself."""
        self.ended = True
        self.open = {}
        self._failed = []

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and no restart brings it back."""
        sessions = self._network.disks[self.home].synced.sessions.values()
        return (
            self.ended
            and not self.open
            and self.life is not None
            and all(stored.record.link != self.life.link for stored in sessions)
        )

    def leave(self) -> None:
        """End the owner's client: the session has ended, and another one has its name."""
        if self._attached:
            self._attached = False
            self._network.put(self.home, LinkDown(), self.name)

    # --- what it hears ----------------------------------------------------------------------------

    def started(self, broker: str) -> None:
        """Ask again what was not answered, if it was the session's home that started."""
        if broker == self.home:
            self._attach()
            for what in list(self.open.values()):
                self._say(what)

    def killed(self, broker: str) -> None:
        """Note that the home is down, if it was this one."""
        if broker == self.home:
            self._attached = False

    def told(self, broker: str, message: Any) -> None:
        """Handle what the home answers."""
        if not isinstance(message, Done | Failed):
            return
        what = self.open.pop(message.token, None)
        if isinstance(message, Failed) and message.again and what is not None:
            self.open[message.token] = what
            self._failed.append(what)  # its broker has still the path to a session that has ended
        elif isinstance(message, Failed) and not self._is_expected(what, message):
            self._network.problems.append(f"session {self.name}: {message.reason}")
        elif isinstance(what, AddFilter) and what.filter not in self.removed:
            self.settled.add(what.filter)

    def pause_is_over(self) -> None:
        """Ask again what failed and is to be asked again."""
        failed, self._failed = self._failed, []
        for what in failed:
            if what.token in self.open:
                self._ask(what)

    def _is_expected(self, what: Asked | None, failed: Failed) -> bool:
        """Return whether this may fail: it was done before the home was killed, or the session has
        ended; or it is an opening that comes again with what follows it."""
        if isinstance(what, RemoveFilter):
            return failed.gone or "has no subscription" in failed.reason
        if what is None and failed.again:
            return True
        return self.ended or (what is None and failed.gone)
