"""Sealed segments: their contents, how others read them, and what is left of them after a crash."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from history_stores import body, clean, expected, incoming, opened, read, seal

from reefcast.errors import DamagedError
from reefcast.history import rows, sealing, segment_reading, segments
from reefcast.history.merging import Whole
from reefcast.history.messages import Position
from reefcast.history.rows import checksum, checksums
from reefcast.history.segment_reading import SegmentSource
from reefcast.history.store import Incoming
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication

MADE = [
    Publication("p", seq, seq, {"n": seq % 10, "s": f"s{seq % 3}"}, (f"t{seq % 4}",), b"x")
    for seq in range(400)
]


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    store = opened(tmp_path, segment_us=100)
    store.append(incoming(MADE))
    seal(store, 300)
    clean(store, 0)
    store.close()
    return tmp_path


def test_rows_are_sorted_and_say_what_the_publications_do(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=100)
    odd = {"n": math.nan, "s": 1, "flag": True, "big": 2**63 - 1, "inf": -math.inf, "text": "ü"}
    several = Publication("q", 2, 7, odd, ("b", "a"))
    store.append([*incoming([Publication("p", 1, 8, {"n": 2**53 + 1}, ("a",))])])
    store.append([Incoming(body(several), 1000)])
    seal(store, 100)
    table = pq.read_table(tmp_path / "segments")
    found = table.to_pylist()
    assert [(r["topic"], r["time_us"], r["publisher"], r["seq"]) for r in found] == [
        ("a", 7, "q", 2),
        ("a", 8, "p", 1),
        ("b", 7, "q", 2),
    ]
    first, second, third = found
    assert math.isnan(first["n"]) and first["s"] is None and first["flag"] is True
    assert json.loads(first["attributes"]) == {**odd, "n": "NaN", "inf": "-Infinity"}
    assert (first["body"], first["expiry_us"]) == (body(several), 1007) and first["since_us"] == 0
    assert (second["n"], second["flag"], second["expiry_us"]) == (float(2**53), None, None)
    assert third["body"] == first["body"]
    assert read(store, ["a"], filter=parse_filter("n = 9007199254740993"))
    clean(store, 0)
    assert read(store, ["a"], filter=parse_filter("n = 9007199254740993")) == [found[1]["body"]]
    assert read(store, ["b"], filter=parse_filter("n > 1 AND s = 1")) == [body(several)]
    store.close()


def test_row_groups_are_passed_over_by_their_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "ROWS", 10)
    store = opened(tmp_path, segment_us=1000)
    store.append(incoming(MADE))
    seal(store, 1000)
    clean(store, 0)
    [path] = tmp_path.glob("segments/*/*")
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 40
    read_groups: list[int] = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda file, group, **options: (
            read_groups.append(group) or original(file, group, **options)
        ),
    )
    late = read(store, ["t1"], since_us=350)
    assert late == [body(p) for p in MADE if p.topics == ("t1",) and p.time_us >= 350]
    assert set(read_groups) <= {18, 19}
    read_groups.clear()
    assert read(store, ["#"], filter=parse_filter("n > 100 AND n < 200")) == []
    assert read_groups == []
    store.close()


def test_pyarrow_reads_the_folder_as_one_table(sealed: Path) -> None:
    table = ds.dataset(sealed / "segments", partitioning="hive").to_table(
        filter=(ds.field("topic") == "t1") & (ds.field("n") > 5) & (ds.field("since_us") == 100)
    )
    wanted = [p for p in MADE if p.topics == ("t1",) and p.attributes["n"] > 5]
    assert table["body"].to_pylist() == [body(p) for p in wanted if 100 <= p.time_us < 200]


@pytest.mark.spark
def test_spark_reads_the_folder_with_filters_pushed_down(spark, sealed: Path) -> None:
    rows = spark.read.parquet(str(sealed / "segments"))
    chosen = rows.filter("topic = 't1' AND time_us >= 150 AND n > 5 AND since_us < 300")
    length = "spark.sql.maxMetadataStringLength"
    usual = spark.conf.get(length)
    spark.conf.set(length, 10_000)
    plan = chosen._jdf.queryExecution().toString()
    spark.conf.set(length, usual)
    pushed = next(line for line in plan.splitlines() if "PushedFilters" in line)
    for each in ("EqualTo(topic,t1)", "GreaterThanOrEqual(time_us,150)", "GreaterThan(n,5.0)"):
        assert each in pushed
    found = chosen.orderBy("time_us").selectExpr(
        "seq", "s", "from_json(attributes, 'n BIGINT').n AS number", "body"
    )
    wanted = [
        p for p in MADE if p.topics == ("t1",) and 150 <= p.time_us < 300 and p.attributes["n"] > 5
    ]
    assert [(r.seq, r.s, r.number, bytes(r.body)) for r in found.collect()] == [
        (p.seq, p.attributes["s"], p.attributes["n"], body(p)) for p in wanted
    ]


def test_reads_span_both_and_late_ones_get_another_file(sealed: Path) -> None:
    store = opened(sealed, segment_us=100)
    assert sum(counts.rows for counts in store.counts().values()) == 100
    late = Publication("late", 1, 150, {}, ("t1",))
    store.append(incoming([late, MADE[101]]))
    wanted = sorted([*MADE, late], key=lambda p: (p.time_us, p.publisher))
    assert read(store, ["#"]) == [body(p) for p in wanted]
    assert store.closed(300) == [100]
    seal(store, 300)
    clean(store, 0)
    assert store.closed(300) == [] and read(store, ["#"]) == [body(p) for p in wanted]
    assert len(list(sealed.glob("segments/since_us=100/*"))) == 2
    store.close()


def test_a_file_without_its_database_is_still_history(sealed: Path) -> None:
    for path in sealed.glob("history.sqlite*"):
        path.unlink()
    store = opened(sealed, segment_us=100)
    assert read(store, ["#"]) == [body(p) for p in MADE if p.time_us < 300]
    assert store.positions(["t3"]) == {"t3": (299, "p", 299)}
    store.append(incoming(MADE[300:]))
    store.close()
    store = opened(sealed, segment_us=100)
    assert read(store, ["#"]) == [body(p) for p in MADE]
    store.close()


def test_what_was_not_finished_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path, segment_us=100)
    store.append(incoming(MADE))

    def fails(*_):
        raise DamagedError("the disk is not what it was")

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "verify", fails)
        with pytest.raises(DamagedError, match="not what it was"):
            store.export(0, 0)
    assert list(tmp_path.glob("segments/*/*")) == []
    unfinished = tmp_path / "segments" / "since_us=0" / ".000000.parquet"
    unfinished.write_bytes(b"cut off")
    store.close()
    store = opened(tmp_path, segment_us=100)
    seal(store, 100)
    assert [path.name for path in tmp_path.glob("segments/*/*")] == ["000000.parquet"]
    assert read(store, ["#"]) == [body(p) for p in MADE]
    store.close()


def test_nothing_to_seal(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=100)
    assert store.closed(10**9) == [] and store.export(0, 0) is None
    store.append(incoming(MADE[:1]))
    assert store.closed(99) == [] and store.closed(100) == [0]
    assert segments.DAY_US == 24 * 3600 * 10**6
    store.close()


# --- rows that are read as they lie ---------------------------------------------------------------

MANY = [
    Publication(f"p{seq % 3}", seq, seq // 2, {"n": seq % 10}, ("t",), b"x" * (seq % 7))
    for seq in range(1000)
]


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose sealed rows are in row groups of 100, with some in the database between and
    behind them."""
    monkeypatch.setattr(sealing, "ROWS", 100)
    store = opened(tmp_path, segment_us=300)
    store.append(incoming(MANY[:100] + MANY[150:900]))
    seal(store, 300)
    clean(store, 0)
    store.append(incoming(MANY[100:150] + MANY[900:]))
    store.close()
    return tmp_path


@pytest.mark.parametrize(
    ("since_us", "until_us", "after", "limit", "text"),
    [
        (None, None, None, 0, "TRUE"),
        (None, None, None, 333, "TRUE"),
        (17, 401, None, 0, "TRUE"),
        (None, None, (120, "p0", 240), 0, "n > 3"),
        (None, 300, (3, "p1", 7), 50, "n <> 1"),
    ],
)
def test_whole_row_groups_are_in_their_places(
    many: Path,
    since_us: int | None,
    until_us: int | None,
    after: Position | None,
    limit: int,
    text: str,
) -> None:
    options = {"since_us": since_us, "until_us": until_us, "after": after, "limit": limit}
    options["filter"] = parse_filter(text)
    store = opened(many, segment_us=300)
    assert read(store, ["t"], **options) == expected(MANY, ["t"], **options)
    store.close()


def test_most_rows_are_taken_without_a_tuple_for_each(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[int] = []
    take = SegmentSource.take_whole

    def counted(self: SegmentSource, before_us: int) -> Whole:
        found = take(self, before_us)
        whole.append(len(found))
        return found

    monkeypatch.setattr(SegmentSource, "take_whole", counted)
    store = opened(many, segment_us=300)
    assert len(read(store, ["t"])) == len(MANY)
    store.close()
    assert sum(whole) > len(MANY) // 2


def test_a_damaged_row_among_those_taken_whole_is_found(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong bit in memory, behind the checksums of the file's pages."""

    def wrong(*given: Any) -> Any:
        found = checksums(*given)
        bodies = given[-1]
        if damaged in bodies:
            found[bodies.index(damaged)] ^= 1
        return found

    def wrong_each(*given: Any) -> int:
        return checksum(*given) ^ (given[-1] == damaged)

    damaged = body(MANY[700])
    monkeypatch.setattr(segment_reading, "checksums", wrong)
    monkeypatch.setattr(rows, "checksums", wrong)
    monkeypatch.setattr(rows, "checksum", wrong_each)
    store = opened(many, segment_us=300)
    reported: list[DamagedError] = []
    found = read(store, ["t"], report=reported.append)
    store.close()
    assert found == [each for each in expected(MANY, ["t"]) if each != damaged]
    assert len(reported) == 1


def test_expired_rows_are_not_taken_whole(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=2000)
    lives = [Incoming(body(each), 10_000 if each.seq % 3 else 5000) for each in MANY]
    store.append(lives)
    seal(store, 2000)
    clean(store, 0)
    left = [each for each in MANY if each.seq % 3 or each.time_us + 5000 > 5300]
    assert read(store, ["t"], 5300) == expected(left, ["t"])
    store.close()
