"""Reading each topic from its own time on: what is asked of the history, and what tasks read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reefcast.pipeline.connector.ids import Ids, joined
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.reading import Past, Slice
from reefcast.pipeline.connector.topic_times import TopicTime, TopicTimes


def times_since(starts: Iterable[tuple[str, int]]) -> TopicTimes:
    """Return the times of topics that begin so, and do not end."""
    return TopicTimes(tuple(TopicTime(topic, since_us) for topic, since_us in starts))


def carried(start: Offset, end: Offset) -> Offset:
    """Return the end of a batch, with when its topics began while that still matters."""
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


def narrowed(slices: Iterable[Slice], times: TopicTimes, filter: str) -> Iterator[Slice]:
    """Yield slices that read each topic in its time only. What a slice expects was found so, and is
    read as it is."""
    for part in slices:
        if not times.times or part.expected is not None:
            yield part
            continue
        for span in part.spans:
            for since_us, until_us, wanted in times.parts(*span, filter):
                narrow = Slice(((since_us, until_us),))
                narrow.filter = "" if wanted == filter else wanted
                yield narrow
