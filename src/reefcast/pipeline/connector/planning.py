"""The contents of a streaming query's batches. No clock, no connection: both come in.

Theory of operation
-------------------
A batch has the events with times from the end of the one before it to its own end, which is
`settle` before now: by then most have come to the storages. A batch that is planned again after a
restart must be the same, and later events must be in a later batch. So a batch is an exact set of
events:

- The planner asks for the events themselves (of those that may still get company: with times less
  than `late` ago), remembers their hashes, and tells each task which ones it has to read.
- The offset holds, beside the time, a sketch of these hashes for each `bucket` of time. After a
  restart the set is found again: what there is now, without what came since.
- When a bucket is older than `late`, the planner asks for it once more. What is there now and was
  not seen is in the next batch (`Offset.late`). So each event is asked for twice, here and there.

Events older than `late` when they are first planned are not asked for here: tasks read those that
there are, divided as the offset says (`cutting`). Events that come later than `late` after their
time are missed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from reefcast.pipeline.connector.cutting import (
    Counted,
    Cuts,
    Span,
    cuts_by_ids,
    cuts_of,
    equal_times,
    tasks_for,
)
from reefcast.pipeline.connector.ids import Hashes, Ids, joined, no_ids
from reefcast.pipeline.connector.offsets import Late, Offset, Seen, late_hashes, late_of
from reefcast.pipeline.connector.reading import Slice, data_loss
from reefcast.pipeline.connector.sketches import Sketch
from reefcast.words import counted, noun

BUCKETS = 4
"""Buckets in the time of `late`."""
MOST_LATE = 1000
"""Late events in one batch; more than that wait for the next one."""
LATE_SPANS = 16
"""Stretches of time that are asked for to read the late events of a batch."""


class Rules(NamedTuple):
    """See the module. Microseconds. `partitions`: tasks; `fail`: whether lost data is an error."""

    settle_us: int
    late_us: int
    partitions: int
    fail: bool

    @property
    def bucket_us(self) -> int:
        return max(self.late_us // BUCKETS, 1)

    def bucket_of(self, time_us: int) -> int:
        """Return where the bucket of a time begins."""
        return time_us // self.bucket_us * self.bucket_us


class Looked(NamedTuple):
    """What is still to be looked at again, what was found late, and what is known of the former.
    By spans: the hashes of what was read of them."""

    seen: tuple[Seen, ...]
    late: tuple[Late, ...]
    hashes: dict[Span, Hashes]


class Planner:
    """Plans the batches of one query, while its driver lives. `clock` returns microseconds."""

    def __init__(self, history: Counted, rules: Rules, clock: Callable[[], int]) -> None:
        self._history = history
        self._rules = rules
        self._clock = clock
        self._batch: tuple[int, Ids] = (0, no_ids())
        self._hashes: dict[Span, Hashes] = {}
        self._settled: set[Span] = set()
        self._empty_until_us = 0

    # --- how far the next batch goes --------------------------------------------------------------

    def latest(self, start: Offset, most: int | None = None, end_us: int | None = None) -> Offset:
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing to
        read. `most` rows, as far as events have different times; `end_us`: no later than this."""
        now_us = self._clock()
        looked = self._look_again(start, now_us)
        until_us = now_us - self._rules.settle_us
        until_us = max(start.until_us, until_us if end_us is None else min(until_us, end_us))
        recent_us = max(start.until_us, now_us - self._rules.late_us)
        old_us = min(recent_us, until_us)
        old = self._old(start.until_us, old_us, most)
        if most is not None and len(old.times) > most:
            cut_us = _cut(old, most)
            some = old.between(start.until_us, cut_us)
            cuts_before = cuts_by_ids(some, self._rules.partitions)
            return self._planned(cut_us, no_ids(), looked, looked.seen, cuts_before)
        left = None if most is None else most - len(old.times)
        until_us, ids = self._recent(old_us, until_us, left, must_go_on=not len(old.times))
        if not (len(ids.times) or len(old.times) or looked.late):
            return start
        cuts = self._cuts(start.until_us, old_us, old, all_known=most is not None)
        seen = self._with(looked, ids, old_us, until_us)
        return self._planned(until_us, ids, looked, seen, cuts)

    def _cuts(self, since_us: int, until_us: int, old: Ids, *, all_known: bool) -> Cuts | None:
        """Return how old events are divided; None if there are none."""
        if not len(old.times):
            return None
        if all_known:
            return cuts_by_ids(old, self._rules.partitions)
        return cuts_of(self._history, since_us, until_us, self._rules.partitions)

    def _planned(
        self,
        until_us: int,
        ids: Ids,
        looked: Looked,
        seen: tuple[Seen, ...],
        cuts: Cuts | None,
    ) -> Offset:
        """Remember the batch: from here on nothing fails."""
        self._batch = (until_us, ids)
        spans = {(each.since_us, each.until_us) for each in seen}
        self._hashes = {
            span: hashes
            for span, hashes in {**self._hashes, **looked.hashes}.items()
            if span in spans
        }
        return Offset(until_us, seen, looked.late, cuts=cuts)

    def _old(self, since_us: int, until_us: int, most: int | None) -> Ids:
        """Return the ids of old events: one more than `most`, or any at all, shows that there are
        more."""
        if until_us <= max(since_us, self._empty_until_us):
            return no_ids()
        ids = self._history.ids(since_us, until_us, 1 if most is None else most + 1)
        if not len(ids.times):
            self._empty_until_us = until_us
        return ids

    def _recent(
        self, since_us: int, until_us: int, most: int | None, *, must_go_on: bool
    ) -> tuple[int, Ids]:
        """Return the time up to which it read, and the ids that it found."""
        if most is None:
            return until_us, self._history.ids(since_us, until_us)
        ids = self._history.ids(since_us, until_us, most + 1)
        if len(ids.times) <= most:
            return until_us, ids
        until_us = int(ids.times[most])
        if must_go_on and until_us == ids.times[0]:  # as many as there are of this time
            return until_us + 1, self._history.ids(since_us, until_us + 1)
        return until_us, ids.between(since_us, until_us)

    def _with(self, looked: Looked, ids: Ids, since_us: int, until_us: int) -> tuple[Seen, ...]:
        """Return what was seen, with what is read now: the last bucket goes on, or new ones
        begin."""
        found = list(looked.seen)
        while since_us < until_us:
            bucket = self._rules.bucket_of(since_us)
            end_us = min(until_us, bucket + self._rules.bucket_us)
            some = ids.between(since_us, end_us)
            last = found[-1] if found else None
            if last is None or last.until_us != since_us or last.since_us < bucket:
                looked.hashes[since_us, end_us] = some.hashes
                found.append(Seen(since_us, end_us, Sketch(some)))
            else:
                more = Sketch(some, last.sketch.third)
                found[-1] = Seen(last.since_us, end_us, last.sketch.plus(more))
                before = self._known(looked, (last.since_us, last.until_us))
                if before is not None:
                    hashes = np.concatenate((before, some.hashes))
                    looked.hashes[last.since_us, end_us] = hashes
            since_us = end_us
        return tuple(found)

    def _known(self, looked: Looked, span: Span) -> Hashes | None:
        return looked.hashes.get(span, self._hashes.get(span))

    # --- what came late ---------------------------------------------------------------------------

    def _look_again(self, start: Offset, now_us: int) -> Looked:
        """Look once more, for late events, into each bucket to which nothing more can come."""
        kept: list[Seen] = []
        found: list[Late] = []
        hashes: dict[Span, Hashes] = {}
        self._settled &= {(seen.since_us, seen.until_us) for seen in start.seen}
        for seen in start.seen:
            room = MOST_LATE - len(found)
            if seen.until_us + self._rules.late_us >= now_us or room <= 0:
                kept.append(seen)
                continue
            late = self._late_in(seen)
            some = late.first(room)
            found += late_of(some)
            if len(late.times) > room:
                span = (seen.since_us, seen.until_us)
                more = Sketch(some, seen.sketch.third)
                kept.append(seen._replace(sketch=seen.sketch.plus(more)))
                if span in self._hashes:
                    hashes[span] = np.concatenate((self._hashes[span], some.hashes))
        return Looked(tuple(kept), tuple(found), hashes)

    def _late_in(self, seen: Seen) -> Ids:
        span = (seen.since_us, seen.until_us)
        if span in self._settled:
            return no_ids()
        ids = self._history.ids(*span)
        known = self._hashes.get(span)
        late = self._unlike(ids, seen) if known is None else ids.without(known)
        if not len(late.times):
            self._settled.add(span)
        return late

    def _unlike(self, ids: Ids, seen: Seen) -> Ids:
        difference = seen.sketch.missed(ids)
        if difference is not None:
            return ids.within(difference.more)
        self._too_many(seen.since_us, seen.until_us)
        return no_ids()

    def _too_many(self, since_us: int, until_us: int) -> None:
        data_loss(
            f"while the query was down, more events came late than can be told from the others "
            f"({_time_of(since_us, until_us)})",
            fail=self._rules.fail,
        )

    # --- what the tasks read ----------------------------------------------------------------------

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """Return the slices of the batch between two offsets, the same whenever it is asked for."""
        known_us = min(
            (max(s.since_us, start.until_us) for s in end.seen if s.until_us > start.until_us),
            default=end.until_us,
        )
        cuts = end.cuts
        if cuts is None:  # without old events, or by an older version
            most = self._rules.partitions if end.until_us == known_us else 1
            cuts = equal_times(start.until_us, known_us, most)
        found = list(map(Slice, cuts.pieces(start.until_us, known_us)))
        planned_us, ids = self._batch
        if planned_us != end.until_us:
            ids = self._found_again(start, end, known_us)
            self._batch = (end.until_us, ids)
        return found + self._cut_by_count(ids, end.until_us) + _of_late(end.late)

    def _cut_by_count(self, ids: Ids, until_us: int) -> list[Slice]:
        rows = len(ids.times)
        count = tasks_for(rows, self._rules.partitions) if rows else 0
        cuts = sorted({int(ids.times[rows * k // count]) for k in range(count)})
        spans = pairwise([*cuts, until_us])
        return [Slice((span,), ids.between(*span).hashes) for span in spans]

    def _found_again(self, start: Offset, end: Offset, known_us: int) -> Ids:
        """Find the ids of a batch that was planned before this driver began."""
        ids = self._history.ids(known_us, end.until_us)
        before = {seen.since_us: seen for seen in start.seen}
        found: list[Ids] = []
        for seen in end.seen:
            if seen.until_us > known_us:
                last = before.get(seen.since_us)
                sketch = seen.sketch if last is None else seen.sketch.minus(last.sketch)
                since_us = seen.since_us if last is None else last.until_us
                found.append(self._planned_of(ids, sketch, (since_us, seen.until_us)))
        return joined(found)

    def _planned_of(self, ids: Ids, sketch: Sketch, span: Span) -> Ids:
        """Return those of a span that are in a sketch of what was planned."""
        ids = ids.between(*span)
        difference = sketch.missed(ids)
        if difference is None:
            data_loss(
                "so many events of a batch that must be read again came late or are not stored any "
                f"more that it cannot be told which were planned ({_time_of(*span)})",
                fail=self._rules.fail,
            )
            return ids
        if lost := len(difference.less):
            data_loss(
                f"{counted(lost, 'event')} of a batch that must be read again "
                f"{noun(lost, 'is', 'are')} not stored any more",
                fail=self._rules.fail,
            )
        return ids.without(difference.more)


def _time_of(since_us: int, until_us: int) -> str:
    return f"of the time from {since_us} to {until_us}, in microseconds since 1970"


def _cut(ids: Ids, most: int) -> int:
    """Return the end of a stretch that holds `most` of these events, or all that have the time of
    the first one. There are more."""
    return max(int(ids.times[most]), int(ids.times[0]) + 1)


def _of_late(late: tuple[Late, ...]) -> list[Slice]:
    """Return what reads late events: few spans, with other events between them."""
    if not late:
        return []
    times = sorted({each.time_us for each in late})
    gaps = sorted(range(1, len(times)), key=lambda k: times[k] - times[k - 1])
    firsts = [0, *sorted(gaps[-(LATE_SPANS - 1) :]), len(times)]
    spans = [(times[a], times[b - 1] + 1) for a, b in pairwise(firsts)]
    return [Slice(spans, late_hashes(late))]
