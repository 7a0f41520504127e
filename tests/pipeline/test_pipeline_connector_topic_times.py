"""Options that say topic by topic where reading begins and ends, and what is asked for then."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.topics import topic_filter
from reefcast.pipeline.connector.cutting import Read
from reefcast.pipeline.connector.offsets import Offset, Seen
from reefcast.pipeline.connector.options import Least, read_options, stream_options
from reefcast.pipeline.connector.reading import Slice
from reefcast.pipeline.connector.sketches import Sketch
from reefcast.pipeline.connector.topic_reading import carried, narrowed
from reefcast.pipeline.connector.topic_times import TopicTime, TopicTimes
from reefcast.pipeline.connector.waiting import Waiting

GIVEN = {"url": "reefcast://127.0.0.1:7301", "subscribe": "fx, orders/#"}
TOPICS = ("a", "b", "c")
WHOLE = f"({topic_filter(TOPICS)}) AND (n > 0)"


def event(time_us: int, topics: frozenset[str], n: int) -> Publication:
    return Publication(
        publisher="p", seq=1, time_us=time_us, attributes={"n": n}, topics=tuple(sorted(topics))
    )


bounds = st.integers(0, 12)
spans = st.tuples(bounds, st.none() | bounds)


@given(
    st.fixed_dictionaries(dict.fromkeys(TOPICS, spans)),
    st.tuples(bounds, bounds),
    st.lists(st.tuples(bounds, st.frozensets(st.sampled_from(TOPICS), min_size=1), st.booleans())),
)
def test_an_event_is_in_one_part_if_one_of_its_topics_is_read_at_its_time(
    times: Mapping[str, tuple[int, int | None]],
    asked: tuple[int, int],
    events: list[tuple[int, frozenset[str], bool]],
) -> None:
    read = TopicTimes(tuple(TopicTime(topic, *span) for topic, span in times.items()))
    parts = read.parts(*asked, WHOLE)
    for time_us, topics, wanted in events:
        found = [
            part
            for part in parts
            if part.since_us <= time_us < part.until_us
            and parse_filter(part.filter).matches(event(time_us, topics, int(wanted)))
        ]
        begun = [
            topic
            for topic in topics
            if times[topic][0] <= time_us and (times[topic][1] is None or time_us < times[topic][1])
        ]
        assert len(found) == bool(begun and wanted and asked[0] <= time_us < asked[1])


def test_without_times_everything_is_one_part() -> None:
    assert TopicTimes().parts(3, 7, WHOLE) == [(3, 7, WHOLE)]
    assert TopicTimes().parts(7, 7, WHOLE) == []


def test_slices_read_a_topic_in_its_time_only_but_all_that_was_planned() -> None:
    import numpy as np

    times = TopicTimes((TopicTime("a", 0), TopicTime("b", 5)))
    planned = Slice(((2, 9),), np.array([1], np.uint64))
    some = list(narrowed([Slice(((2, 9),)), planned], times, WHOLE))
    assert [each.reads for each in some] == [
        (Read(2, 5, filter=f"({WHOLE}) AND (topic MATCHES 'a')"),),
        (Read(5, 9),),
        (Read(2, 9),),
    ]
    assert list(narrowed([planned], TopicTimes(), WHOLE)) == [planned]


def test_counts_of_topics_are_those_of_their_times() -> None:
    times = TopicTimes((TopicTime("a", 0), TopicTime("b/#", 5, 7)))
    found = [(topic, us) for topic in ("a", "b/c", "d", "") for us in (1, 6, 8)]
    assert [each for each in found if times.has(*each)] == [
        *(("a", us) for us in (1, 6, 8)),
        ("b/c", 6),
        *(("", us) for us in (1, 6, 8)),
    ]


def test_an_offset_keeps_when_its_topics_began_as_long_as_it_asks_for_earlier_times() -> None:
    start = Offset(10, starts=(("a", 10), ("b", 20)))
    assert Offset.of_json(start.to_json()) == start
    early = Offset(30, (Seen(15, 30, Sketch()),))
    assert carried(start, early).starts == start.starts
    assert carried(start, Offset(30, (Seen(20, 30, Sketch()),))).starts == ()
    assert "starts" not in Offset(30).to_json()


# --- options --------------------------------------------------------------------------------------


def test_where_a_stream_starts_by_topic() -> None:
    words = '{"fx": "Earliest", "orders/#": -1}'
    assert stream_options({**GIVEN, "startingOffsets": words}).start == {
        "fx": "earliest",
        "orders/#": "latest",
    }
    times = '{"fx": 5, "orders/#": "1970-01-01T00:00:01Z"}'
    given = stream_options({**GIVEN, "startingOffsetsByTimestamp": times})
    assert given.start == {"fx": 5000, "orders/#": 10**6}


def test_where_a_batch_starts_and_ends_by_topic() -> None:
    given = {
        "startingOffsetsByTimestamp": '{"fx": 1, "orders/#": 2}',
        "endingOffsets": '{"orders/#": "latest", "fx": -1}',
    }
    assert read_options({**GIVEN, **given}).topics.times == (
        ("fx", 1000, None),
        ("orders/#", 2000, None),
    )
    given = {"endingOffsetsByTimestamp": '{"fx": 1, "orders/#": 2}', "startingOffsets": "earliest"}
    assert read_options({**GIVEN, **given}).topics.times == (
        ("fx", 0, 1000),
        ("orders/#", 0, 2000),
    )
    assert read_options({**GIVEN, "endingOffsets": "latest"}).topics.times == ()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": '{"fx": "latest"}'}, "names fx, and the option subscribe fx, orders"),
        ({"startingOffsets": "{"}, "option startingOffsets: '{' is no JSON"),
        ({"startingOffsetsByTimestamp": "[1]"}, r"\[1\] is not an object with a member for each"),
        ({"startingOffsets": '{"fx": 3, "orders/#": -1}'}, "3 is neither earliest nor latest"),
        ({"startingOffsets": '{"fx": {"0": 3}, "orders/#": -1}'}, "names partitions, which topics"),
        ({"startingOffsetsByTimestamp": '{"fx": {"0": 3}, "orders/#": 1}'}, "names partitions"),
        ({"startingOffsetsByTimestamp": '{"fx": "noon", "orders/#": 1}'}, "'noon' is not a time"),
        (
            {"subscribe": "", "filter": "topic = 'fx'", "startingOffsets": '{"fx": -1}'},
            "so name them in the option subscribe",
        ),
        ({"since": "1", "startingOffsetsByTimestamp": "{}"}, "both say where to start"),
        ({"minOffsetsPerTrigger": "0"}, "'0' is not a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"\(9\) exceeds max.* \(8\)"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "'soon' is not a time such as"),
        ({"kafka.bootstrap.servers": "x"}, "in the place of this option of Kafka's: it is url"),
        ({"kafka.fetch.max.bytes": "1"}, "it is about Kafka's client"),
        ({"includeHeaders": "true"}, "name them in schema"),
    ],
)
def test_options_of_streams_that_are_wrong(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        stream_options({**GIVEN, **options})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "latest"}, "for a batch it is earliest"),
        ({"endingOffsets": "earliest"}, "for a batch it is latest"),
        ({"startingOffsets": '{"fx": -2, "orders/#": -1}'}, "nothing is read of 'orders/#'"),
        (
            {"endingOffsets": "latest", "until": "5"},
            "until and endingOffsets both say where to end",
        ),
    ],
)
def test_options_of_batches_that_are_wrong(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        read_options({**GIVEN, **options})


# --- waiting for enough ---------------------------------------------------------------------------


def test_options_of_waiting() -> None:
    given = {**GIVEN, "minOffsetsPerTrigger": "7"}
    assert stream_options(given).least == Least(7, 900.0)
    assert stream_options({**given, "maxTriggerDelay": "500ms"}).least == Least(7, 0.5)
    assert stream_options({**given, "maxTriggerDelay": "2h"}).least == Least(7, 7200.0)
    assert stream_options({**GIVEN, "maxTriggerDelay": "2h"}).least is None


def test_a_batch_waits_until_there_is_enough_or_it_has_waited_too_long() -> None:
    now, there = 0.0, 0
    waiting = Waiting(Least(10, 60.0), lambda: now)
    assert not waiting.goes_on(lambda most: min(there, most)), "the first batch does not wait"
    waiting.end()
    assert waiting.goes_on(lambda most: min(there, most))
    there = 9
    assert waiting.goes_on(lambda most: min(there, most))
    there = 10
    assert not waiting.goes_on(lambda most: min(there, most))
    now, there = 59.0, 9
    assert waiting.goes_on(lambda most: min(there, most))
    now = 60.0
    assert not waiting.goes_on(lambda most: min(there, most))
    assert not Waiting(None, lambda: now).goes_on(lambda most: 0)
