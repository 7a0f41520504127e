"""Where reading begins and ends, topic by topic.

The options name times for each topic of `subscribe`, as a JSON object. Readers ask for stretches of
time; `TopicTimes.parts` cuts a stretch where a topic begins or ends, and says which filter finds
the events of each part. So an event of several topics is found once, whichever of them it is read
for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

from reefcast.errors import ConfigurationError
from reefcast.model.patterns import is_topic_match
from reefcast.model.topics import topic_filter

T = TypeVar("T")
ParseTime = Callable[[str], int]

EARLIEST, LATEST = "earliest", "latest"
STARTS = ("startingOffsets", "startingOffsetsByTimestamp")
ENDS = ("endingOffsets", "endingOffsetsByTimestamp")
ALWAYS_US = 0
"""Where a topic begins that is read from its first event on."""
KAFKAS = {-2: EARLIEST, -1: LATEST}
"""What these offsets mean to users of the Kafka source."""
Boundary = int | str
"""A time in microseconds, or EARLIEST or LATEST."""


class Part(NamedTuple):
    """A stretch of time (microseconds, the end exclusive), and the filter of what it has."""

    since_us: int
    until_us: int
    filter: str


class TopicTime(NamedTuple):
    """Where a topic begins, and where it ends: None for no end."""

    topic: str
    since_us: int
    until_us: int | None = None

    def covers(self, since_us: int, until_us: int) -> bool:
        """Return whether the topic is read in this whole stretch."""
        return self.since_us <= since_us and (self.until_us is None or until_us <= self.until_us)


class TopicTimes(NamedTuple):
    """The times of all topics; without any, everything is read."""

    times: tuple[TopicTime, ...] = ()

    def parts(self, since_us: int, until_us: int, filter: str) -> list[Part]:
        """Cut a stretch of time into parts, in order; `filter` finds the events of all topics.
        Stretches without topics are left out."""
        if since_us >= until_us:
            return []
        if not self.times:
            return [Part(since_us, until_us, filter)]
        cuts = sorted({since_us, until_us, *self._inside(since_us, until_us)})
        found = (Part(a, b, self._narrowed(a, b, filter)) for a, b in pairwise(cuts))
        return [part for part in found if part.filter]

    def has(self, topic: str, time_us: int) -> bool:
        """Return whether events of a topic ("": of any) are read at this time."""
        return not topic or any(
            time.covers(time_us, time_us + 1) and is_topic_match(topic, time.topic)
            for time in self.times
        )

    def _inside(self, since_us: int, until_us: int) -> Iterable[int]:
        for time in self.times:
            for cut_us in (time.since_us, time.until_us):
                if cut_us is not None and since_us < cut_us < until_us:
                    yield cut_us

    def _narrowed(self, since_us: int, until_us: int, filter: str) -> str:
        """Return the filter for the topics that are read in this stretch; "" if there are none."""
        topics = [time.topic for time in self.times if time.covers(since_us, until_us)]
        if len(topics) in (0, len(self.times)):
            return filter if topics else ""
        return f"({filter}) AND ({topic_filter(topics)})"


# --- options --------------------------------------------------------------------------------------


class OptionTexts(Protocol):
    """The options of a reader; `options` has them."""

    def text(self, name: str) -> str: ...
    def names(self, name: str) -> tuple[str, ...]: ...
    def read(self, name: str, parse: Callable[[str], T], default: T) -> T: ...


def start_of(
    given: OptionTexts, since_us: int | None, time_us: ParseTime
) -> Boundary | dict[str, Boundary]:
    """Return where a stream starts; `since_us`: what the option for a time says. Raises
    `ConfigurationError`, as the other does."""
    since = ["since"] if since_us is not None else []
    _at_most_one("start", [*since, *filter(given.text, STARTS)])
    if since_us is not None:
        return since_us
    if by_topic := _said(given, STARTS, time_us):
        return by_topic
    word = given.text("startingOffsets").lower()
    if word not in ("", EARLIEST, LATEST):
        raise ConfigurationError(
            f"option startingOffsets is {word!r}: it is earliest or latest, or a JSON object that "
            "says so for each topic; a time is given as option since"
        )
    return word or LATEST


def times_of(given: OptionTexts, time_us: ParseTime) -> TopicTimes:
    """Return where a batch starts and ends, by topic."""
    starts = _bounds(given, STARTS, ("startingTimestamp", "since"), EARLIEST, time_us)
    ends = _bounds(given, ENDS, ("endingTimestamp", "until"), LATEST, time_us)
    return TopicTimes(
        tuple(
            TopicTime(topic, _or(starts.get(topic), ALWAYS_US), _or(ends.get(topic), None))
            for topic in starts or ends
        )
    )


def _bounds(
    given: OptionTexts,
    names: tuple[str, str],
    bounds: tuple[str, str],
    usual: str,
    time_us: ParseTime,
) -> dict[str, Boundary]:
    """Return where the topics of a batch start, or end. `bounds`: options that say it for all of
    them; `usual`: the word for the most that there is."""
    _at_most_one(names[0].removesuffix("ingOffsets"), list(filter(given.text, (*bounds, *names))))
    word, found = given.text(names[0]), _said(given, names, time_us)
    if not found and word.lower() not in ("", usual):
        raise ConfigurationError(
            f"option {names[0]} is {word!r}: for a batch it is {usual}, or a JSON object that says "
            f"so for each topic; a time is given as option {bounds[1]}"
        )
    wrong = [topic for topic, each in found.items() if isinstance(each, str) and each != usual]
    if wrong:
        raise ConfigurationError(
            f"option {names[0]}: nothing is read of {wrong[0]!r} if that is {found[wrong[0]]}"
        )
    return found


def _or(boundary: Boundary | None, otherwise: T) -> int | T:
    return boundary if isinstance(boundary, int) else otherwise


def _at_most_one(what: str, said: Sequence[str]) -> None:
    if len(said) > 1:
        raise ConfigurationError(f"options {said[0]} and {said[1]} both say where to {what}")


def _said(given: OptionTexts, names: tuple[str, str], time_us: ParseTime) -> dict[str, Boundary]:
    """Return what the option for times says of each topic, or else the option for words; nothing if
    neither names topics."""
    words, times = names
    topics = given.names("subscribe")
    if given.text(times):
        return given.read(times, lambda text: _by_topic(text, topics, _time(time_us)), {})
    if given.text(words).startswith("{"):
        return given.read(words, lambda text: _by_topic(text, topics, _word), {})
    return {}


def _by_topic(
    text: str, topics: Sequence[str], parse: Callable[[object], Boundary]
) -> dict[str, Boundary]:
    """Parse a JSON object of topics. Raises `ValueError`."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no JSON: {error}") from error
    if not isinstance(given, Mapping):
        raise ValueError(f'{text} is not an object with a member for each topic: {{"fx": ...}}')
    if not topics:
        raise ValueError("it names topics, so name them in the option subscribe, too")
    if set(given) != set(topics):
        raise ValueError(
            f"it names {', '.join(sorted(given)) or 'no topic'}, and the option subscribe "
            f"{', '.join(topics)}: give each topic of subscribe once, as it is written there"
        )
    return {topic: parse(given[topic]) for topic in topics}


def _word(value: object) -> Boundary:
    if isinstance(value, Mapping):
        raise ValueError(_no_partitions(value))
    word = KAFKAS.get(value, "") if type(value) is int else str(value).lower()
    if word not in (EARLIEST, LATEST):
        raise ValueError(
            f"{value!r} is neither earliest nor latest: topics have no offsets; times are given as "
            "startingOffsetsByTimestamp and endingOffsetsByTimestamp"
        )
    return word


def _time(time_us: ParseTime) -> Callable[[object], Boundary]:
    def parse(value: object) -> Boundary:
        if isinstance(value, Mapping):
            raise ValueError(_no_partitions(value))
        return time_us(str(value))

    return parse


def _no_partitions(value: Mapping[str, object]) -> str:
    return (
        f"{json.dumps(value)} names partitions, which topics do not have: give one value for each "
        "topic"
    )
