"""Pieces of what is to be read: together all of it, each event once, and of like sizes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import DamagedError
from reefcast.history import sealing, stretches
from reefcast.history.spread import Stretch
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.topics import topic_patterns_of
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.pipeline.connector import cutting
from reefcast.pipeline.connector.cutting import Cuts, Read, cuts_by_counts, cuts_of, equal_times
from reefcast.pipeline.connector.ids import Ids, ids_of, without
from reefcast.pipeline.connector.reading import Slice
from reefcast.pipeline.connector.topic_reading import narrowed
from reefcast.pipeline.connector.topic_times import TopicTimes

FILTERS = (
    *("topic MATCHES '#'", "topic MATCHES 'a' OR topic MATCHES 'b'", "topic = 'hot'"),
    *("topic MATCHES 'a/#' AND n > 3", "topic = 'a' OR topic = 'hot' AND n < 2"),
    "(topic MATCHES 'a/#' OR topic MATCHES 'hot') AND topic <> 'a/x'",
)


class Stored:
    """A real store, asked as storages are, without a network."""

    def __init__(self, store: HistoryStore, filter: str) -> None:
        self.store = store
        self.filter = filter

    def read(self, read: Read) -> list[bytes]:
        filter = parse_filter(read.asked(self.filter))
        topics = topic_patterns_of(filter)
        assert topics is not None
        span = {"since_us": read.since_us, "until_us": read.until_us}
        found = self.store.read(topics, 0, filter=filter, **span)
        return without([body for some in found for body in some], read.but)

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids:
        bodies = self.read(Read(since_us, until_us))
        return ids_of(bodies[:limit] if limit else bodies)

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None:
        filter = parse_filter(self.filter)
        span = {"since_us": since_us, "until_us": until_us}
        topics = topic_patterns_of(filter)
        assert topics is not None
        return self.store.stretches(topics, 0, filter=filter, most=most, **span)

    def pieces(self, span: tuple[int, int], most: int) -> list[list[bytes]]:
        cuts = cuts_of(self, *span, most)
        assert Cuts.of_json(cuts.to_json()) == cuts
        slices = narrowed(map(Slice, cuts.pieces(*span)), TopicTimes(), self.filter)
        return [[body for read in part.reads for body in self.read(read)] for part in slices]


def complain(error: DamagedError) -> None:
    raise error


def store_of(directory: Path, made: list[Publication], sealed_until_us: int = 0) -> HistoryStore:
    store = HistoryStore(
        directory, complain, segment_us=1_000_000 if sealed_until_us > 2000 else 500
    )
    store.append([Incoming(encode_publication(each)) for each in made])
    for since_us in store.closed(sealed_until_us):
        segment = store.export(since_us, -1)
        assert segment is not None
        store.seal(segment)
    while store.clean(0).more:
        pass
    return store


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_pieces_are_together_what_one_reading_has(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = random.Random(seed)
    topics = ("a", "b", "a/x", "a/y", "hot", "$sys")
    made = [
        Publication(
            rng.choice("pq"),
            seq,
            rng.choice((rng.randrange(2000), 700 + rng.randrange(20))),
            {"n": rng.randrange(6)},
            tuple({rng.choice((*topics, "hot", "hot")) for _ in range(rng.choice((1, 1, 2)))}),
        )
        for seq in range(300)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "LEAST_ROWS", 5)
        patch.setattr(cutting, "MOST_PROBED", rng.choice((1, 1000)))
        patch.setattr(cutting, "MOST_TOPICS", rng.choice((2, 100)))
        patch.setattr(sealing, "ROWS", 16)
        store = store_of(tmp_path_factory.mktemp("store"), made, rng.choice((0, 1000, 2000)))
        history = Stored(store, rng.choice(FILTERS))
        since_us, until_us = sorted(rng.choices((0, 300, 699, 705, 1000, 2000), k=2))
        pieces = history.pieces((since_us, until_us), rng.randint(1, 12))
        whole = history.read(Read(since_us, until_us))
    assert Counter(body for piece in pieces for body in piece) == Counter(whole)
    assert len(set(whole)) == len(whole)
    store.close()


@pytest.mark.long
@pytest.mark.parametrize("sealed_until_us", [0, 1 << 40])
def test_no_piece_of_a_skewed_history_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed_until_us: int
) -> None:
    """Nine of ten events are on one topic, and nine of ten of these in a hundredth of the time."""
    monkeypatch.setattr(cutting, "LEAST_ROWS", 200)
    monkeypatch.setattr(cutting, "MOST_PROBED", 500)
    monkeypatch.setattr(stretches, "LEAST_SAMPLE", 8)
    monkeypatch.setattr(sealing, "ROWS", 256)
    rng = random.Random(5)
    made = []
    for seq in range(6000):
        is_hot = rng.random() < 0.9
        topic = "hot" if is_hot else f"t{rng.randrange(20)}"
        time_us = rng.randrange(1_000_000)
        if is_hot and rng.random() < 0.9:
            time_us = 300_000 + time_us // 100
        made.append(Publication("p", seq, time_us, {"n": seq % 2}, (topic,)))
    store = store_of(tmp_path, made, sealed_until_us)
    for filter in ("topic MATCHES '#'", "topic MATCHES '#' AND n = 1"):
        sizes = list(map(len, Stored(store, filter).pieces((0, 1_000_000), 8)))
        assert len(sizes) == 8 and max(sizes) < 2 * sum(sizes) / 8, (filter, sizes)
    few = Stored(store, "topic = 't1' OR topic = 't2'").pieces((0, 1_000_000), 8)
    assert len(few) == 1, "there is not enough to read for two tasks"
    store.close()


def test_what_comes_on_a_topic_that_was_not_counted_is_read(tmp_path: Path) -> None:
    made = [Publication("p", seq, seq, {}, (f"a/{seq % 2}",)) for seq in range(100)]
    store = store_of(tmp_path, made)
    history = Stored(store, "topic MATCHES 'a/#'")
    found = history.stretches(0, 1000, 10)
    assert found is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "LEAST_ROWS", 10)
        cuts = cuts_by_counts(found, 0, 2)
    late = [
        Publication("q", 1, 5, {}, ("a/9",)),
        Publication("q", 2, 5, {}, ("a/9", "a/1")),
        Publication("q", 3, 5, {}, ("b",)),
    ]
    store.append([Incoming(encode_publication(each)) for each in late])
    parts = list(narrowed(map(Slice, cuts.pieces(0, 1000)), TopicTimes(), history.filter))
    read = [body for part in parts for each in part.reads for body in history.read(each)]
    assert Counter(read) == Counter(history.read(Read(0, 1000)))
    assert len(read) == 102
    store.close()


def test_a_task_reads_topics_of_one_storage() -> None:
    found = [
        Stretch(us, topic, 1000, "s1" if topic in ("a", "d") else "s2")
        for topic in "abcd"
        for us in range(4)
    ]
    cuts = cuts_by_counts(found, 0, 4)
    pieces = cuts.pieces(0, 10)
    assert [piece[0].topics for piece in pieces] == [("a",), ("d",), ("b",), ("c",)]
    assert [piece[0].but for piece in pieces] == [(), ("a",), ("a", "d"), ("a", "d", "b")]
    assert pieces[-1][1:] == (Read(0, 10, (), ("a", "d", "b", "c")),)
    assert not pieces[-1][1].is_possible("topic IN ('a', 'b', 'c', 'd')")
    assert pieces[-1][1].is_possible("topic IN ('a', 'b', 'c', 'e')")


def test_small_topics_share_a_task_and_a_large_one_has_several() -> None:
    small = [Stretch(0, f"s{n}", 100, "s") for n in range(20)]
    found = [*small, *(Stretch(us, "large", 100, "s") for us in range(60))]
    pieces = cuts_by_counts(found, 0, 4).pieces(0, 100)
    assert [(read.topics, read.span) for piece in pieces for read in piece][:3] == [
        (("large",), (0, 20)),
        (("large",), (20, 40)),
        (("large",), (40, 100)),
    ]
    assert len(pieces) == 4 and len(pieces[3][0].topics) == 20


def test_of_many_topics_the_largest_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are divided by time, together."""
    monkeypatch.setattr(cutting, "MOST_TOPICS", 2)
    small = [Stretch(us, f"s{n}", 100, "s") for n in range(20) for us in (0, 50)]
    large = [Stretch(50, topic, 2000, "s") for topic in ("a", "z")]
    pieces = cuts_by_counts([*small, *large], 0, 4).pieces(0, 100)
    others = ("a", "z")
    assert pieces == [
        (Read(0, 100, ("a",)),),
        (Read(0, 100, ("z",), ("a",)),),
        (Read(0, 50, (), others),),
        (Read(50, 100, (), others),),
    ]


def test_without_counts_times_are_equal() -> None:
    assert equal_times(0, 100, 4).pieces(0, 100) == [
        (Read(low, low + 25),) for low in range(0, 100, 25)
    ]
    assert equal_times(0, 2, 4).pieces(0, 2) == [(Read(0, 1),), (Read(1, 2),)]
    assert equal_times(5, 5, 4).pieces(5, 5) == []


def test_only_events_on_several_topics_are_looked_at() -> None:
    made = [Publication("p", n, n, {}, topics) for n, topics in enumerate((("a",), ("a", "b")))]
    bodies = list(map(encode_publication, made))
    assert without(bodies, ()) is bodies
    assert [decode_publication(each).seq for each in without(bodies, ("b", "c"))] == [0]
    assert without(bodies, ("c",)) == bodies
