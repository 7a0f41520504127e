"""What happened to the sessions of a broker, gathered so that it can be told without a storm.

Rules
-----
- Happenings of one kind to one session are told at once if the last such telling is `interval_s`
  ago; else they wait until then, and are told together: how many, and the last of them. Of events,
  the first is named.
- None is left out, but for those that an advisory event brought about (`Advisory.quiet`): a session
  that is full of advisory events must not feed itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import msgspec

from reefcast.sessions.outcome import Advisory, Told

_Subject = tuple[Told, str, str, bool]
"""A kind, a session by owner and name, and whether it is about events: both sessions and events
expire."""


class Gathered:
    """`interval_s`: seconds between two tellings of one kind of one session, at least."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waiting: dict[_Subject, Advisory] = {}
        self._told_s: dict[_Subject, float] = {}

    def add(self, advisories: Iterable[Advisory]) -> None:
        """Take note of what happened."""
        for each in advisories:
            if each.quiet:
                continue
            subject = each.kind, each.owner, each.session, bool(each.ids)
            before = self._waiting.get(subject)
            if before is not None:
                count, ids = before.count + each.count, before.ids
                each = msgspec.structs.replace(each, count=count, ids=ids)  # noqa: PLW2901 (merged)
            self._waiting[subject] = each

    def due_s(self) -> float:
        """Return when something is to be told next (the clock of `take`); inf: nothing waits."""
        return min(map(self._from_s, self._waiting), default=inf)

    def take(self, now: float) -> list[Advisory]:
        """Return, once, what is to be told now, in the order in which it began to wait."""
        due = [subject for subject in self._waiting if self._from_s(subject) <= now]
        latest_s = now - self._interval_s
        self._told_s = {each: at_s for each, at_s in self._told_s.items() if at_s > latest_s}
        self._told_s |= dict.fromkeys(due, now)
        return [self._waiting.pop(subject) for subject in due]

    def _from_s(self, subject: _Subject) -> float:
        told_s = self._told_s.get(subject)
        return -inf if told_s is None else told_s + self._interval_s
