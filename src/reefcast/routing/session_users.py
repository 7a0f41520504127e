"""Who the clients are that ask for durable sessions, and what they may see of them.

Rules
-----
- The rows of a session are narrowed by what its *owner* may see. The home has his `Subject` with
  the session on its disk, as of the last time that he opened it or subscribed; the roles it has
  itself. A broker proves its own clients, and tells homes who those behind its circuits are
  (`IsUser`).
- A consumer is handed, and shown, what *its* user may see, whoever owns the session: that is part
  of its filter. So what a queue holds from before a grant was narrowed stays there unseen; and two
  programs of one user with different tokens each get what theirs allows.
- What nobody's user may see stays in the queue, within its limits: it comes if that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reefcast.model.filters import TRUE, parse_filter
from reefcast.model.grants import NO_ADVISORIES, Grant, both
from reefcast.model.messages import LinkName, is_durable
from reefcast.model.publication import Publication
from reefcast.model.subjects import Subject
from reefcast.model.wire import decode_publication
from reefcast.sessions.messages import Look
from reefcast.sessions.outcome import Letter

GrantOf = Callable[[Subject | None], Grant | None]


LOOKED_AT = 1000
"""Events of a queue among which those are found that a user may see, who looks into it."""


class Question(NamedTuple):
    """A client's request to look into a session."""

    client: LinkName
    asked: Look


class SessionUsers:
    """The users of the clients of one broker, and of those behind its circuits. `grant_of`: what a
    user may do; None: everything. `advises`: whether queues may hold advisory events."""

    def __init__(self) -> None:
        self.advises = False
        self.grant_of: GrantOf = lambda subject: None
        self._subjects: dict[LinkName, Subject] = {}

    def is_now(self, client: LinkName, subject: Subject | None) -> None:
        """Set the user of a client; None: one that may do everything."""
        if subject is None:
            self._subjects.pop(client, None)
        else:
            self._subjects[client] = subject

    def left(self, client: LinkName) -> None:
        """Forget a client."""
        self._subjects.pop(client, None)

    def of(self, client: LinkName) -> Subject | None:
        """Return the user of a client; None for a client that may do everything."""
        return self._subjects.get(client)

    def behind(self) -> dict[LinkName, Subject]:
        """Return who the clients behind circuits are."""
        return {name: who for name, who in self._subjects.items() if is_durable(name)}

    def grant(self, client: LinkName) -> Grant | None:
        """Return what a client may do."""
        return self.grant_of(self._subjects.get(client))

    def owner(self, owner: str, client: LinkName) -> Subject | None:
        """Return the owner of a session that a client makes. If he is another user than the
        client's, only his name is known: he may see nothing until he comes himself."""
        subject = self._subjects.get(client)
        return subject if subject is None or subject.user == owner else Subject(owner)

    def is_owner(self, owner: str, client: LinkName) -> bool:
        """Return whether a client is the owner of a session himself."""
        subject = self._subjects.get(client)
        return subject is not None and subject.user == owner

    # --- what clients see -------------------------------------------------------------------------

    def narrowed(self, filter: str, client: LinkName) -> str:
        """Return a consumer's filter, narrowed to what its user may see; "" for everything. Raises
        `LocalError`."""
        grant = self.grant(client)
        if grant is None:
            return filter
        wanted = parse_filter(filter) if filter else TRUE
        if self.advises and not grant.sees_advisories:
            wanted = both(wanted, NO_ADVISORIES)
        row = grant.narrowed(wanted)
        return "" if row == TRUE else row.text

    def sees(self, subject: Subject | None) -> Callable[[Publication], bool]:
        """Return what tells whether a user may see a publication."""
        grant = self.grant_of(subject)
        return _everything if grant is None else grant.sees

    def looks_at(self, asked: Look, client: LinkName) -> int:
        """Return how many events to read for a client that looks into a session: as many as it
        asked for, unless some may have to be hidden from it."""
        return asked.most if self.grant(client) is None else LOOKED_AT

    def visible(self, question: Question, letters: Sequence[Letter]) -> Sequence[Letter]:
        """Return those of these events that the asking client may see, as many as it wants."""
        sees = self.sees(self.of(question.client))
        if sees is _everything:
            return letters
        found = [each for each in letters if sees(decode_publication(each.body))]
        return found[: question.asked.most]

    def check(self, filter: str, subject: Subject | None) -> None:
        """Raise `LocalError` if a session of this owner must not subscribe to this."""
        grant = self.grant_of(subject)
        if grant is not None:
            grant.narrowed(parse_filter(filter))


def _everything(publication: Publication) -> bool:
    return True
