"""Termination detection: when is all done that a control message caused?

Rules
-----
- Handling one input is one *cause*. Every control message that it sends carries a token that is
  fresh for this broker; the cause is complete when all of these were answered by `Settled` or
  `Refused`. Then, and only then, the input itself is answered on the link that it came by.
- So answers travel back along the tree of messages that the first one spawned, and the client's
  token is answered when nothing that it caused is under way any more, whatever the routing.
- A refusal somewhere below is passed up instead of `Settled`.
- A neighbour that restarted will never answer what was sent to it before. What waited for it waits
  for the *resynchronisation* with it instead: that tells the neighbour the same again. Neither is
  it answered what it asked before: its new tokens start at 1 like the old ones, and an answer to an
  old one would pass for that to a new one.
- A broker that is itself relearning its state after a start keeps every cause open until it has
  heard from all neighbours: before that it cannot know where things belong. What it sends for
  an advertisement or subscription in that time, that one's cause waits for too, whatever input
  made it be sent. (One cause for all of it would not do: two neighbours that both relearn would
  wait for each other.)
- What comes again by the same link while it is under way already, because a broker behind that link
  restarted, is answered only when the first time is done, too.
- A subscription that needs nothing said, because another one had it said (OctopiA's CIV_SET), is
  settled only when that has been answered.
- A link that is given up answers nothing and is waited for no longer.

Source: diffusing computations (Dijkstra and Scholten, 1980), with one tree per message.
Cost: one answer per control message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from reefcast.model.messages import (
    ControlMessage,
    EntityId,
    LinkName,
    PeerMessage,
    Refused,
    Send,
    Settled,
    TableChange,
)


class Cause:
    """An input under way: who waits for it, and for how many answers it waits itself.

    `answers`: link, the link's life (see `Settlement.owe`) and token of each that waits; `key`: see
    `Settlement.follow`.
    """

    __slots__ = ("answers", "key", "outstanding", "parents", "reason", "then")

    def __init__(self) -> None:
        self.key: tuple[LinkName, EntityId] | None = None
        self.answers: list[tuple[LinkName, int, int]] = []
        self.parents: list[Cause] = []
        self.then: list[Callable[[], None]] = []
        self.outstanding = 0
        self.reason = ""


class Settlement:
    """The causes under way at one broker, and what was sent for them."""

    def __init__(self) -> None:
        self._last_token = 0
        self._waiting: dict[LinkName, dict[int, tuple[Cause, ...]]] = {}
        self._lives: dict[LinkName, int] = {}
        self._held: list[Cause] = []
        self._held_by_id: dict[EntityId, Cause] = {}
        self._under_way: dict[tuple[LinkName, EntityId], Cause] = {}
        self._told_by: dict[EntityId, tuple[LinkName, int]] = {}

    def owe(self, cause: Cause, link: LinkName, token: int) -> None:
        """`token` is to be answered on `link` when `cause` is complete, if its other end has not
        lost its memory until then."""
        cause.answers.append((link, self._lives.get(link, 0), token))

    def follow(self, cause: Cause, link: LinkName, id: EntityId) -> None:
        """`cause` is of what came with `id` by `link`; it waits for what came so before and is not
        complete yet."""
        cause.key = (link, id)
        earlier = self._under_way.get(cause.key)
        if earlier is not None:
            earlier.parents.append(cause)
            cause.outstanding += 1
        self._under_way[cause.key] = cause

    def unanswered(self) -> list[EntityId]:
        """The advertisements whose brokers are being told of one (`PeerMessage.tells`)."""
        self._told_by = {
            id: (link, token)
            for id, (link, token) in self._told_by.items()
            if token in self._waiting.get(link, ())
        }
        return list(self._told_by)

    def join(self, cause: Cause, advertisements: Iterable[EntityId]) -> None:
        """`cause` waits for what tells of these, too; they are some of `unanswered`."""
        for link, token in dict.fromkeys(self._told_by[id] for id in advertisements):
            self._waiting[link][token] += (cause,)
            cause.outstanding += 1

    def hold(self, cause: Cause, id: EntityId | None) -> None:
        """The broker is relearning: `cause`, of what came with `id`, stays open until `let_go`."""
        cause.outstanding += 1
        self._held.append(cause)
        if id is not None:
            self._held_by_id[id] = cause

    def let_go(self) -> list[Send]:
        """The broker has relearned all; returns the answers that this completes."""
        held, self._held = self._held, []
        self._held_by_id = {}
        return [send for cause in held for send in self.release(cause)]

    def attach(self, cause: Cause, message: ControlMessage, link: LinkName) -> ControlMessage:
        """`message` with a token, so that `cause` waits for its answer; answers carry none."""
        if not isinstance(message, TableChange | PeerMessage):
            return message
        self._last_token += 1
        id: EntityId | None = getattr(message, "id", None)  # some are about several
        owner = cause if id is None else self._held_by_id.get(id, cause)
        causes = (cause,) if owner is cause else (cause, owner)
        self._waiting.setdefault(link, {})[self._last_token] = causes
        for waiting in causes:
            waiting.outstanding += 1
        if isinstance(message, PeerMessage):
            self._told_by.update(dict.fromkeys(message.tells, (link, self._last_token)))
        return msgspec.structs.replace(message, token=self._last_token)

    def answered(self, link: LinkName, token: int, reason: str = "") -> list[Send]:
        """The neighbour answered a token; returns the answers that this completes.

        An unknown token is no error: the link was reset in between.
        """
        causes = self._waiting.get(link, {}).pop(token, ())
        return [send for cause in causes for send in self.release(cause, reason)]

    def release(self, cause: Cause, reason: str = "") -> list[Send]:
        """One thing less to wait for; returns the answers that this completes."""
        cause.outstanding -= 1
        cause.reason = cause.reason or reason
        return self.close(cause)

    def close(self, cause: Cause) -> list[Send]:
        """If `cause` is complete: answer everybody who waits for it."""
        if cause.outstanding > 0:
            return []
        if cause.key is not None and self._under_way.get(cause.key) is cause:
            del self._under_way[cause.key]
        sends = [
            Send(link, self._answer(token, cause))
            for link, life, token in cause.answers
            if life == self._lives.get(link, 0)
        ]
        for call in cause.then:
            call()
        for parent in cause.parents:
            sends += self.release(parent, cause.reason)
        cause.answers, cause.then, cause.parents = [], [], []
        return sends

    @staticmethod
    def _answer(token: int, cause: Cause) -> Settled | Refused:
        return Refused(token, cause.reason) if cause.reason else Settled(token)

    def transfer(self, link: LinkName, to: Cause) -> None:
        """All that waits for `link` waits for the new cause `to` instead (the neighbour restarted:
        it will be told everything again on behalf of `to`)."""
        self._end_life(link)
        for causes in self._waiting.pop(link, {}).values():
            to.parents += causes

    def forget(self, link: LinkName) -> list[Send]:
        """The link was given up; returns the answers that this completes."""
        self._end_life(link)
        given_up = self._waiting.pop(link, {}).values()
        return [send for causes in given_up for cause in causes for send in self.release(cause)]

    def _end_life(self, link: LinkName) -> None:
        self._lives[link] = self._lives.get(link, 0) + 1
