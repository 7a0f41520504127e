"""What a history keeps, what it knows to be complete, and what it copies from a replica."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from history_stores import (
    TOPICS,
    body,
    clean,
    expected,
    incoming,
    opened,
    position,
    publications,
    read,
    seal,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import DamagedError
from reefcast.history.limits import Limits
from reefcast.history.rows import topics_of
from reefcast.history.store import Incoming
from reefcast.model.publication import Publication

EVERYTHING = ["#", "$s/x", "c#"]


def one(n: int, *topics: str) -> Publication:
    return Publication("p", n, n, {"n": n}, topics or ("a",))


# --- topics that are kept -------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(publications, max_size=20, unique_by=position),
    st.lists(st.sampled_from(("a", "a/+", "a/#", "b", "$s/x"))),
)
def test_what_is_not_kept_is_not_stored(made: list[Publication], kept: list[str]) -> None:
    """Neither are the other topics of a publication with one topic that is kept."""
    with TemporaryDirectory() as directory:
        store = opened(Path(directory))
        store.keep(kept)
        store.append(incoming(made))
        for topic in TOPICS:
            is_kept = expected([one(1, topic)], kept) != []
            assert read(store, [topic]) == (expected(made, [topic]) if is_kept else [])
        store.close()


def test_other_topics_stay_or_are_forgotten(tmp_path: Path) -> None:
    store = opened(tmp_path)
    made = [one(n, ("a", "b", "c")[n % 3], "d") for n in range(600)]
    store.append(incoming(made))
    store.note_whole({"a": 5, "#": 7, "b": 1})
    store.keep(["a", "x/#"])
    clean(store, 0, 50)
    assert read(store, ["#"]) == [body(each) for each in made]
    assert store.whole_us("b") == 7
    store.keep(["a", "x/#"], forget=True)
    assert store.clean(0, 50).more
    store.close()  # it may be killed at any moment
    store = opened(tmp_path)
    store.keep(["a", "x/#"], forget=True)
    clean(store, 0, 50)
    assert read(store, ["#"]) == [body(each) for each in made[::3]]
    assert {name: counts.rows for name, counts in store.counts().items() if counts.rows} == {
        "a": 200
    }
    assert [store.whole_us(t) for t in ("a", "x/#", "x/y", "b", "#")] == [7, 7, 7, None, None]
    assert store.verify() == []
    store.close()


def test_a_sealed_file_goes_when_nothing_of_it_is_kept(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=100)
    store.append(incoming([one(n, "b") for n in range(100)]))
    store.append(incoming([one(n, ("a", "b")[n % 2]) for n in range(100, 200)]))
    seal(store, 200)
    clean(store, 0)
    assert len(list(tmp_path.glob("segments/*/*"))) == 2
    store.keep(["a"], forget=True)
    clean(store, 0)
    assert [path.parent.name for path in tmp_path.glob("segments/*/*")] == ["since_us=100"]
    assert read(store, ["a"]) == [body(one(n, "a")) for n in range(100, 200, 2)]
    store.close()


@pytest.mark.parametrize("reopened", [True, False])
def test_a_sealed_file_that_went_leaves_no_trace(tmp_path: Path, reopened: bool) -> None:
    """Another file may get its name, and its rows are removed from the database as well."""
    limits = Limits(sealed_bytes=1)
    for _ in range(2):
        store = opened(tmp_path, segment_us=100, limits=limits)
        store.append(incoming([one(n) for n in range(100)]))
        seal(store, 100)
        while store.clean(0).dropped:
            pass
        assert list(tmp_path.glob("segments/*/*")) == []
        store.append(incoming([one(n) for n in range(50)]))
        [since_us] = store.closed(100)
        segment = store.export(since_us, -1)
        assert segment is not None
        store.seal(segment)
        store._segments.most_bytes = None
        if reopened:  # before any of its rows was dropped
            store.close()
            store = opened(tmp_path, segment_us=100)
        clean(store, 0)
        assert store.counts()["a"].rows == 0 and len(read(store, ["a"])) == 50
        assert store.closed(100) == []
        segment.path.unlink()  # by whom ever, while the store is closed
        store.close()


# --- what is whole --------------------------------------------------------------------------------


def test_what_is_whole_is_remembered(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.whole_us("a") is None
    store.note_whole({"a/#": 10, "b": 3})
    store.note_whole({"a/b": 7, "b": 5})
    asked = ("a", "a/b", "a/b/+", "a/#", "#", "b", "c")
    wanted = [10, 10, 10, 10, None, 5, None]
    assert [store.whole_us(topic) for topic in asked] == wanted
    store.close()
    store = opened(tmp_path)
    assert [store.whole_us(topic) for topic in asked] == wanted
    store.close()


def test_damage_makes_that_nothing(tmp_path: Path) -> None:
    reports: list[DamagedError] = []
    made = [one(n) for n in range(3000)]
    store = opened(tmp_path, reports.append, segment_us=1000)
    store.append(incoming(made))
    seal(store, 2000)
    clean(store, 0)
    store.note_whole({"a": 3000})
    store.close()
    [path] = tmp_path.glob("segments/since_us=1000/*")
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    store = opened(tmp_path, reports.append, segment_us=1000)
    assert store.whole_us("a") == 3000 and not reports, (
        "the damage was reported before anybody read it"
    )
    with pytest.raises(DamagedError):
        read(store, ["a"])
    store.close()
    store = opened(tmp_path, reports.append, segment_us=1000, repair=True)
    assert "since_us=1000/000000.parquet is not what was written" in str(reports[0])
    assert "rows were saved" in str(reports[1]) and len(reports) == 2
    assert store.whole_us("a") is None
    assert read(store, ["a"]) == [body(each) for each in made[:1000] + made[2000:]]
    store.append(store.lacking([body(each) for each in made]))
    assert read(store, ["a"]) == [body(each) for each in made]
    seal(store, 2000)
    clean(store, 0)
    store.close()
    store = opened(tmp_path, reports.append, segment_us=1000)
    assert read(store, ["a"]) == [body(each) for each in made] and len(reports) == 2
    assert store.verify() == []
    store.close()


def test_a_file_that_is_no_segment_makes_that_nothing_and_is_set_aside(tmp_path: Path) -> None:
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=1000)
    store.append(incoming([one(n) for n in range(1000)]))
    seal(store, 1000)
    store.note_whole({"a": 1000})
    store.close()
    [path] = tmp_path.glob("segments/*/*")
    path.write_bytes(path.read_bytes()[:-10])
    for _ in range(2):
        store = opened(tmp_path, reports.append, segment_us=1000)
        assert store.whole_us("a") is None
        store.close()
    assert len(reports) == 1
    assert [each.name for each in path.parent.iterdir()] == [".000000.parquet.damaged"]


def test_damage_that_sealing_meets_is_told(tmp_path: Path) -> None:
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=1000)
    store.append(incoming([one(n) for n in range(10)]))
    store._database.execute("UPDATE message SET checksum = 5 WHERE seq = 7")
    assert store.damage is None
    segment = store.export(0, -1)
    assert segment is not None and segment.footer.rows == 9
    assert reports == [store.damage]
    store.close()


# --- what a replica has ---------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(publications, max_size=25, unique_by=position),
    st.randoms(use_true_random=False),
)
def test_nothing_is_stored_twice_and_nothing_lacks(made: list[Publication], rng) -> None:
    """This holds whatever is sealed, in the database, or only in the replica, and on whichever
    topics."""
    with TemporaryDirectory() as directory:
        store = opened(Path(directory), segment_us=4)
        for each in made:
            has = topics_of(each)
            some = rng.sample(has, rng.randint(0, len(has)))
            if some:
                store.append([Incoming(body(each), None, some)])
        seal(store, rng.choice((-4, 0, 4, 12)))
        for _ in range(rng.choice((0, 1, 9))):
            store.clean(0, 3)
        lacking = store.lacking([body(each) for each in made])
        store.append(lacking)
        for topic in TOPICS:
            assert read(store, [topic]) == expected(made, [topic])
        clean(store, 0)
        sealed = sum(segment.footer.rows for segment in store._segments.all)
        rows = sum(counts.rows for counts in store.counts().values())
        assert sealed + rows == sum(len(topics_of(each)) for each in made)
        store.close()
