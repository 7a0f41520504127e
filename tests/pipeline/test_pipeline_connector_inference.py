"""Schemas found in samples, without Spark and brokers."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.publication import Publication, Value
from reefcast.model.wire import encode_publication
from reefcast.pipeline.connector.inference import ddl, types_in
from reefcast.pipeline.connector.options import inferring

URL = "reefcast://127.0.0.1:7301"


def types(*events: dict[str, Value]) -> dict[str, str]:
    return types_in([encode_publication(Publication("p", 1, 2, each)) for each in events])


def test_each_attribute_has_the_type_that_most_events_have() -> None:
    assert types({"n": 1, "ok": True}, {"n": 2, "s": "x"}, {"n": "no"}) == {
        "n": "BIGINT",
        "ok": "BOOLEAN",
        "s": "STRING",
    }
    assert types({"x": 1}, {"x": 2}, {"x": 0.5}, {"x": "no"}) == {"x": "DOUBLE"}
    assert types({"seq": 7, "attributes": "x", "timestamp": 1}) == {}
    assert types() == {}


def test_names_are_quoted_where_they_must_be() -> None:
    given = {"price": "DOUBLE", "a.b": "STRING", "1st": "BIGINT", "a`b": "BIGINT", "é": "STRING"}
    assert ddl(given) == "price DOUBLE, `a.b` STRING, `1st` BIGINT, `a``b` BIGINT, `é` STRING"
    assert ddl({"a": "BIGINT"}, "rest") == "a BIGINT, rest MAP<STRING,STRING>"
    assert ddl({}, "rest") == "rest MAP<STRING,STRING>"
    commented = ddl({"a": "BIGINT", "b": "STRING"}, comments={"b": "it's \\ one", "c": "no"})
    assert commented == "a BIGINT, b STRING COMMENT 'it\\'s \\\\ one'"


def test_whether_a_schema_is_to_be_found() -> None:
    given = {"url": URL, "subscribe": "fx", "maxOffsetsPerTrigger": "5"}
    assert inferring(given) is None
    assert inferring({**given, "inferSchema": "false"}) is None
    asked = inferring({**given, "inferschema": "TRUE"})
    assert asked is not None and not asked.by_advertisements
    assert "'fx'" in asked.selection.filter
    asked = inferring({**given, "inferSchema": "advertisements"})
    assert asked is not None and asked.by_advertisements
    with pytest.raises(ConfigurationError, match="neither true nor false, nor advertisements"):
        inferring({**given, "inferSchema": "yes"})
    with pytest.raises(ConfigurationError, match="schema and inferSchema contradict each other"):
        inferring({**given, "inferSchema": "true", "schema": "n BIGINT"})
