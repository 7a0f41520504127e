"""What tests of histories share: stores, random publications, and the obvious twin."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from reefcast.errors import DamagedError
from reefcast.history.rows import topics_of
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.filters import TRUE, parse_filter
from reefcast.model.patterns import is_topic_match
from reefcast.model.publication import Publication
from reefcast.model.values import Kind
from reefcast.model.wire import encode_publication

INDEXED = {"flag": Kind.BOOLEAN, "n": Kind.NUMBER, "s": Kind.STRING}
TOPICS = ("a", "a/b", "a/c", "b", "$s/x", "c#")
VALUES = (
    *(-math.inf, -1, -0.0, 0, 0.5, 1, 2.0, 2**53, 2**53 + 1, 2**63 - 1, math.inf, math.nan),
    *("", "a", "ab", "b", "ü", "\U0001f600", "a\0", True, False),
)

publications = st.builds(
    lambda publisher, seq, time_us, attributes, topics: Publication(
        publisher, seq, time_us, attributes, tuple(topics), b"payload"
    ),
    st.sampled_from(("p", "q", "pü")),
    st.integers(1, 10_000),
    st.integers(-3, 12),
    st.dictionaries(st.sampled_from(("flag", "n", "s", "other")), st.sampled_from(VALUES)),
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True),
)

CONDITIONS = (
    *("TRUE", "FALSE", "n > 0", "n >= 1 AND n < 3", "n = 1", "n <> 1", "n IS NULL", "NOT n < 1"),
    *("n IN (1, 2, 9007199254740993)", "n > 9007199254740992", "n <= -1", "s = 'a'", "s >= 'ab'"),
    *("s LIKE 'a%'", "s < 'b'", "s IN ('', 'ü', 'x')", "s IS NOT NULL", "flag", "NOT flag"),
    *("flag = FALSE", "other = 1", "other > n", "n + 1 > 1", "topic = 'a'", "topic MATCHES 'a/+'"),
    *("topic = 'b' OR n = 1", "s <> ''", "NOT (s = 'a' AND n = 1)"),
)
filters = st.recursive(
    st.sampled_from(CONDITIONS),
    lambda inner: st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(
        lambda parts: "({}) {} ({})".format(*parts)
    ),
    max_leaves=4,
).map(parse_filter)


def complain(error: DamagedError) -> None:
    raise error


def opened(directory: Path, report=complain, **options) -> HistoryStore:
    return HistoryStore(directory, report, indexed=INDEXED, **options)


def body(publication: Publication) -> bytes:
    return encode_publication(publication)


def incoming(publications: Iterable[Publication]) -> list[Incoming]:
    return [Incoming(body(each)) for each in publications]


def position(publication: Publication):
    return publication.time_us, publication.publisher, publication.seq


def read(store: HistoryStore, topics, now_us: int = 0, **options) -> list[bytes]:
    return [each for batch in store.read(topics, now_us, **options) for each in batch]


def expected(
    publications, topics, *, filter=TRUE, since_us=None, until_us=None, after=None, limit=0
) -> list[bytes]:
    """Return what a read must find (the obvious twin); the publications are stored under all their
    topics."""

    def is_asked(name: str) -> bool:
        return any(name == t or (t != "c#" and is_topic_match(name, t)) for t in topics)

    found = [
        each
        for each in {position(each): each for each in publications}.values()
        if any(map(is_asked, topics_of(each)))
        and filter.holds(each.attributes, each.topics)
        and (since_us is None or each.time_us >= since_us)
        and (until_us is None or each.time_us < until_us)
        and (after is None or position(each) > after)
    ]
    found.sort(key=position)
    return [body(each) for each in found][: limit or None]


def clean(store: HistoryStore, now_us: int, most: int = 2000) -> None:
    """Clean until nothing is left to do."""
    while store.clean(now_us, most).more:
        pass


def seal(store: HistoryStore, before_us: int, now_us: int = -(1 << 62)) -> None:
    """Seal every segment that is closed before `before_us`."""
    for since_us in store.closed(before_us):
        segment = store.export(since_us, now_us)
        assert segment is not None
        store.seal(segment)
