"""Reading each topic from its own time on: what is asked of the history, and what tasks read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reefcast.history.spread import Stretch
from reefcast.pipeline.connector.cutting import Read
from reefcast.pipeline.connector.ids import Ids, joined
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.reading import Past, Slice
from reefcast.pipeline.connector.topic_times import TopicTime, TopicTimes


def times_since(starts: Iterable[tuple[str, int]]) -> TopicTimes:
    """Return the times of topics that begin so, and do not end."""
    return TopicTimes(tuple(TopicTime(topic, since_us) for topic, since_us in starts))


def carried(start: Offset, end: Offset) -> Offset:
    """Return the end of a batch with the times when its topics began, as long as a later batch may
    ask for what lies before these."""
    matters = any(since_us > end.asks_from_us for _, since_us in start.starts)
    return end._replace(starts=start.starts if matters else ())


def ids_in(
    history: Past, times: TopicTimes, filter: str, span: tuple[int, int], limit: int = 0
) -> Ids:
    """Return the ids of the events that are read of a stretch of time; see `Past.ids`."""
    found: list[Ids] = []
    count = 0
    for part in times.parts(*span, filter):
        left = max(limit - count, 0)
        ids = history.about(part.filter).ids(part.since_us, part.until_us, left)
        found.append(ids)
        count += len(ids.times)
        if limit and count >= limit:
            break
    return joined(found)


class TopicHistory(NamedTuple):
    """A history of which each topic is read in its time only. `filter`: finds the events of all
    topics."""

    past: Past
    times: TopicTimes
    filter: str

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids:
        """Return the ids of the events; see `Past.ids`."""
        return ids_in(self.past, self.times, self.filter, (since_us, until_us), limit)

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None:
        """Return where the events lie; see `Past.stretches`. Where topics have times, an event on
        two of them is not always found by both, so that they cannot be read one by one."""
        found = self.past.stretches(since_us, until_us, most)
        if not self.times.times or found is None:
            return found
        here = (each for each in found if self.times.has(each.topic, each.time_us))
        return [each._replace(topic="") for each in here]


def narrowed(slices: Iterable[Slice], times: TopicTimes, filter: str) -> Iterator[Slice]:
    """Yield slices limited to the times of each topic; slices with expected events stay as they
    are."""
    for part in slices:
        if part.expected is not None:
            yield part
        elif not times.times:
            yield Slice(read for read in part.reads if read.is_possible(filter))
        else:
            for span in part.spans:
                for since_us, until_us, wanted in times.parts(*span, filter):
                    found = "" if wanted == filter else wanted
                    yield Slice([Read(since_us, until_us, filter=found)])
