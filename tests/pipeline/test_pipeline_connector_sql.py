"""Tables of SQL, what SQL hands down, and what crosses the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from live_history import Network, live_history

import reefcast
import reefcast.spark
from reefcast.errors import ConfigurationError
from reefcast.pipeline.connector.columns import schema_of
from reefcast.pipeline.connector.wanted import wanted_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "symbol STRING, price DOUBLE"
ROWS: tuple[dict[str, object], ...] = (
    {"symbol": "IBM", "price": 99.5, "note": "x" * 1000},
    {"symbol": "IBM", "price": 120.0, "note": "x" * 1000},
    {"symbol": "SAP", "price": 130.0, "note": "x" * 1000},
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with live_history(tmp_path_factory.mktemp("storage")) as network:
        network.publish("quotes", *ROWS, payload=b"raw")
        yield network


@pytest.fixture
def quotes(spark: SparkSession, network: Network) -> Iterator[None]:
    """A table of a source that has its options."""
    reefcast.spark.register(
        spark, "quotes_source", url=network.url, subscribe="quotes", schema=SCHEMA, topic="quotes"
    )
    spark.sql("CREATE TABLE quotes USING quotes_source")
    yield
    spark.sql("DROP TABLE quotes")


def test_a_table_of_a_named_source(spark: SparkSession, network: Network, quotes: None) -> None:
    query = "SELECT symbol, price FROM quotes WHERE price > 100 ORDER BY price"
    assert spark.sql(query).collect() == [("IBM", 120.0), ("SAP", 130.0)]
    either = (
        "SELECT price FROM quotes WITH (`filter` = 'price < 100 OR symbol = ''SAP''') ORDER BY 1"
    )
    assert spark.sql(either).collect() == [(99.5,), (130.0,)]
    spark.sql("CREATE TABLE traded (symbol STRING, price DOUBLE) USING quotes_source")
    try:
        spark.sql("INSERT INTO traded WITH (topic = 'traded') SELECT symbol, price FROM quotes")
    finally:
        spark.sql("DROP TABLE traded")
    assert sorted(event["price"] for event in network.wait("traded", 3)) == [99.5, 120.0, 130.0]


def test_a_table_may_be_used_twice_in_a_query(spark: SparkSession, quotes: None) -> None:
    query = (
        "SELECT price FROM quotes WHERE price < 100 UNION ALL "
        "SELECT price FROM quotes WHERE symbol = 'SAP' UNION ALL SELECT price FROM quotes"
    )
    prices = sorted(row.price for row in spark.sql(query).collect())
    assert prices == [99.5, 99.5, 120.0, 130.0, 130.0]


def test_a_view_is_written_to_as_well(spark: SparkSession, network: Network) -> None:
    reefcast.spark.register(spark)
    spark.sql(
        "CREATE TEMPORARY VIEW written (n BIGINT) USING reefcast "
        f"OPTIONS (url '{network.url}', topic 'written')"
    )
    spark.sql("INSERT INTO written VALUES (1), (2)")
    spark.sql("DROP VIEW written")
    assert sorted(event["n"] for event in network.wait("written", 2)) == [1, 2]


def test_a_table_with_options_of_its_own_is_told_what_to_do(
    spark: SparkSession, network: Network
) -> None:
    reefcast.spark.register(spark)
    spark.sql(
        "CREATE TABLE optional (symbol STRING) USING reefcast "
        f"OPTIONS (url '{network.url}', subscribe 'quotes')"
    )
    try:
        with pytest.raises(Exception, match=r"the OPTIONS of a table .*FROM t WITH \(url"):
            spark.sql("SELECT * FROM optional").collect()
        query = f"SELECT * FROM optional WITH (url = '{network.url}', subscribe = 'quotes')"
        assert sorted(spark.sql(query).collect()) == [("IBM",), ("IBM",), ("SAP",)]
    finally:
        spark.sql("DROP TABLE optional")


def test_options_of_named_sources_are_checked_at_once(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=r"no option 'topc': .* did you mean topic"):
        reefcast.spark.register(spark, "q", topc="x")
    with pytest.raises(ConfigurationError, match=r"options .*url.* are for a source with a name"):
        reefcast.spark.register(spark, url="x")


def test_what_spark_does_not_hand_down_is_its_own_condition(
    spark: SparkSession, quotes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, Spark has learnt something that can be pushed down now."""
    query = (
        "SELECT symbol FROM quotes WITH (pushdown = 'true') "
        "WHERE (price < 1 OR symbol = 'SAP') AND price + 1 > 2 LIMIT 1"
    )
    spark.sql(query).explain("formatted")
    plan = capsys.readouterr().out
    pushed = [line for line in plan.splitlines() if line.startswith("PushedFilters")]
    assert pushed == ["PushedFilters: [IsNotNull(price)]"] or not pushed
    (schema,) = [line for line in plan.splitlines() if line.startswith("ReadSchema")]
    assert "price:double" in schema
    assert "payload" in schema, "projections are not handed down"


# --- what crosses the wire ------------------------------------------------------------------------


def test_what_rows_show(spark: SparkSession) -> None:
    from pyspark.sql.types import _parse_datatype_string

    def wanted(ddl: str) -> tuple[tuple[str, ...] | None, bool]:
        schema = _parse_datatype_string(ddl)
        found = wanted_of(schema)  # type: ignore[arg-type]  # of columns
        return found["attributes"], found["payload"]

    assert wanted("symbol STRING, seq BIGINT") == (("symbol",), False)
    assert wanted("seq BIGINT, payload BINARY") == ((), True)
    assert wanted("symbol STRING, attributes STRING") == (None, False)
    assert wanted("symbol STRING, rest MAP<STRING, STRING>") == (None, False)
    assert wanted("customer STRUCT<name: STRING>") == (None, False)
    assert wanted(schema_of("a DOUBLE, `b.c` INT")) == (("a", "b.c"), True)
    assert wanted(schema_of("")) == (None, True)


def test_only_the_attributes_that_are_asked_for_are_sent(network: Network) -> None:
    with reefcast.sync.connect(network.url) as client:
        asked = "topic = 'quotes' AND price > 100"
        cut = list(client.history(asked, attributes=["symbol"], payload=False))
        whole = list(client.history(asked))
    assert [dict(event) for event in cut] == [{"symbol": "IBM"}, {"symbol": "SAP"}]
    assert [event.id for event in cut] == [event.id for event in whole]
    assert {event.payload for event in cut} == {b""}
    assert {event.payload for event in whole} == {b"raw"}
    assert max(len(event.body) for event in cut) < 150
    assert min(len(event.body) for event in whole) > 1000
