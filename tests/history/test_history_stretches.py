"""Where stored events lie, as storages count it, beside the events themselves."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from history_stores import body, clean, expected, incoming, opened, seal
from hypothesis import given
from hypothesis import strategies as st

from reefcast.history import sealing
from reefcast.history.conditions import may_hold
from reefcast.history.spread import ROWS, STORAGE, Stretch, encoded
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication


def made_of(rng: random.Random, count: int) -> list[Publication]:
    """Return events of a few topics, many of them at the same times, some on two topics."""
    return [
        Publication(
            rng.choice("pq"),
            seq,
            rng.choice((rng.randrange(1000), 500 + rng.randrange(3))),
            {"n": rng.randrange(10)},
            tuple(rng.sample(("a", "a/b", "b"), rng.choice((1, 1, 1, 2)))),
        )
        for seq in range(1, count + 1)
    ]


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_what_is_counted_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, seed: int, most: int
) -> None:
    rng = random.Random(seed)
    made = made_of(rng, 300)
    store = opened(tmp_path_factory.mktemp("store"), segment_us=rng.choice((200, 500)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "ROWS", 16)
        store.append(incoming(made[:250]))
        seal(store, 600)
        if rng.random() < 0.7:
            clean(store, 0)
        elif rng.random() < 0.5:
            store.clean(0, 50)
        store.append(incoming(made[250:]))
    since_us, until_us = sorted(rng.choices((0, 100, 200, 450, 501, 502, 900, 1000), k=2))
    filter = parse_filter(rng.choice(("TRUE", "topic MATCHES 'a/#'", "topic = 'b'")))
    found = store.stretches(
        ["#"], 0, filter=filter, since_us=since_us, until_us=until_us, most=most
    )
    counts: Counter[str] = Counter()
    for each in found:
        assert since_us <= each.time_us < until_us and each.rows > 0
        counts[each.topic] += each.rows
    here = Counter(
        topic
        for each in made
        if since_us <= each.time_us < until_us
        for topic in each.topics
        if may_hold(filter, topic)
    )
    assert counts == here
    assert found == sorted(found)
    store.close()


def test_a_stretch_is_as_long_as_its_share(tmp_path: Path) -> None:
    """A burst has as many stretches as it has rows, however short it is."""
    store = opened(tmp_path, segment_us=100_000)
    times = [*range(0, 50_000, 500), *range(50_000, 50_900)]
    store.append(incoming([Publication("p", n, t, {}, ("a",)) for n, t in enumerate(times, 1)]))
    found = store.stretches(["a"], 0, most=10)
    assert [each.rows for each in found] == [100] * 10
    assert [each.time_us for each in found[1:]] == list(range(50_000, 50_900, 100))
    seal(store, 100_000)
    clean(store, 0)
    assert store.stretches(["a"], 0, most=10) == found
    store.close()


def test_a_sealed_topic_is_counted_by_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reefcast.history.segment_reading import SegmentFile

    monkeypatch.setattr(sealing, "ROWS", 100)
    store = opened(tmp_path, segment_us=1000)
    store.append(incoming([Publication("p", n, n % 1000, {}, ("a",)) for n in range(1, 4001)]))
    seal(store, 1000)
    clean(store, 0)
    read: list[int] = []
    original = SegmentFile.read
    monkeypatch.setattr(
        SegmentFile,
        "read",
        lambda file, group, columns: read.append(group) or original(file, group, columns),
    )
    assert sum(each.rows for each in store.stretches(["a"], 0, most=20)) == 4000
    assert read == []
    assert sum(each.rows for each in store.stretches(["a"], 0, since_us=130, most=20)) == 870 * 4
    assert len(read) == 1
    store.close()


@pytest.mark.long
def test_of_what_a_filter_leaves_out_nothing_is_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    made = [
        Publication("p", n, n, {"n": int(n % 4 == 0 and n > 20_000)}, ("a",)) for n in range(40_000)
    ]
    store.append(incoming(made))
    filter = parse_filter("topic = 'a' AND n = 1")
    wanted = {each.time_us for each in made if each.attributes["n"] == 1}
    found = store.stretches(["a"], 0, filter=filter, most=20)
    assert {each.topic for each in found} == {""}
    assert {each.time_us for each in found} <= wanted
    assert abs(sum(each.rows for each in found) - 5000) < 600
    assert store.stretches(["a"], 0, filter=parse_filter("topic = 'a' AND n = 7"), most=20) == []
    assert store.stretches(["a"], 0, filter=parse_filter("topic = 'b'"), most=20) == []
    assert len(expected(made, ["a"], filter=filter)) == len(wanted)
    store.close()


def test_stretches_travel_in_the_order_of_positions() -> None:
    found = [Stretch(3, "b", 5), Stretch(3, "a", 7), Stretch(1, "b", 2)]
    bodies = list(map(decode_publication, encoded(found, "s", None)))
    assert [(each.time_us, each.publisher) for each in bodies] == [(1, "b"), (3, "a"), (3, "b")]
    assert bodies[0].attributes == {ROWS: 2, STORAGE: "s"}
    assert len(encoded(found, "s", (3, "a", 1))) == 1
    assert encoded(found, "s", None)[0] != body(Publication("b", 1, 1, {}))
