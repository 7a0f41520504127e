"""What executors do with subscriptions and events, without Spark: on Arrow batches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.filters import parse_filter
from reefcast.pipeline.matching import worker
from reefcast.pipeline.matching.shared import Carried, Shared
from reefcast.pipeline.matching.subscriptions import parsed, to_bytes

Row = dict[str, Any]

KINDS = {"i": pa.int64(), "k": pa.int64(), "x": pa.float64(), "s": pa.string(), "flag": pa.bool_()}
INTEGERS = (-(2**63), -(2**53) - 1, -1, 0, 1, 2, 7, 2**53, 2**53 + 1, 2**63 - 1)
FLOATS = (-math.inf, -1e300, -0.0, 0.0, 0.5, 1.0, 2.0, 7.0, 2.0**53, math.inf, math.nan)
STRINGS = ("", "a", "ab", "a/b", "b", "é", "\U0001f600", "it's")
VALUES = {"i": INTEGERS, "k": INTEGERS, "x": FLOATS, "s": STRINGS, "flag": (True, False)}

rows = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(values) for name, values in VALUES.items()}
)
PREDICATES = (
    *("i > 0", "i = 9007199254740993", "i <> 9007199254740993", "k <= -9007199254740993"),
    *("i BETWEEN 1 AND 9223372036854775807", "i IN (0, 1, 2, 7)", "i IS NULL", "x IS NOT NULL"),
    *("x >= 0.5", "x = 0", "x > 1e299", "x = 9007199254740993", "NOT (x < 2)", "nowhere > 1"),
    *("nowhere IS NULL", "s = 'a'", "s <> 'it''s'", "s < 'b'", "s LIKE 'a%'", "s LIKE '%b'"),
    *("s NOT IN ('a', 'b')", "s = 5", "i = 'a'", "flag", "NOT flag", "flag = TRUE", "flag < TRUE"),
    *(
        "i < k",
        "i = x",
        "i + 1 > k",
        "x / k > 0.5",
        "i * 2 = x",
        "s = i",
        "-i > k",
        "TRUE",
        "FALSE",
    ),
)
filters = st.recursive(
    st.sampled_from(PREDICATES),
    lambda inner: st.one_of(
        inner.map(lambda text: f"NOT ({text})"),
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
    ),
    max_leaves=4,
)


def shared_of(texts: Sequence[str], ids: Sequence[object], token: str) -> Shared:
    batch = pa.RecordBatch.from_arrays([pa.array(ids), pa.array(texts)], ["id", "filter"])
    data = to_bytes(pa.Table.from_batches(list(parsed([batch]))))
    return Shared(token, Carried(data))


def batch_of(events: Sequence[Row], names: Sequence[str], first: int = 0) -> pa.RecordBatch:
    columns = [pa.array([event[name] for event in events], KINDS[name]) for name in names]
    ids = pa.array(range(first, first + len(events)), pa.int64())
    return pa.RecordBatch.from_arrays([ids, *columns], ["id", *names])


def told(batches: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def wanted(texts: Sequence[str], events: Sequence[Row]) -> Counter[tuple[int, int]]:
    return Counter(
        (event, number)
        for event, row in enumerate(events)
        for number, text in enumerate(texts)
        if parse_filter(text).holds({name: v for name, v in row.items() if v is not None})
    )


@given(st.lists(filters, min_size=1, max_size=12), st.lists(rows, max_size=40), st.data())
def test_pairs_and_counts_are_those_of_asking_each_filter(
    texts: list[str], events: list[Row], data: st.DataObject
) -> None:
    shared = shared_of(texts, range(len(texts)), token=repr(texts))
    cut = data.draw(st.integers(0, len(events)))
    batches = [batch_of(events[:cut], list(KINDS)), batch_of(events[cut:], list(KINDS), cut)]
    expected = wanted(texts, events)
    assert told(worker.pairs(batches, shared, list(KINDS))) == expected
    per_event = Counter(event for event, _ in expected)
    assert told(worker.counts_of_events(batches, shared, list(KINDS))) == Counter(
        (event, per_event[event]) for event in range(len(events))
    )
    assert told(worker.counts_of_subscriptions(batches, shared, list(KINDS))) == Counter(
        Counter(number for _, number in expected).items()
    )


def test_attributes_that_no_filter_names_need_not_be_there() -> None:
    events = [{"i": 1}, {"i": None}]
    shared = shared_of(["i > 0", "TRUE"], ["a", "b"], "names")
    assert told(worker.pairs([batch_of(events, ["i"])], shared, ["i"])) == Counter(
        [(0, "a"), (0, "b"), (1, "b")]
    )


def test_filters_that_name_no_attribute() -> None:
    shared = shared_of(["TRUE", "FALSE"], [1, 2], "no names")
    assert told(worker.pairs([batch_of([{}] * 3, [])], shared, [])) == Counter(
        [(0, 1), (1, 1), (2, 1)]
    )


def test_what_is_found_goes_out_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that matches everything must not fill the memory."""
    monkeypatch.setattr(worker, "PAIRS", 100)
    everything = shared_of(["TRUE"] * 40, range(40), "everything")
    batches = list(worker.pairs([batch_of([{"i": 1}] * 100, ["i"])], everything, ["i"]))
    assert sum(batch.num_rows for batch in batches) == 4000
    assert max(batch.num_rows for batch in batches) == 40 * worker.FEWEST_EVENTS
    few = shared_of(["i = 1"], [1], "few")
    sizes = [len(ids) for ids, _ in worker.found([batch_of([{"i": 0}] * 500, ["i"])], few, ["i"])]
    assert sizes == [worker.FEWEST_EVENTS, 100, 100, 100, 100, 84]


def test_counts_go_out_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PAIRS", 16)
    shared = shared_of(["TRUE"] * 40, range(40), "many")
    batches = list(worker.counts_of_subscriptions([batch_of([{}] * 3, [])], shared, []))
    assert [batch.num_rows for batch in batches] == [16, 16, 8]
    assert told(batches) == Counter((number, 3) for number in range(40))


def test_index_is_made_once_for_the_same_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "KEPT", 2)
    first = worker.loaded(shared_of(["i = 1"], [1], "one"))
    assert worker.loaded(Shared("one", None)) is first  # what it is made of is not even looked at
    worker.loaded(shared_of(["i = 2"], [2], "two"))
    assert worker.loaded(Shared("one", None)) is first
    worker.loaded(shared_of(["i = 3"], [3], "three"))  # in the place of "two"
    assert worker.loaded(Shared("one", None)) is first
    with pytest.raises(AttributeError):
        worker.loaded(Shared("two", None))


def test_errors_stand_beside_the_ids() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([7, 8, 9]), pa.array(["a = 1", "a = = 1", None])], ["id", "filter"]
    )
    (result,) = parsed([batch])
    errors = result.column("error").to_pylist()
    assert errors[0] is None
    assert "line 1, column 5" in errors[1]
    assert "NULL" in errors[2]
    assert result.column("attributes").to_pylist() == [["a"], [], []]


def test_a_batch_without_subscriptions() -> None:
    empty = pa.RecordBatch.from_arrays(
        [pa.array([], pa.int64()), pa.array([], pa.string())], ["id", "f"]
    )
    (result,) = parsed([empty])
    assert result.num_rows == 0
    assert result.schema.names == ["id", "packed", "attributes", "error"]
