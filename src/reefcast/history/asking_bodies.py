"""A question about the past whose answers stay encoded: portions of bodies, for programs that read
many at once.

Rules
-----
- While one storage answers, its portions are handed out as they come.
- The answers of several storages are merged: what is not behind the last event of any answer is
  complete, and an event that several have comes once. Events of the same time come in any order.
- There is no handover: new events have no place in the order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast.history.asking import Answer, Asking, Numbers, Question, position_of
from reefcast.history.messages import Items, Position
from reefcast.matching.columnar.tables import Bodies, Table, Wanted, known
from reefcast.model.messages import ServiceMessage
from reefcast.model.wire import decode_publication

Portion = Sequence[bytes]
_IDS = Wanted(times=True, seqs=True, publishers=True)


class BodyAsking(Asking[Any]):
    """Follows one question, as `Asking` does. What its answers have are portions; `drain` returns
    bodies."""

    def __init__(self, question: Question, numbers: Numbers) -> None:
        if question.handover_s:
            raise ConfigurationError("a question with a handover is read event by event")
        super().__init__(question, numbers, decode_publication)

    def _came(self, answer: Answer[Any], items: Items) -> list[ServiceMessage]:
        if items.before != answer.came:
            return self._lost(answer)
        self._failures = 0
        self.answered[items.path[-1]] = items.path
        answer.path = items.path
        answer.came += len(items.bodies)
        if items.bodies:
            answer.after = _position(items.bodies[-1])
            answer.events.append(items.bodies)
        return []

    def drain(self) -> tuple[list[Any], list[ServiceMessage]]:
        """Return the bodies that can be delivered now, and the messages that follow from that."""
        found: list[bytes] = []
        while not self._finding and not self.over:
            answers = list(self._answers.values())
            some = [answer for answer in answers if answer.events]
            if not some or any(answer.waits for answer in answers):
                break
            alone = len(some) == 1 and all(each is some[0] or each.over for each in answers)
            found += self._limited(_next_of(some[0]) if alone else _merged(some))
            self._last = _position(found[-1])
        return found, self._credits()

    def _limited(self, portion: Portion) -> Portion:
        if self.question.limit:
            portion = portion[: self.question.limit - self.given]
        self.given += len(portion)
        return portion


def _position(body: bytes) -> Position:
    return position_of(decode_publication(body))


def _next_of(answer: Answer[Any]) -> Portion:
    portion: Portion = answer.events.popleft()
    answer.taken += len(portion)
    return portion


def _merged(some: Sequence[Answer[Any]]) -> Portion:
    """Take what is complete of all answers: at least all that has come of one."""
    bound = min((each.after for each in some if not each.over and each.after), default=None)
    taken: list[bytes] = []
    for answer in some:
        bodies = list(chain.from_iterable(answer.events))
        count = len(bodies) if bound is None else bisect_right(bodies, bound, key=_position)
        taken += bodies[:count]
        answer.taken += count
        answer.events.clear()
        if count < len(bodies):
            answer.events.append(bodies[count:])
    return _in_order(taken)


def _in_order(bodies: Sequence[bytes]) -> Portion:
    """Return the bodies by their positions, each event once."""
    table = Table(_IDS, Bodies.of(bodies))
    times, seqs, texts = known(table.times), known(table.seqs), known(table.publishers)
    whole, ends = texts.data.tobytes(), texts.ends.tolist()
    names = [whole[start:end] for start, end in pairwise(ends)]
    ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
    publishers = np.fromiter(map(ranks.__getitem__, names), np.int64, len(names))
    order = np.lexsort((seqs, publishers, times))
    keys = np.stack((times, publishers, seqs))[:, order]
    new = np.ones(len(order), bool)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return [bodies[i] for i in order[new].tolist()]
