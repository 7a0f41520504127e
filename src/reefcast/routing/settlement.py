"""Termination detection: when is everything done that a control message caused?

Rules
-----
- Handling one input is one piece of *pending work*. Every control message that it sends carries a
  token that is fresh for its link; that is done when all of these were answered by `Settled` or
  `Refused`. Then, and only then, the input itself is answered on the link that it came by.
- So answers travel back along the tree of messages that the first one spawned, and the client's
  token is answered when nothing that it caused is under way any more, whatever the routing.
- A refusal somewhere below is passed up instead of `Settled`.
- A neighbour that restarted will never answer earlier messages. Work that waited for such an answer
  now waits for the message that tells the neighbour the same again, if there is one; not for
  everything that it is told: two advertisements that come towards each other would wait for each
  other. The neighbour's own earlier messages are not answered either: its new tokens start at 1
  like the old ones, and an answer to an old one would pass for one to a new one.
- A broker that is itself relearning its state after a start keeps all work pending until it has
  heard from all neighbours: before that it does not know the next hops. The work of an
  advertisement or subscription also waits for everything that is sent for it in that time,
  whichever input caused the message. (One piece of work for all of it would not do: two neighbours
  that both relearn would wait for each other. Where several neighbours tell of an advertisement,
  for the same reason only the work of the one from its last hop waits.)
- A message that comes again by the same link while it is under way, because a broker behind that
  link restarted, is answered only when the first one is done, too.
- A row that was on disk when the broker started (`on_disk`) has been told to neighbours before it
  comes again: then it waits for their answers.
- A subscription that needs no message of its own, because another one has sent it (OctopiA's
  CIV_SET), settles only when that message has been answered; nor does a subscription settle before
  another one that stands in for it at a neighbour (covering).
- A subscription whose stand-in had settled before a neighbour restarted settles at once while the
  neighbour is away: like everything that had settled before, it is served again when the neighbour
  is back.
- What waits for a neighbour's answer to an advertisement may be excused from that, if the neighbour
  is away and everything of the advertisement is kept for it (`away`).
- A link that is given up answers nothing and is waited for no longer.

Source: diffusing computations (Dijkstra and Scholten, 1980), with one tree per message. Cost: one
answer per control message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec

from reefcast.model.messages import (
    Advertise,
    ControlMessage,
    EntityId,
    LinkName,
    PeerMessage,
    Refused,
    Send,
    Settled,
    Subscribe,
    TableChange,
    Unadvertise,
    Unsubscribe,
)


class PendingWork:
    """The handling of an input: who waits for its answer, and how many answers it waits for itself.

    `answers`: link, the link's life (see `Settlement.owe`) and token of each that waits; `key`: see
    `Settlement.follow`; `came_by`: the link of the input."""

    __slots__ = ("answers", "came_by", "key", "outstanding", "parents", "reason", "then")

    def __init__(self, came_by: LinkName = "") -> None:
        self.came_by = came_by
        self.key: tuple[LinkName, EntityId] | None = None
        self.answers: list[tuple[LinkName, int, int]] = []
        self.parents: list[PendingWork] = []
        self.then: list[Callable[[], None]] = []
        self.outstanding = 0
        self.reason = ""


CameBy = Callable[[EntityId], LinkName | None]
"""See `SettlesTogether.came_by`."""

StandIns = Callable[[EntityId], list[tuple[LinkName, EntityId]]]
"""See `SettlesTogether.stand_ins`."""


class Sent(NamedTuple):
    """A message that is not answered yet, and the work that waits for the answer."""

    message: ControlMessage
    pending: dict[PendingWork, None]


def _settles(message: ControlMessage) -> bool:
    """Return whether the sender waits for an answer."""
    return not isinstance(message, PeerMessage) or message.settles


def _told_by(message: ControlMessage) -> tuple[EntityId, ...]:
    return message.tells if isinstance(message, PeerMessage) else ()


def _said_by(message: ControlMessage) -> tuple[EntityId, ...]:
    """Return the advertisements and subscriptions that a message brings."""
    if isinstance(message, Advertise | Subscribe):
        return (message.id,)
    return message.says if isinstance(message, PeerMessage) else ()


def brought_by(message: TableChange | PeerMessage | None) -> EntityId | None:
    """Return the advertisement or subscription that a message brings, if any."""
    if isinstance(message, Advertise | Subscribe):
        return message.id
    return message.brings if isinstance(message, PeerMessage) else None


def kept_by(message: ControlMessage | None) -> EntityId | None:
    """Return the advertisement or subscription that a message is about, unless it withdraws it."""
    if isinstance(message, Unadvertise | Unsubscribe):
        return None
    id: EntityId | None = getattr(message, "id", None)
    return id


class Settlement:
    """The pending work of one broker, and what was sent for it."""

    def __init__(self, came_by: CameBy) -> None:
        self._came_by = came_by
        self._last_tokens: dict[LinkName, int] = {}
        self._waiting: dict[LinkName, dict[int, Sent]] = {}
        self._lives: dict[LinkName, int] = {}
        self._held: list[PendingWork] = []
        self._held_by_id: dict[EntityId, list[PendingWork]] = {}
        self.held_advertisements: list[tuple[EntityId, PendingWork]] = []
        """What stays open until `let_go` although it is of an advertisement; see `away`."""
        self._under_way: dict[tuple[LinkName, EntityId], PendingWork] = {}
        self._told: dict[EntityId, tuple[LinkName, int]] = {}
        self._said: dict[tuple[LinkName, EntityId], int] = {}

    def owe(self, work: PendingWork, link: LinkName, token: int) -> None:
        """Owe `link` the answer to `token` when `work` is complete, if the other end has not lost
        its memory by then."""
        work.answers.append((link, self._lives.get(link, 0), token))

    def follow(self, work: PendingWork, link: LinkName, id: EntityId) -> None:
        """Let `work`, of what came with `id` by `link`, wait for earlier work of the same that is
        not complete yet."""
        work.key = (link, id)
        earlier = self._under_way.get(work.key)
        if earlier is not None:
            earlier.parents.append(work)
            work.outstanding += 1
        self._under_way[work.key] = work

    @property
    def unanswered(self) -> Collection[EntityId]:
        """The advertisements whose brokers are being told of a subscription."""
        return self._told.keys()

    def join_told(self, work: PendingWork, advertisements: Iterable[EntityId]) -> None:
        """Let `work` wait for the messages that tell of these advertisements, too; they are some of
        `unanswered`."""
        self._join(work, [self._told[id] for id in advertisements])

    def join_said(self, work: PendingWork, said: Iterable[tuple[LinkName, EntityId]]) -> None:
        """Let `work` wait for the messages that tell these neighbours of these subscriptions, if
        they are still under way."""
        self._join(work, [(key[0], self._said[key]) for key in said if key in self._said])

    def join_all_said(self, work: PendingWork, id: EntityId) -> None:
        """Let `work`, of what came with `id`, wait for all messages under way that bring it to
        other neighbours than the one that it came from."""
        self.join_said(work, [(link, id) for link in self._waiting if link != work.came_by])

    def _join(self, work: PendingWork, messages: Iterable[tuple[LinkName, int]]) -> None:
        for link, token in dict.fromkeys(messages):
            sent = self._waiting[link][token]
            if work not in sent.pending:
                sent.pending[work] = None
                work.outstanding += 1

    def waits_for(self) -> dict[LinkName, int]:
        """Return how many messages each link has not answered."""
        return {link: len(sent) for link, sent in self._waiting.items() if sent}

    def join_first_told(self, work: PendingWork, link: LinkName, id: EntityId) -> None:
        """Let `work` wait for the oldest message under way that tells `link` of an
        advertisement."""
        for token, sent in self._waiting.get(link, {}).items():
            if isinstance(sent.message, Advertise) and sent.message.id == id:
                self._join(work, [(link, token)])
                return

    def unanswered_advertisements(self, link: LinkName) -> list[EntityId]:
        """Return the advertisements that are being told to `link`, the oldest first."""
        messages = (sent.message for sent in self._waiting.get(link, {}).values())
        return [message.id for message in messages if isinstance(message, Advertise)]

    def excuse(self, link: LinkName, id: EntityId) -> list[PendingWork]:
        """Let the work of an advertisement wait no longer for this neighbour's answer to it. Return
        that work; each piece has to be released once."""
        excused: list[PendingWork] = []
        for sent in self._waiting.get(link, {}).values():
            if isinstance(sent.message, Advertise) and sent.message.id == id:
                its = [work for work in sent.pending if work.key is not None and work.key[1] == id]
                for work in its:
                    del sent.pending[work]
                excused += its
        return excused

    def hold(self, work: PendingWork, id: EntityId | None, *, advertises: bool = False) -> None:
        """Keep `work`, of what came with `id`, open until `let_go`: the broker is relearning."""
        work.outstanding += 1
        if advertises and id is not None:
            self.held_advertisements.append((id, work))
        self._held.append(work)
        if id is not None:
            self._held_by_id.setdefault(id, []).append(work)

    @property
    def held(self) -> Iterable[tuple[EntityId, PendingWork]]:
        """The pending work of advertisements and subscriptions that stay open until `let_go`."""
        return [(id, work) for id, pending in self._held_by_id.items() for work in pending]

    def let_go(self) -> list[Send]:
        """Release what was held, now that the broker has relearned everything; return the answers
        that this completes."""
        held, self._held = self._held, []
        self._held_by_id, self.held_advertisements = {}, []
        return [send for work in held for send in self.release(work)]

    def let_go_advertisements(self) -> list[Send]:
        """Release only what was held of advertisements; return the answers that this completes."""
        held, self.held_advertisements = self.held_advertisements, []
        for id, work in held:
            self._held.remove(work)
            self._held_by_id[id].remove(work)
        return [send for _, work in held for send in self.release(work)]

    def attach(self, work: PendingWork, message: ControlMessage, link: LinkName) -> ControlMessage:
        """Return `message` with a token, so that `work` waits for its answer; answers carry
        none."""
        if not isinstance(message, TableChange | PeerMessage) or not _settles(message):
            return message
        token = self._last_tokens[link] = self._last_tokens.get(link, 0) + 1
        id = kept_by(message)
        pending = dict.fromkeys((work, *self._held_for(id)))
        for waiting in pending:
            waiting.outstanding += 1
        self._waiting.setdefault(link, {})[token] = Sent(message, pending)
        for told in _told_by(message):
            self._told[told] = (link, token)
        for said in _said_by(message):
            self._said[link, said] = token
        return msgspec.structs.replace(message, token=token)

    def _held_for(self, id: EntityId | None) -> list[PendingWork]:
        """Return the work that waits for everything that is sent for `id` while the broker
        relearns."""
        held = self._held_by_id.get(id, []) if id is not None else []
        link = self._came_by(id) if id is not None and held else None
        return [work for work in held if link is None or work.came_by == link]

    def answered(self, link: LinkName, token: int, reason: str = "") -> list[Send]:
        """Handle a neighbour's answer to a token; return the answers that this completes.

        An unknown token is no error: the link was reset in between.
        """
        pending = self._done(link, token)
        return [send for work in pending for send in self.release(work, reason)]

    def _done(self, link: LinkName, token: int) -> dict[PendingWork, None]:
        """Note that the message is no longer under way; return the work that waited for it."""
        sent = self._waiting.get(link, {}).pop(token, None)
        if sent is None:
            return {}
        for told in _told_by(sent.message):
            if self._told.get(told) == (link, token):
                del self._told[told]
        for said in _said_by(sent.message):
            if self._said.get((link, said)) == token:
                del self._said[link, said]
        return sent.pending

    def release(self, work: PendingWork, reason: str = "") -> list[Send]:
        """Count down what `work` waits for; return the answers that this completes."""
        work.outstanding -= 1
        work.reason = work.reason or reason
        return self.close(work)

    def close(self, work: PendingWork) -> list[Send]:
        """Answer everybody who waits for `work`, if it is complete."""
        if work.outstanding > 0:
            return []
        if work.key is not None and self._under_way.get(work.key) is work:
            del self._under_way[work.key]
        sends = [
            Send(link, self._answer(token, work))
            for link, life, token in work.answers
            if life == self._lives.get(link, 0)
        ]
        for call in work.then:
            call()
        for parent in work.parents:
            sends += self.release(parent, work.reason)
        work.answers, work.then, work.parents = [], [], []
        return sends

    @staticmethod
    def _answer(token: int, work: PendingWork) -> Settled | Refused:
        return Refused(token, work.reason) if work.reason else Settled(token)

    def begin_life(self, link: LinkName) -> list[Sent]:
        """Return the work that waits for answers of a neighbour that lost its memory, and will give
        none; see `resume`."""
        self._end_life(link)
        return [
            Sent(sent.message, self._done(link, token))
            for token, sent in list(self._waiting.get(link, {}).items())
        ]

    def resume(self, link: LinkName, before: Iterable[Sent], stand_ins: StandIns) -> list[Send]:
        """Continue after the neighbour has been told everything again: work that waited for a
        message of its former life waits for the message that brings the same now, or a stand-in for
        it. Return the answers that are complete because there is none."""
        answers: list[Send] = []
        for sent in before:
            said = [(link, id) for id in _said_by(sent.message)]
            said += [pair for _, id in said for pair in stand_ins(id) if pair[0] == link]
            for work in sent.pending:
                self.join_said(work, said)
                answers += self.release(work)
        return answers

    def forget(self, link: LinkName, kept: Collection[int] = ()) -> list[Send]:
        """Forget a link that was given up, or ended; return the answers that this completes.
        `kept`: tokens of messages that were not sent yet, and will be."""
        self._end_life(link)
        tokens = [token for token in self._waiting.get(link, ()) if token not in kept]
        given_up = [self._done(link, token) for token in tokens]
        return [send for pending in given_up for work in pending for send in self.release(work)]

    def _end_life(self, link: LinkName) -> None:
        self._lives[link] = self._lives.get(link, 0) + 1
