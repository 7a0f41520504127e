"""The durable sessions whose home this broker is, as the core and their consumers see them.

Rules
-----
- Each session has a link of its own in the core, that of a client which is always there: its name
  is new for each life of the session, and its rows are those of the session's subscriptions. They
  are entered anew when the broker starts (`start`), before its first neighbour comes up.
- What clients ask goes to `Home`. What that needs of the core, a link that comes up or goes and
  changes of tables, are *wishes*: the core handles them as inputs, at the end of the input that
  caused them, and says what it answered by a session's link (`answered`).
- A client hears that something is done when it is on disk, and for a subscription when that has
  settled as well: a `_Reply` waits for both.
- A client that goes, or loses its connection, has no consumers any more: what they had is owed
  again at once. When it is back it attaches again, and what it acknowledges by then counts.

The core's part:

- `start` before its first input, and `handle` for each of `FROM_CLIENTS` that comes from a client;
  `left` when a client is away or gone.
- Publications for `links` go to `Home.owe`, and not into a `Deliver`. What it sends to one of them
  (`Settled`, `Refused`) goes to `answered`, and is no effect.
- At the end of each input it handles the `wishes` until there are none, then asks `Home.take`, and
  adds what `told` makes of the outcome to its effects, behind the `Keep`. Writing the changes,
  `fetch`, the timer and what concerns publications (`taken`, `refused`) are its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from reefcast.errors import LocalError, ProtocolError
from reefcast.model import wire
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import (
    SESSION_MARK,
    Input,
    LinkDown,
    LinkKind,
    LinkName,
    LinkUp,
    Publish,
    Refused,
    Regrant,
    Send,
    ServiceMessage,
    SessionNews,
    Settled,
    Subscribe,
    Unsubscribe,
)
from reefcast.model.subjects import Subject
from reefcast.routing.attached import Attached, name_of
from reefcast.routing.session_users import Question, SessionUsers
from reefcast.sessions.home import Home
from reefcast.sessions.messages import (
    EVERYBODY,
    AboutSession,
    Acknowledge,
    AddFilter,
    Asked,
    Attach,
    CloseSession,
    ConsumerEnded,
    Deposit,
    Detach,
    Done,
    Failed,
    Letters,
    ListSessions,
    Look,
    Manage,
    Note,
    Notes,
    OpenSession,
    ReadNotes,
    Reject,
    RemoveFilter,
    Resize,
    Sessions,
)
from reefcast.sessions.notes import parts_of
from reefcast.sessions.outcome import Outcome, Told
from reefcast.sessions.status import SessionStatus
from reefcast.sessions.translating import (
    changed_options,
    handed_to,
    letters_of,
    number_of,
    rows_of,
)

REGRANTED = "what this user may see has changed"
NO_HOME = (
    "this broker keeps no durable sessions, for it has no directory for them: give its network "
    "file a [sessions] directory"
)

FULL = (
    'session {session!r} is full, and its policy is "block": consume some events, then subscribe '
    "with replay again, which goes on where it ended"
)

WORTH_SAYING = (Told.FULL, Told.DROPPED, Told.EXPIRED, Told.DEAD_LETTER, Told.DAMAGED)

Wish = tuple[Input, LinkName]
_SessionKey = tuple[str, str]


class _Reply:
    """The answer to a client, which goes when it has come `need` times. `recalls`: before that the
    session gets the retained values that match."""

    __slots__ = ("client", "message", "need", "recalls")

    def __init__(self, client: LinkName, message: Done | Failed | Notes, need: int = 1) -> None:
        self.client = client
        self.message = message
        self.need = need
        self.recalls: Filter | None = None


class Hosting:
    """`me`: the broker's name. `home`: the sessions, None where the broker has no disk for them.
    `new_link`: returns a text
    that no life of any broker returned before. `most`: sessions that there may be. `counters`: the
    broker's, where what happens to sessions is counted. `recalled`: returns the retained values
    that match a filter."""

    def __init__(
        self,
        me: str,
        home: Home | None,
        new_link: Callable[[], str],
        most: int,
        counters: Counter[str],
    ) -> None:
        self._me, self._home, self.users = me, home, SessionUsers()
        self._new_link = new_link
        self._most = most
        self._counters = counters
        self._links: dict[LinkName, _SessionKey] = {}
        self.recalled: Callable[[Filter], Iterable[Publish]] = lambda filter: ()
        self._wishes: list[Wish] = []
        self._sends: list[Send] = []
        self._last_token = 0
        self._settling: dict[tuple[LinkName, int], tuple[int, list[_Reply]]] = {}
        self._consumers = Attached()
        self._handlers: dict[type, Callable[[Home, Any, LinkName, float], None]] = {
            OpenSession: self._open,
            CloseSession: self._close,
            AddFilter: self._add_filter,
            RemoveFilter: self._remove_filter,
            Deposit: self._deposit,
            Attach: self._attach,
            Look: self._look,
            Manage: self._manage,
            Note: self._note,
            ReadNotes: self._read_notes,
            ListSessions: self._list,
            Detach: self._detach,
            Resize: self._resize,
            Acknowledge: self._acknowledge,
            Reject: self._reject,
        }

    # --- what the core calls ----------------------------------------------------------------------

    @property
    def links(self) -> Mapping[LinkName, _SessionKey]:
        """The links of all sessions, with their owners and names."""
        return self._links

    @property
    def keeps(self) -> bool:
        """Whether the broker has a disk for sessions."""
        return self._home is not None

    def has(self, key: _SessionKey) -> bool:
        """Return whether this broker is the home of the session with this owner and name."""
        return self._home is not None and self._home.has(*key)

    def subjects(self) -> dict[LinkName, Subject]:
        """Return who the owners of its sessions are, by their links, and who the clients behind
        circuits are; without those that may do everything."""
        sessions = [] if self._home is None else self._home.sessions()
        owners = {each.link: each.subject for each in sessions if each.subject is not None}
        return self.users.behind() | owners

    def start(self) -> None:
        """Have the core enter the links and rows of stored sessions, before any other input."""
        for status in [] if self._home is None else self._home.sessions():
            self._links[status.link] = (status.owner, status.name)
            up = LinkUp(LinkKind.CLIENT, subject=status.subject)
            self._wishes.append((up, status.link))
            for number, filter in sorted(status.subscriptions.items()):
                self._wish_for_row(status.link, number, filter, [])

    def handle(self, message: ServiceMessage, client: LinkName, now: float) -> None:
        """Handle what a client asks. Raises `ProtocolError` for what is not for it to say."""
        handler = self._handlers.get(type(message))
        if handler is None or not isinstance(message, Asked):
            raise ProtocolError(f"{client!r} sent {type(message).__name__}, which is the home's")
        if self._home is None:
            self._say(client, Failed(token=message.token, reason=NO_HOME))
            return
        try:
            handler(self._home, message, client, now)
        except LocalError as error:
            gone = self._is_gone(message, client)
            self._say(client, Failed(token=message.token, reason=str(error), gone=gone))

    def left(self, client: LinkName, now: float) -> None:
        """Detach the consumers of a client that went, or lost its connection."""
        for number in self._consumers.numbers_of(client):
            self._forget_consumer(name_of(client, number), now)

    def answered(self, link: LinkName, answer: Settled | Refused, now: float) -> None:
        """Handle what the core answered by the link of a session."""
        number, replies = self._settling.pop((link, answer.token), (0, []))
        if isinstance(answer, Settled):
            for reply in replies:
                if reply.recalls is not None:
                    self._owe_retained(link, number, reply, now)
                self._came(reply)
            return
        key = self._links.get(link)
        if key is None or self._home is None or not number:
            return
        self._home.unsubscribe(*key, number, now)
        for reply in replies:
            self._say(reply.client, Failed(token=reply.message.token, reason=answer.reason))
            reply.need = 0

    def wishes(self) -> list[Wish]:
        """Return the inputs that the core is to handle next, and forget them."""
        if self._home is not None:
            for link in self._home.expired():
                self.session_ended(link, "the session expired")
        wishes, self._wishes = self._wishes, []
        return wishes

    def told(self, outcome: Outcome) -> list[Send]:
        """Return the messages to clients that follow from an outcome: answers, events, and the ends
        of consumers."""
        for reply in outcome.replies:
            if isinstance(reply, _Reply):
                self._came(reply)
        for read in outcome.read:
            asked = read.question
            if isinstance(asked, Question):
                letters = letters_of(self.users.visible(asked, read.letters))
                self._say(asked.client, Letters(token=asked.asked.token, letters=letters))
        for client, handed in handed_to(self._consumers.by_name, outcome.deliveries):
            self._say(client, handed)
        for ended in outcome.ended:
            if (whose := self._consumers.forget(ended.consumer)) is not None:
                client, number = whose
                self._say(client, ConsumerEnded(consumer=number, reason=ended.reason))
        for advisory in outcome.advisories:
            self._counters[f"session_{advisory.kind}"] += advisory.count
        return self.told_alone()

    def news(self, outcome: Outcome) -> list[SessionNews]:
        """Return the news for owners of sessions: events that were lost, or are about to be."""
        return [
            SessionNews(each.kind, each.owner, each.session, each.count, each.reason)
            for each in outcome.advisories
            if each.kind in WORTH_SAYING
        ]

    def told_alone(self) -> list[Send]:
        """Remove and return the messages collected for clients; of a broker without sessions these
        are refusals."""
        sends, self._sends = self._sends, []
        return sends

    # --- sessions ---------------------------------------------------------------------------------

    def _open(self, home: Home, asked: OpenSession, client: LinkName, now: float) -> None:
        status = self._find(home, asked)
        options = changed_options(
            SessionOptions() if status is None else status.options, asked.options
        )
        reply = _Reply(client, Done(token=asked.token, value=int(status is None)))
        if status is not None:
            home.configure(asked.owner, asked.session, options, now, reply=reply)
            self._owner_came(status, client)
            return
        if len(self._links) >= self._most:
            raise LocalError(f"this broker has {self._most} sessions already, which is its limit")
        link = SESSION_MARK + self._new_link()
        owner = self.users.owner(asked.owner, client)
        home.create(asked.owner, asked.session, link, options, now, subject=owner, reply=reply)
        self._links[link] = (asked.owner, asked.session)
        self._wishes.append((LinkUp(LinkKind.CLIENT, subject=owner), link))

    def _owner_came(self, status: SessionStatus, client: LinkName) -> Subject | None:
        """Return the subject of a session's owner. If this client is the owner himself, with
        another subject than the session has, have the session's subscriptions narrowed by it."""
        subject = self.users.of(client)
        if not self.users.is_owner(status.owner, client) or subject == status.subject:
            return status.subject
        self._wishes.append((Regrant(subject), status.link))
        return subject

    def regranted(self, link: LinkName, subject: Subject | None, now: float) -> None:
        """Handle that what a client, or the owner of a session (by its link), may do has changed. A
        client's consumers end, and attach again, with filters of what it may see now."""
        key = self._links.get(link)
        if key is not None and self._home is not None:
            self._home.belongs_to(*key, subject, now)
            return
        self.users.is_now(link, subject)
        for number in self._consumers.numbers_of(link):
            self._say(link, ConsumerEnded(consumer=number, reason=REGRANTED, again=True))
        self.left(link, now)

    def _close(self, home: Home, asked: CloseSession, client: LinkName, now: float) -> None:
        reply = _Reply(client, Done(token=asked.token))
        link = home.close(asked.owner, asked.session, now, reply=reply)
        self.session_ended(link, "the session was closed")

    def session_ended(self, link: LinkName, why: str) -> None:
        """Forget a session that has ended."""
        if self._links.pop(link, None) is None:
            return
        self._wishes.append((LinkDown(), link))
        for key in [key for key in self._settling if key[0] == link]:
            for reply in self._settling.pop(key)[1]:
                self._say(reply.client, Failed(token=reply.message.token, reason=why, gone=True))
                reply.need = 0

    def _add_filter(self, home: Home, asked: AddFilter, client: LinkName, now: float) -> None:
        status = home.status(asked.owner, asked.session)
        self.users.check(asked.filter, self._owner_came(status, client))
        number = number_of(status, asked.filter)
        reply = _Reply(client, Done(token=asked.token))
        if asked.retained:
            reply.recalls, reply.need = parse_filter(asked.filter), 2
        if number is None:
            reply.need += 1
            number = home.subscribe(asked.owner, asked.session, asked.filter, now, reply=reply)
            reply.message = Done(token=asked.token, value=number)
            self._wish_for_row(status.link, number, asked.filter, [reply])
            return
        reply.message = Done(token=asked.token, value=number)
        for (link, _), (of, replies) in self._settling.items():
            if link == status.link and of == number:
                replies.append(reply)
                return
        if asked.retained:
            self._owe_retained(status.link, number, reply, now)
        self._came(reply)

    def _owe_retained(self, link: LinkName, number: int, reply: _Reply, now: float) -> None:
        """Owe a session the retained values that a subscription of it matches, which has settled;
        what it has had, it does not get again."""
        key = self._links.get(link)
        if self._home is None or key is None or reply.recalls is None:
            return
        sees = self.users.sees(self._home.status(*key).subject)
        for publish in self.recalled(reply.recalls):
            if sees(publish.publication):
                self._home.owe(publish, {link: (number,)}, now)
        self._home.when_kept(*key, now, reply)

    def _deposit(self, home: Home, asked: Deposit, client: LinkName, now: float) -> None:
        """Owe a session past events that a subscription of it matches."""
        status = home.status(asked.owner, asked.session)
        text = status.subscriptions.get(asked.number)
        if text is None:
            raise LocalError(f"session {asked.session!r} has no subscription {asked.number}")
        filter, sees = parse_filter(text), self.users.sees(status.subject)
        for body in asked.bodies:
            publication = wire.decode_publication(body)
            if not (filter.matches(publication) and sees(publication)):
                continue
            to = {status.link: (asked.number,)}
            verdict = home.owe(Publish(publication, body=body), to, now)
            if verdict.refused or verdict.blocked:
                raise LocalError(verdict.refused or FULL.format(session=asked.session))
        reply = _Reply(client, Done(token=asked.token))
        home.when_kept(asked.owner, asked.session, now, reply)

    def _wish_for_row(
        self, link: LinkName, number: int, filter: str, replies: list[_Reply]
    ) -> None:
        self._last_token += 1
        self._settling[link, self._last_token] = (number, replies)
        self._wishes.append((Subscribe((link, number), filter, self._last_token), link))

    def _remove_filter(self, home: Home, asked: RemoveFilter, client: LinkName, now: float) -> None:
        status = home.status(asked.owner, asked.session)
        number = number_of(status, asked.filter)
        if number is None:
            raise LocalError(
                f"session {asked.session!r} has no subscription {asked.filter!r}; it has "
                + (", ".join(map(repr, status.subscriptions.values())) or "none")
            )
        reply = _Reply(client, Done(token=asked.token, value=number), need=2)
        home.unsubscribe(asked.owner, asked.session, number, now, reply=reply)
        self._last_token += 1
        self._settling[status.link, self._last_token] = (0, [reply])
        self._wishes.append((Unsubscribe((status.link, number), self._last_token), status.link))

    def _manage(self, home: Home, asked: Manage, client: LinkName, now: float) -> None:
        calls = {
            "drain": home.drain,
            "move_dead_letters": home.move_dead_letters,
            "drop_dead_letters": home.drop_dead_letters,
        }
        reply = _Reply(client, Done(token=asked.token))
        count = calls[asked.wish](asked.owner, asked.session, now, reply=reply)
        reply.message = Done(token=asked.token, value=count)

    def _look(self, home: Home, asked: Look, client: LinkName, now: float) -> None:
        question, most = Question(client, asked), self.users.looks_at(asked, client)
        home.read(asked.owner, asked.session, asked.after, most, question, dead=asked.dead)

    def _note(self, home: Home, asked: Note, client: LinkName, now: float) -> None:
        reply = _Reply(client, Done(token=asked.token))
        by = "" if asked.consumer is None else name_of(client, asked.consumer)
        home.note(asked.owner, asked.session, asked.notes, now, consumer=by, reply=reply)

    def _read_notes(self, home: Home, asked: ReadNotes, client: LinkName, now: float) -> None:
        *parts, last = parts_of(home.notes(asked.owner, asked.session, asked.prefix))
        answers = [Notes(token=asked.token, notes=part, more=True) for part in parts]
        for answer in (*answers, Notes(token=asked.token, notes=last)):
            home.when_kept(asked.owner, asked.session, now, _Reply(client, answer))

    def _list(self, home: Home, asked: ListSessions, client: LinkName, now: float) -> None:
        if asked.session:
            found = [home.status(asked.owner, asked.session)]
        else:
            wanted = asked.owner
            found = [each for each in home.sessions() if wanted in (EVERYBODY, each.owner)]
        rows = rows_of(found[asked.skip :], self._me)
        more = asked.skip + len(rows) < len(found)
        self._say(client, Sessions(token=asked.token, rows=rows, more=more))

    def _find(self, home: Home, asked: AboutSession) -> SessionStatus | None:
        try:
            return home.status(asked.owner, asked.session)
        except LocalError:
            return None

    def _is_gone(self, asked: Asked, client: LinkName) -> bool:
        if isinstance(asked, AboutSession) and not self.has((asked.owner, asked.session)):
            return True
        number = None if isinstance(asked, Attach) else getattr(asked, "consumer", None)
        return number is not None and name_of(client, number) not in self._consumers.by_name

    # --- consumers --------------------------------------------------------------------------------

    def _attach(self, home: Home, asked: Attach, client: LinkName, now: float) -> None:
        name, reply = name_of(client, asked.consumer), _Reply(client, Done(token=asked.token))
        attach = partial(home.attach, asked.owner, asked.session, name, asked.window, now)
        attach(filter=self.users.narrowed(asked.filter, client), alone=asked.alone, reply=reply)
        self._consumers.add(client, asked.consumer)

    def _detach(self, home: Home, asked: Detach, client: LinkName, now: float) -> None:
        self._forget_consumer(name_of(client, asked.consumer), now)
        self._say(client, Done(token=asked.token))

    def _resize(self, home: Home, asked: Resize, client: LinkName, now: float) -> None:
        home.resize(self._consumers.name(client, asked.consumer), asked.window, now)
        self._say(client, Done(token=asked.token))

    def _acknowledge(self, home: Home, asked: Acknowledge, client: LinkName, now: float) -> None:
        acknowledge = partial(home.acknowledge, self._consumers.name(client, asked.consumer))
        *first, last = asked.positions
        for position in first:
            acknowledge(position, now)
        reply = _Reply(client, Done(token=asked.token))
        acknowledge(last, now, up_to=asked.up_to, reply=reply)

    def _reject(self, home: Home, asked: Reject, client: LinkName, now: float) -> None:
        reply = _Reply(client, Done(token=asked.token))
        name = self._consumers.name(client, asked.consumer)
        home.reject(name, asked.position, now, delay_s=asked.delay_s, reply=reply)

    def _forget_consumer(self, name: str, now: float) -> None:
        if self._consumers.forget(name) is not None and self._home is not None:
            self._home.detach(name, now)

    # --- answers ----------------------------------------------------------------------------------

    def _came(self, reply: _Reply) -> None:
        reply.need -= 1
        if reply.need == 0:
            self._say(reply.client, reply.message)

    def _say(self, client: LinkName, message: ServiceMessage) -> None:
        self._sends.append(Send(client, message))
