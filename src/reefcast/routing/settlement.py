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
  for the *resynchronisation* with it instead: that tells the neighbour the same again.
- A broker that is itself relearning its state after a start runs all of it as one cause, which
  stays open until it has heard from all neighbours: before that it cannot know where things belong.
- A link that is given up answers nothing and is waited for no longer.

Source: diffusing computations (Dijkstra and Scholten, 1980), with one tree per message.
Cost: one answer per control message.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reefcast.model.messages import (
    Advertise,
    ControlMessage,
    LinkName,
    Refused,
    Send,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

TableChange = Advertise | Unadvertise | Subscribe | Unsubscribe


class Cause:
    """An input under way: who waits for it, and for how many answers it waits itself."""

    __slots__ = ("answers", "outstanding", "parents", "reason", "then")

    def __init__(self) -> None:
        self.answers: list[tuple[LinkName, int]] = []
        self.parents: list[Cause] = []
        self.then: list[Callable[[], None]] = []
        self.outstanding = 0
        self.reason = ""


class Settlement:
    """The causes under way at one broker, and what was sent for them."""

    def __init__(self) -> None:
        self._last_token = 0
        self._waiting: dict[LinkName, dict[int, Cause]] = {}

    def attach(self, cause: Cause, message: ControlMessage, link: LinkName) -> ControlMessage:
        """`message` with a token, so that `cause` waits for its answer; answers carry none."""
        if not isinstance(message, TableChange):
            return message
        self._last_token += 1
        self._waiting.setdefault(link, {})[self._last_token] = cause
        cause.outstanding += 1
        return msgspec.structs.replace(message, token=self._last_token)

    def answered(self, link: LinkName, token: int, reason: str = "") -> list[Send]:
        """The neighbour answered a token; returns the answers that this completes.

        An unknown token is no error: the link was reset in between.
        """
        cause = self._waiting.get(link, {}).pop(token, None)
        return [] if cause is None else self.release(cause, reason)

    def release(self, cause: Cause, reason: str = "") -> list[Send]:
        """One thing less to wait for; returns the answers that this completes."""
        cause.outstanding -= 1
        cause.reason = cause.reason or reason
        return self.close(cause)

    def close(self, cause: Cause) -> list[Send]:
        """If `cause` is complete: answer everybody who waits for it."""
        if cause.outstanding > 0:
            return []
        sends = [Send(link, self._answer(token, cause)) for link, token in cause.answers]
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
        """All that waits for `link` waits for the cause `to` instead (the neighbour restarted)."""
        for cause in self._waiting.pop(link, {}).values():
            if cause is to:
                to.outstanding -= 1
            else:
                to.parents.append(cause)

    def forget(self, link: LinkName) -> list[Send]:
        """The link was given up; returns the answers that this completes."""
        sends: list[Send] = []
        for cause in self._waiting.pop(link, {}).values():
            sends += self.release(cause)
        return sends
