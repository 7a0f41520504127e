"""Sessions from anywhere: pass what clients ask about durable sessions on to the brokers that are
their homes, and back what those say.

Rules
-----
- What concerns a session of this broker's own stays here. For any other one its home is searched
  (`searching`); the search lays a *circuit*, which all clients of this broker use for that session.
  If nobody has the session, a client that opens it has this broker make it, unless some broker
  could not be asked: then it says who, and makes it only if told so (`OpenSession.here`).
- At the home, a client behind a circuit is one like its own, under a name that no other has. A
  client that goes, or is away, has no consumers there any more (`Gone`), as at its own broker.
- When a link on a circuit is away or gone, the brokers at its ends cut the circuit. The entry tells
  its clients that their consumers have ended, and that what was not answered is to be asked again;
  the home detaches the consumers. Nothing is remembered: whoever asks again searches again.
- A circuit to a broker that no longer has the session is cut, too: so a session is only ever made
  by a search.

Costs: a search sends at most two messages each way over each link; a message passes unread between
entry and home.

Source: `delivery.md`, rule 12.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from reefcast.errors import ProtocolError
from reefcast.model.messages import (
    SESSION_MARK,
    LinkName,
    Send,
    ServiceMessage,
)
from reefcast.model.wire import Codec
from reefcast.routing.hosting import Hosting
from reefcast.routing.searching import Search, Searches, SessionKey
from reefcast.routing.services import Service
from reefcast.routing.tables import TableView
from reefcast.sessions.circuit_parts import Parts, in_parts, whole
from reefcast.sessions.messages import (
    FROM_CLIENTS,
    FROM_HOMES,
    AboutSession,
    Asked,
    Attach,
    ConsumerEnded,
    Detach,
    Failed,
    ListSessions,
    Notes,
    OpenSession,
)
from reefcast.sessions.relay_messages import (
    RELAY_MESSAGES,
    Cut,
    Gone,
    Here,
    IsUser,
    Nowhere,
    OfCircuit,
    ToClient,
    ToHome,
    Where,
)

CANNOT_BE_ASKED = "a broker that cannot be asked now"
BROKEN = "the way to the broker that has session {session!r} broke"

_asked = Codec(FROM_CLIENTS)
_said = Codec(FROM_HOMES)
_Consumer = tuple[LinkName, int]


class _Entry:
    """A circuit that begins here. `link`: towards the home; `asked`: what is not answered, by
    client and token; `parts`: of messages that are not complete."""

    def __init__(self, id: str, key: SessionKey, link: LinkName) -> None:
        self.id, self.key, self.link = id, key, link
        self.asked: dict[LinkName, dict[int, Asked]] = {}
        self.parts: Parts = {}


class _End:
    """A circuit that ends here, at the home. `link`: towards the entry, whose name is `entry`."""

    def __init__(self, where: Where, link: LinkName) -> None:
        self.id, self.entry, self.link = where.id, where.entry, link
        self.key = (where.owner, where.session)
        self.clients: set[LinkName] = set()
        self.parts: Parts = {}

    def name(self, client: LinkName) -> LinkName:
        """Return the name that a client of the entry has here."""
        return f"{SESSION_MARK}{client}@{self.entry}/{self.id}"


class SessionRelay(Service):
    """The part of broker `me` in sessions whose home is not that of their clients. `hosting`: its
    own sessions; `new_id`: returns a text that no life of any broker returned before; `expected`:
    its neighbours, whether up or not."""

    messages = RELAY_MESSAGES

    def __init__(
        self,
        me: str,
        hosting: Hosting,
        new_id: Callable[[], str],
        expected: Callable[[], Collection[LinkName]],
    ) -> None:
        self._me, self._hosting, self._new_id = me, hosting, new_id
        self._now = 0.0
        self._up: list[LinkName] = []
        self._away: set[LinkName] = set()
        self._early: dict[LinkName, list[OfCircuit]] = {}
        self._searches = Searches(me, self._askable, expected, self._nobody_has_it)
        self._waiting: dict[SessionKey, list[tuple[LinkName, Asked]]] = {}
        self._consumers: dict[_Consumer, SessionKey] = {}
        self._by_key: dict[SessionKey, _Entry] = {}
        self._entries: dict[str, _Entry] = {}
        self._between: dict[str, tuple[LinkName, LinkName]] = {}
        self._ends: dict[str, _End] = {}
        self._behind: dict[LinkName, tuple[_End, LinkName]] = {}
        self._handlers: dict[type, Callable[[Any, LinkName], list[Send]]] = {
            Where: self._where,
            Here: self._here,
            Nowhere: self._searches.nowhere,
            IsUser: self._is_user,
            ToHome: self._to_home,
            ToClient: self._to_client,
            Gone: self._gone,
            Cut: self._cut,
        }

    def _askable(self) -> list[LinkName]:
        return [link for link in self._up if link not in self._away]

    # --- what clients of this broker ask ----------------------------------------------------------

    def ask(self, message: ServiceMessage, client: LinkName) -> list[Send]:
        """Handle what a client asks about sessions, here or at the session's home."""
        key = self._key(message, client)
        if key is None or not isinstance(message, Asked):
            return self._ask_here(message, client)
        if isinstance(message, Attach):
            self._consumers[client, message.consumer] = key
        elif isinstance(message, Detach):
            self._consumers.pop((client, message.consumer), None)
        if key in self._waiting:
            self._waiting[key].append((client, message))
            return []
        entry = self._by_key.get(key)
        if entry is not None:
            return self._ask_home(entry, message, client)
        if not isinstance(message, AboutSession | ListSessions):
            return self._ask_here(message, client)  # a consumer that has ended
        self._waiting[key] = [(client, message)]
        return self._search(key)

    def would_search(self, owner: str, session: str) -> bool:
        """Return whether a question about this session would have neighbours asked where it is."""
        key = (owner, session)
        return bool(self._askable()) and key not in self._by_key and not self._hosting.has(key)

    def _key(self, message: ServiceMessage, client: LinkName) -> SessionKey | None:
        """Return which session a message concerns, if that may be elsewhere."""
        if isinstance(message, AboutSession) or (
            isinstance(message, ListSessions) and message.session
        ):
            key = (message.owner, message.session)
            return None if self._hosting.has(key) else key
        consumer = getattr(message, "consumer", 0)
        return self._consumers.get((client, consumer)) if self._consumers else None

    def _ask_here(self, message: ServiceMessage, client: LinkName) -> list[Send]:
        self._hosting.handle(message, client, self._now)
        return [] if self._hosting.keeps else self._hosting.told_alone()

    def _ask_home(self, entry: _Entry, message: Asked, client: LinkName) -> list[Send]:
        subject, sends = self._hosting.users.of(client), list[Send]()
        if client not in entry.asked and subject is not None:
            sends.append(Send(entry.link, IsUser(id=entry.id, client=client, subject=subject)))
        entry.asked.setdefault(client, {})[message.token] = message
        return sends + in_parts(ToHome, entry.id, client, message, entry.link)

    def regranted(self, client: LinkName) -> list[Send]:
        """Tell the homes that a client uses that it may do something else from now on."""
        subject = self._hosting.users.of(client)
        return [
            Send(entry.link, IsUser(id=entry.id, client=client, subject=subject))
            for entry in self._entries.values()
            if client in entry.asked
        ]

    # --- searches ---------------------------------------------------------------------------------

    def _search(self, key: SessionKey, rank: str = "") -> list[Send]:
        """Search the home of a session for which clients wait; make it if nobody has it, and one
        of them opens it."""
        id = self._new_id()
        makes = any(isinstance(message, OpenSession) for _, message in self._waiting[key])
        rank = rank or (id if makes else "")
        owner, session = key
        where = Where(id=id, owner=owner, session=session, entry=self._me, rank=rank)
        return self._searches.begin(where)

    def _where(self, where: Where, link: LinkName) -> list[Send]:
        if where.id in self._searches or where.id in self._between or where.id in self._ends:
            return [Send(link, Nowhere(id=where.id))]
        if self._hosting.has((where.owner, where.session)):
            self._ends[where.id] = _End(where, link)
            return [Send(link, Here(id=where.id))]
        return self._searches.begin(where, link)

    def _here(self, here: Here, link: LinkName) -> list[Send]:
        search = self._searches.here(here.id, link)
        if search is None:
            return [Send(link, Cut(id=here.id))]
        if search.back:
            self._between[here.id] = (search.back, link)
            return [Send(search.back, here)]
        entry = _Entry(here.id, search.key, link)
        self._entries[here.id] = self._by_key[search.key] = entry
        sends: list[Send] = []
        for client, message in self._waiting.pop(search.key):
            sends += self._ask_home(entry, message, client)
        return sends + self._let_go_on(search)

    def _let_go_on(self, search: Search) -> list[Send]:
        """Take part now in the searches that were held until this one had an outcome."""
        return [send for held in search.held for send in self._where(*held)]

    def _nobody_has_it(self, search: Search) -> list[Send]:
        key, waiting = search.key, self._waiting[search.key]
        makes = any(isinstance(message, OpenSession) for _, message in waiting)
        if search.beaten or (makes and not search.where.rank):
            again = self._search(key, search.where.rank)
            return again + self._let_go_on(search)
        del self._waiting[key]
        sends: list[Send] = []
        for client, message in waiting:
            makes = isinstance(message, OpenSession) and (message.here or not search.unreached)
            if makes or self._hosting.has(key):
                sends += self._ask_here(message, client)
            else:
                sends.append(Send(client, _not_found(message, key, search.unreached)))
            if isinstance(message, Attach):
                self._consumers.pop((client, message.consumer), None)
        return sends + self._let_go_on(search)

    # --- circuits ---------------------------------------------------------------------------------

    def _to_home(self, message: ToHome, link: LinkName) -> list[Send]:
        if message.id in self._between:
            back, onward = self._between[message.id]
            return [Send(onward, message)] if link == back else []
        end = self._ends.get(message.id)
        if end is None or end.link != link:
            return [Send(link, Cut(id=message.id))]
        complete = whole(end.parts, message)
        if complete is None:
            return []
        asked = _asked.decode_control(complete)
        if not isinstance(asked, FROM_CLIENTS):
            raise ProtocolError(f"{link!r} passed on {type(asked).__name__}, which no client asks")
        if isinstance(asked, AboutSession) and not self._hosting.has(end.key):
            self._close_end(end)
            return [Send(link, Cut(id=message.id))]
        name = end.name(message.client)
        end.clients.add(name)
        self._behind[name] = (end, message.client)
        self._hosting.handle(asked, name, self._now)
        return []

    def _is_user(self, message: IsUser, link: LinkName) -> list[Send]:
        if message.id in self._between:
            back, onward = self._between[message.id]
            return [Send(onward, message)] if link == back else []
        end = self._ends.get(message.id)
        if end is not None and end.link == link:
            self._hosting.regranted(end.name(message.client), message.subject, self._now)
        return []

    def outward(self, sends: Iterable[Send]) -> list[Send]:
        """Return the messages of this broker's sessions as they are sent: those to clients behind
        circuits go by the circuits, unless these have been cut."""
        passed: list[Send] = []
        for send in sends:
            if send.link in self._behind:
                end, client = self._behind[send.link]
                assert isinstance(send.message, ServiceMessage)
                passed += in_parts(ToClient, end.id, client, send.message, end.link)
            elif not send.link.startswith(SESSION_MARK):  # its circuit has been cut
                passed.append(send)
        return passed

    def _to_client(self, message: ToClient, link: LinkName) -> list[Send]:
        if message.id in self._between:
            back, onward = self._between[message.id]
            return [Send(back, message)] if link == onward else []
        entry = self._entries.get(message.id)
        if entry is None or entry.link != link:
            return [Send(link, Cut(id=message.id))]
        complete = whole(entry.parts, message)
        if complete is None:
            return []
        said, client = _said.decode_control(complete), message.client
        if not isinstance(said, FROM_HOMES):
            raise ProtocolError(f"{link!r} passed on {type(said).__name__}, which no home says")
        asked = entry.asked.get(client)
        if asked is None:
            return []  # it has left
        if isinstance(said, Notes) and said.more:
            return [Send(client, said)]
        answers = asked.pop(getattr(said, "token", 0), None)
        if isinstance(said, ConsumerEnded):
            self._consumers.pop((client, said.consumer), None)
        elif isinstance(said, Failed) and isinstance(answers, Attach):
            self._consumers.pop((client, answers.consumer), None)
        return [Send(client, said)]

    def _gone(self, gone: Gone, link: LinkName) -> list[Send]:
        if gone.id in self._between:
            back, onward = self._between[gone.id]
            return [Send(onward, gone)] if link == back else []
        end = self._ends.get(gone.id)
        if end is not None and end.link == link:
            self._leave_end(end, end.name(gone.client))
            end.parts.pop(gone.client, None)
        return []

    def _cut(self, cut: Cut, link: LinkName) -> list[Send]:
        if cut.id in self._between:
            ends = self._between[cut.id]
            if link not in ends:
                return []
            del self._between[cut.id]
            return [Send(ends[link == ends[0]], cut)]
        end, entry = self._ends.get(cut.id), self._entries.get(cut.id)
        if end is not None and end.link == link:
            self._close_end(end)
        if entry is not None and entry.link == link:
            return self._break(entry)
        return []

    def _close_end(self, end: _End) -> None:
        del self._ends[end.id]
        for name in list(end.clients):
            self._leave_end(end, name)

    def _leave_end(self, end: _End, name: LinkName) -> None:
        end.clients.discard(name)
        if self._behind.pop(name, None) is not None:
            self._hosting.left(name, self._now)
        self._hosting.users.left(name)

    def _break(self, entry: _Entry) -> list[Send]:
        """Tell the clients of a circuit that it has ended."""
        del self._entries[entry.id], self._by_key[entry.key]
        return [send for client in list(entry.asked) for send in self._end_for(entry, client)]

    def _end_for(self, entry: _Entry, client: LinkName) -> list[Send]:
        """Tell a client that its consumers at the end of a circuit have ended, and to ask its open
        questions again."""
        reason = BROKEN.format(session=entry.key[1])
        sends: list[Send] = []
        for each, number in self._consumers_of(client, entry.key):
            del self._consumers[each, number]
            sends.append(Send(client, ConsumerEnded(consumer=number, reason=reason, again=True)))
        for token in entry.asked.pop(client, {}):
            sends.append(Send(client, Failed(token=token, reason=reason, again="now")))
        return sends

    def _consumers_of(self, client: LinkName, key: SessionKey) -> list[_Consumer]:
        return [each for each, of in self._consumers.items() if each[0] == client and of == key]

    # --- links ------------------------------------------------------------------------------------

    def handle(self, message: ServiceMessage, link: LinkName, *, client: bool) -> Sequence[Send]:
        if client or not isinstance(message, OfCircuit):
            raise ProtocolError(f"{link!r} sent {type(message).__name__}; only brokers do")
        if link not in self._up:  # it will be: the other end has promoted it before this one
            self._early.setdefault(link, []).append(message)
            return []
        return self._handlers[type(message)](message, link)

    def pass_time(self, now: float) -> None:
        self._now = now

    def link_up(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        if client:
            return []
        sends = self._lost(link) if link in self._up else []
        self._away.discard(link)
        if link not in self._up:
            self._up.append(link)
        for message in self._early.pop(link, ()):
            sends += self._handlers[type(message)](message, link)
        return sends

    def link_down(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        if client:
            return self._left(link)
        self._early.pop(link, None)
        self._away.discard(link)
        if link not in self._up:
            return []
        self._up.remove(link)
        return self._lost(link)

    def away(self, client: LinkName) -> Sequence[Send]:
        return self._left(client)

    def neighbour_away(self, link: LinkName) -> Sequence[Send]:
        if link not in self._up or link in self._away:
            return []
        self._away.add(link)
        return self._lost(link)

    def neighbour_back(self, link: LinkName) -> None:
        self._away.discard(link)

    def _lost(self, link: LinkName) -> list[Send]:
        """Cut the circuits that use a link which is lost, and stop waiting for it in searches."""
        sends: list[Send] = []
        for id, ends in list(self._between.items()):
            if link in ends:
                del self._between[id]
                sends.append(Send(ends[link == ends[0]], Cut(id=id)))
        for end in [end for end in self._ends.values() if end.link == link]:
            self._close_end(end)
        for entry in [entry for entry in self._entries.values() if entry.link == link]:
            sends += self._break(entry)
        return sends + self._searches.lost(link)

    def _left(self, client: LinkName) -> list[Send]:
        """Handle that a client is gone or away: detach it from sessions elsewhere, and tell it to
        ask again what has not been answered. It asks anew when it is back."""
        sends: list[Send] = []
        for key, waiting in self._waiting.items():
            its = [message for who, message in waiting if who == client]
            if its:
                self._waiting[key] = [each for each in waiting if each[0] != client]
                sends += [Send(client, _again(message, key)) for message in its]
        for entry in [entry for entry in self._entries.values() if client in entry.asked]:
            sends += self._end_for(entry, client)
            if entry.asked:
                sends.append(Send(entry.link, Gone(id=entry.id, client=client)))
            else:
                del self._entries[entry.id], self._by_key[entry.key]
                sends.append(Send(entry.link, Cut(id=entry.id)))
        for each in [each for each in self._consumers if each[0] == client]:
            del self._consumers[each]
        return sends

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> Mapping[str, TableView[Any]]:
        return {}

    def figures(self) -> Mapping[str, int]:
        return {
            "session_circuits": len(self._entries) + len(self._between) + len(self._ends),
            "session_searches": len(self._searches),
        }


def _not_found(message: Asked, key: SessionKey, unreached: Sequence[str]) -> Failed:
    if not unreached:
        reason = f"there is no session {key[1]!r} in this network"
        return Failed(token=message.token, reason=reason, gone=True)
    who = ", ".join(unreached)
    reason = f"session {key[1]!r} may be at {CANNOT_BE_ASKED}: {who}"
    if isinstance(message, OpenSession):
        reason += "; wait for it, or make the session here all the same (here=True)"
    return Failed(token=message.token, reason=reason, again="later")


def _again(message: Asked, key: SessionKey) -> Failed:
    reason = BROKEN.format(session=key[1])
    return Failed(token=message.token, reason=reason, again="now")
