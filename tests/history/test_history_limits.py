"""Events that exceed a limit of age or size are removed: in small steps, the oldest first, and
counted."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from history_stores import body, clean, incoming, opened, position, publications, read, seal
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.history.store import Incoming, Limits
from reefcast.model.publication import Publication


def publication(seq: int, topics=("a",), size: int = 0) -> Publication:
    return Publication("p", seq, seq, {}, topics, bytes(size))


class Twin:
    """The rows by topic; the oldest ones are removed until all limits hold."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.rows: set[tuple[str, tuple[int, str, int], int]] = set()
        self.gone: dict[str, int] = {}

    def append(self, batch: list[Publication]) -> None:
        new = {(t, position(p), len(body(p))) for p in batch for t in p.topics}
        known = {row[:2] for row in self.rows}
        self.rows |= {row for row in new if row[:2] not in known}
        for topic in {topic for topic, *_ in self.rows}:
            own = {row for row in self.rows if row[0] == topic}
            self._cut(own, self.limits.topic_rows, self.limits.topic_bytes)
        self._cut(set(self.rows), self.limits.rows, self.limits.bytes)

    def _cut(self, rows, most_rows, most_bytes) -> None:
        for row in sorted(rows, key=lambda row: (row[1], row[0])):
            too_many = most_rows is not None and len(rows) > most_rows
            too_much = most_bytes is not None and sum(size for *_, size in rows) > most_bytes
            if not (too_many or too_much):
                return
            rows.discard(row)
            self.rows.discard(row)
            self.gone[row[0]] = self.gone.get(row[0], 0) + 1


numbers = st.one_of(st.none(), st.integers(1, 15))
sizes = st.one_of(st.none(), st.integers(1, 900))


@given(
    st.builds(Limits, rows=numbers, bytes=sizes, topic_rows=numbers, topic_bytes=sizes),
    st.lists(st.lists(publications, max_size=12, unique_by=position), max_size=4),
)
@settings(max_examples=60)
def test_the_oldest_go_first(limits: Limits, batches: list[list[Publication]]) -> None:
    with TemporaryDirectory() as folder:
        store, twin = opened(Path(folder), limits=limits), Twin(limits)
        seen: dict[tuple[int, str, int], Publication] = {}
        for batch in batches:
            # one topic each: which of the rows of one position goes first is nobody's business
            single = [
                Publication(p.publisher, p.seq, p.time_us, p.attributes, p.topics[:1])
                for p in batch
                if position(p) not in seen
            ]
            seen |= {position(p): p for p in single}
            evicted = store.append(incoming(single)).evicted
            before = sum(twin.gone.values())
            twin.append(single)
            assert evicted == sum(twin.gone.values()) - before
        found = {(p.topics[0], position(p)) for p in seen.values() if _is_stored(store, p)}
        assert found == {row[:2] for row in twin.rows}
        for name, counts in store.counts().items():
            own = [row for row in twin.rows if row[0] == name]
            assert (counts.rows, counts.bytes) == (len(own), sum(row[2] for row in own))
            assert (counts.expired, counts.evicted) == (0, twin.gone.get(name, 0))
        store.close()


def _is_stored(store, publication: Publication) -> bool:
    return body(publication) in read(store, publication.topics)


def test_lower_limits_are_reached_in_small_steps(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(incoming(publication(seq) for seq in range(1000)))
    store.close()
    store = opened(tmp_path, limits=Limits(rows=100))
    assert store.clean(0, 300) == (0, 300, 0, True)
    assert store.append(incoming([publication(1000)])).evicted == 100  # its share
    clean(store, 0, 300)
    assert read(store, ["a"]) == [body(publication(seq)) for seq in range(901, 1001)]
    assert store.counts()["a"].evicted == 901
    store.close()


def test_what_has_expired_is_neither_read_nor_kept(tmp_path: Path) -> None:
    limits = Limits(lifetimes_s={"short/#": 0.0001, "+/b": 0.001})
    store = opened(tmp_path, limits=limits)
    topics = ("short/b", "long/b", "ever")
    store.append(incoming([publication(1, topics)]))
    store.append([Incoming(body(publication(2, topics)), 50)])
    bodies = [body(publication(seq, topics)) for seq in (1, 2)]
    assert [read(store, [topic], 51) for topic in topics] == [bodies] * 3
    assert [read(store, [topic], 52) for topic in topics] == [bodies[:1]] * 3
    assert [read(store, [topic], 101) for topic in topics] == [[], bodies[:1], bodies[:1]]
    assert store.clean(101).expired == 4
    assert read(store, ["#"], 0) == bodies[:1]
    assert store.clean(10**12) == (1, 0, 0, False)
    assert [counts.expired for counts in store.counts().values()] == [2, 2, 1]
    assert read(store, topics, 10**12) == bodies[:1]
    store.close()


def test_the_body_goes_with_the_last_of_its_topics(tmp_path: Path) -> None:
    store = opened(tmp_path, limits=Limits(lifetimes_s={"a": 0.001, "b": 0.002}))
    item = publication(1, ("a", "b"), 50_000)
    store.append(incoming([item]))
    store.clean(1500)
    assert read(store, ["b"], 1500) == [body(item)]
    store.clean(2500)
    store.close()
    size = (tmp_path / "history.sqlite").stat().st_size
    store = opened(tmp_path)
    store.append(incoming([publication(2, ("a", "b"), 50_000)]))
    store.close()
    assert (tmp_path / "history.sqlite").stat().st_size == size, (
        "the file grew: pages of removed rows were not used again"
    )


def test_segments_go_when_all_has_expired_or_there_are_too_many(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=100, limits=Limits(lifetimes_s={"#": 0.001}))
    store.append(incoming(publication(seq) for seq in range(300)))
    seal(store, 300, 0)
    clean(store, 0)
    assert store.counts()["a"].rows == 0
    assert len(read(store, ["a"], 1050)) == 249
    clean(store, 1200)
    left = sorted(path.parent.name for path in tmp_path.glob("segments/*/*"))
    assert left == ["since_us=200"]
    assert len(read(store, ["a"], 0)) == 100
    store.close()
    store = opened(tmp_path, segment_us=100, limits=Limits(sealed_bytes=10))
    clean(store, 0)
    assert read(store, ["a"], 0) == [] and list(tmp_path.glob("segments/*")) == []
    store.close()


def test_limits_are_greater_than_zero() -> None:
    with pytest.raises(ConfigurationError, match="cannot be limited to 0"):
        Limits(rows=0)
    with pytest.raises(ConfigurationError, match=r"cannot be limited to -1\.0"):
        Limits(lifetimes_s={"a": -1.0})
