"""A history hands out exactly what it has stored: everything that matches the filter, in order,
each once."""

from __future__ import annotations

import random
import sqlite3
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from history_stores import (
    CONDITIONS,
    INDEXED,
    TOPICS,
    VALUES,
    body,
    clean,
    complain,
    expected,
    filters,
    incoming,
    opened,
    position,
    publications,
    read,
    seal,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError, InvalidValueError, LocalError, ProtocolError
from reefcast.history import eras, merging, reading, schema, sealing
from reefcast.history.messages import Position
from reefcast.history.store import HistoryStore, Incoming, Limits
from reefcast.model.filters import TRUE, parse_filter
from reefcast.model.publication import Publication
from reefcast.model.values import Kind

requests = st.fixed_dictionaries(
    {},
    optional={
        "filter": filters,
        "since_us": st.integers(-4, 13),
        "until_us": st.integers(-4, 13),
        "after": st.tuples(
            st.integers(-4, 13), st.sampled_from(("", "p", "pü")), st.integers(0, 9999)
        ),
        "limit": st.integers(0, 5),
    },
)
asked_topics = st.lists(st.sampled_from((*TOPICS, "a/#", "+", "#", "none", "$s/#")), max_size=3)


def publication(seq: int, *, time_us: int | None = None, topics=("a",), **attributes):
    return Publication("p", seq, seq if time_us is None else time_us, attributes, topics)


@given(
    st.lists(st.lists(publications, max_size=25), min_size=1, max_size=4),
    st.lists(st.tuples(asked_topics, requests, st.integers(1, 7)), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 30),
    st.sampled_from((None, 5, 20)),
)
@settings(max_examples=60)
def test_hands_out_what_the_obvious_twin_does(
    batches, asked, few, rows_of_era, sealed_until
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "FEW", few)
        patch.setattr(eras, "ROWS", rows_of_era)
        store = opened(Path(folder), segment_us=4)
        # A position names one publication: what came with the same one is the first again.
        first: dict[Position, Publication] = {}
        for i, batch in enumerate(batches):
            batches[i] = [first.setdefault(position(each), each) for each in batch]
            store.append(incoming(batches[i]))
        if sealed_until is not None:
            seal(store, sealed_until)
            clean(store, -(1 << 62), 3)
            store.append(incoming(batches[0]))
        for topics, request, size in asked:
            found = read(store, topics, -(1 << 62), batch=size, **request)
            assert found == expected(first.values(), topics, **request)
        store.close()


@given(
    st.lists(publications, min_size=20, max_size=60),
    st.sampled_from((["#"], ["#", "$s/#", "c#"], ["a"], ["a/#", "b"])),
    st.one_of(st.just({}), requests),
    st.integers(1, 7),
    st.integers(0, 5),
    st.sampled_from((3, 10, 1000)),
    st.booleans(),
)
@settings(max_examples=60)
def test_a_read_finds_what_is_sealed_meanwhile(
    stored, topics, request_, size, batches, dropped, again
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "FEW", 2)
        patch.setattr(merging, "FIRST_ROWS", 2)
        patch.setattr(merging, "FEW_ROWS", 1)
        patch.setattr(sealing, "ROWS", 3)
        store = opened(Path(folder), segment_us=4)
        first = {position(each): each for each in reversed(stored)}
        store.append(incoming(first.values()))
        found: list[bytes] = []
        for number, some in enumerate(store.read(topics, -(1 << 62), batch=size, **request_)):
            found += some
            if number == batches:
                seal(store, 20)
            store.clean(-(1 << 62), dropped)
            if again and number == batches + 1:  # the database has what a segment has
                store.append(incoming(first.values()))
        assert found == expected(first.values(), topics, **request_)
        store.close()


def test_a_segment_that_goes_in_mid_read_is_not_damaged(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=100, limits=Limits(sealed_bytes=1))
    store.append(incoming(publication(seq) for seq in range(600)))
    seal(store, 300)
    batches = store.read(["a"], 0, batch=70)
    found = next(batches)
    clean(store, 0)
    assert not store.contents().segments
    found += [each for batch in batches for each in batch]
    assert found[-300:] == [body(publication(seq)) for seq in range(300, 600)]
    store.close()


def every_value() -> list[Publication]:
    """Return publications with each of the values in each attribute, in a scattered order."""
    attributes = [
        *({}, {"n": 1, "s": "a"}, {"n": 0.5, "s": "a", "other": 0, "flag": False}),
        *({name: value} for name in ("flag", "n", "s", "other") for value in VALUES),
        *({"n": value, "s": "ab", "other": 1} for value in VALUES),
    ]
    random.Random(1).shuffle(attributes)
    return [
        Publication("p", i, i % 37, each, (TOPICS[i % 5], TOPICS[(i + i // 5) % 5])[: 1 + i % 2])
        for i, each in enumerate(attributes)
    ]


@pytest.mark.long
@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("few", [2, 2000])
@pytest.mark.parametrize("sealed", [False, True])
def test_every_condition_finds_what_it_holds_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, few: int, sealed: bool
) -> None:
    monkeypatch.setattr(reading, "FEW", few)
    monkeypatch.setattr(eras, "ROWS", rows)
    monkeypatch.setattr(sealing, "ROWS", rows)
    store, stored = opened(tmp_path, segment_us=16), every_value()
    for start in range(0, len(stored), 20):
        store.append(incoming(stored[start : start + 20]))
    if sealed:
        seal(store, 32)
        clean(store, -(1 << 62))
    for text in CONDITIONS:
        wanted = parse_filter(text)
        found = read(store, TOPICS, filter=wanted)
        assert found == expected(stored, TOPICS, filter=wanted), text
    store.close()


def test_the_first_batch_is_short_and_nothing_is_held_between_two(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(incoming(publication(seq) for seq in range(1, 301)))
    batches = store.read(["a"], 0)
    first = next(batches)
    assert 0 < len(first) < 300
    store.append(incoming([publication(1000)]))
    rest = [each for batch in batches for each in batch]
    assert len(first) + len(rest) == 301 and rest[-1] == body(publication(1000))
    store.close()


def test_what_is_stored_already_is_known(tmp_path: Path) -> None:
    store = opened(tmp_path)
    both = publication(1, topics=("a", "b"))
    assert store.append([Incoming(body(both), topics=("b",))]) == (1, 0, 0)
    assert store.append(incoming([both, publication(2)])) == (2, 1, 0)
    assert store.append(incoming([both, both])) == (0, 4, 0)
    assert read(store, ["b"]) == [body(both)]
    assert read(store, ["a", "b"]) == [body(both), body(publication(2))]
    assert {name: counts.rows for name, counts in store.counts().items()} == {"a": 2, "b": 1}
    store.close()


def test_the_body_of_a_publication_on_several_topics_is_stored_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    topics = tuple(f"t{i}" for i in range(50))
    store.append(incoming([Publication("p", 1, 1, {}, topics, bytes(100_000))]))
    assert all(len(read(store, [topic])) == 1 for topic in topics)
    store.close()
    assert (tmp_path / "history.sqlite").stat().st_size < 300_000


def test_a_publication_is_stored_under_the_topics_that_are_asked_for(tmp_path: Path) -> None:
    store = opened(tmp_path)
    item = body(publication(1, topics=("a", "b")))
    store.append([Incoming(item, topics=("b",))])
    assert read(store, ["a"]) == [] and read(store, ["b"]) == [item]
    store.append(incoming([publication(2, topics=(), topic="b")]))
    assert read(store, ["b"], filter=parse_filter("topic = 'b'")) == [
        item,
        body(publication(2, topics=(), topic="b")),
    ]
    with pytest.raises(InvalidValueError, match=r"topics \['a', 'b'\] .* under \['c'\]"):
        store.append([Incoming(item, topics=("c",))])
    with pytest.raises(InvalidValueError):
        store.append(incoming([publication(3, topics=())]))
    store.close()


def test_a_bad_body_leaves_nothing_of_its_batch_behind(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(ProtocolError):
        store.append([*incoming([publication(1)]), Incoming(b"\xc1")])
    assert read(store, ["#"]) == [] and store.counts() == {}
    assert store.append(incoming([publication(1)])).stored == 1
    store.close()


def test_a_full_disk_leaves_nothing_of_its_batch_behind(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(incoming([publication(1)]))
    store._database.execute("PRAGMA max_page_count = 20")
    batch = incoming(publication(seq, topics=("new",), s="x" * 500) for seq in range(1000))
    with pytest.raises(LocalError, match=r"cannot be written to .* nothing of this batch"):
        store.append(batch)
    assert read(store, ["#"]) == [body(publication(1))] and set(store.counts()) == {"a"}
    store._database.execute("PRAGMA max_page_count = 100000")
    assert store.append(batch).stored == 1000
    assert store.counts()["new"].rows == 1000
    store.close()


@pytest.mark.parametrize(
    ("text", "sorts"),
    [("TRUE", False), ("s = 'a'", False), ("s IS NULL", False), ("n > 3", False), ("n > 8", True)],
)
def test_rows_come_from_an_index_and_only_few_are_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sorts: bool
) -> None:
    monkeypatch.setattr(reading, "FEW", 150)
    store = opened(tmp_path)
    store.append(incoming(publication(seq, n=seq % 10, s="a") for seq in range(1000)))
    asked: list[str] = []
    connect = schema.connect

    def connect_and_listen(path: Path, *, writes: bool = False) -> sqlite3.Connection:
        database = connect(path, writes=writes)
        database.set_trace_callback(asked.append)
        return database

    monkeypatch.setattr(schema, "connect", connect_and_listen)
    read(store, ["a"], filter=parse_filter(text))
    rows = [query for query in asked if query.startswith("SELECT CAST")]
    plans = [
        step
        for query in rows
        for *_, step in store._database.execute(f"EXPLAIN QUERY PLAN {query}")
    ]
    sorted_ones = sum("TEMP B-TREE" in step for step in plans)
    assert sorted_ones == (len(rows) if sorts else 0)
    assert not any(step.startswith("SCAN") for step in plans)
    store.close()


def test_positions_are_the_last_ones(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(incoming([publication(5), publication(3), publication(7, topics=("b",))]))
    store.append(incoming([publication(4)]))
    assert store.positions() == {"a": (5, "p", 5), "b": (7, "p", 7)}
    assert store.positions(["b", "none"]) == {"b": (7, "p", 7)}
    store.close()
    store = opened(tmp_path)
    assert store.positions(["a"]) == {"a": (5, "p", 5)}
    store.close()


def test_a_replica_gets_what_it_lacks(tmp_path: Path) -> None:
    ours, theirs = opened(tmp_path / "ours"), opened(tmp_path / "theirs")
    everything = [publication(seq, topics=("a", "b")[: 1 + seq % 2]) for seq in range(1, 200)]
    theirs.append(incoming(everything))
    ours.append(incoming(everything[:120]))
    after = min(ours.positions().values())
    for batch in theirs.read(["#"], 0, after=after):
        ours.append([Incoming(each) for each in batch])
    assert read(ours, ["#"]) == read(theirs, ["#"]) == [body(each) for each in everything]
    for store in (ours, theirs):
        store.close()


def test_a_directory_belongs_to_one_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(ConfigurationError, match="in use by another process"):
        opened(tmp_path)
    store.close()
    opened(tmp_path).close()


def test_indexed_attributes_stay_as_they_are(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(ConfigurationError, match=r"attributes flag \(boolean\), n .*, not x \(str"):
        HistoryStore(tmp_path, complain, indexed={"x": Kind.STRING})
    opened(tmp_path).close()
    with pytest.raises(ConfigurationError, match="attributes body, topic cannot be indexed"):
        HistoryStore(tmp_path, complain, indexed={"topic": Kind.STRING, "body": Kind.STRING})


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="give a directory that may be written to"):
        HistoryStore(tmp_path / "file" / "x", complain, indexed=INDEXED)


@pytest.mark.long
def test_threads_read_while_one_writes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    wrong: list[object] = []
    wanted = parse_filter("n >= 0")
    done = threading.Event()
    stored = [0]

    def reads() -> None:
        try:
            while not done.is_set():
                least = stored[-1]
                found = read(store, ["a", "b"], filter=wanted, batch=50)
                seqs = [int.from_bytes(each[-4:], "big") for each in found]
                if seqs[:least] != list(range(1, least + 1)) or seqs != sorted(set(seqs)):
                    wrong.append(seqs)
        except Exception as error:  # the test's thread would swallow it
            wrong.append(error)

    threads = [threading.Thread(target=reads) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(1, 1501, 30):
        store.append(
            incoming(
                Publication(
                    "p", seq, seq, {"n": seq}, (("a", "b")[seq % 2],), seq.to_bytes(4, "big")
                )
                for seq in range(start, start + 30)
            )
        )
        stored.append(start + 29)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(read(store, ["#"], filter=TRUE)) == 1500
    store.close()
