"""Workloads made by Spark: one seed gives one workload, and what was requested is what is
measured."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast_lab.cli import workload as cli
from reefcast_lab.experiments.covering.crowd import covering_degree

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "spark-datasets.md"
STOCKS = "event BIGINT, time_us BIGINT, symbol STRING, price DOUBLE, volume BIGINT, rest DOUBLE"


def rows_of(frame):
    return [tuple(row) for row in frame.orderBy(frame.columns[0]).collect()]


@pytest.fixture
def stream(spark):
    """Return a function of what is asked of a stream."""
    from reefcast_lab.workloads.synthetic import Stream, synthetic_events

    return lambda *asked, **named: synthetic_events(spark, Stream(*asked, **named))


# --- events --------------------------------------------------------------------------------------


def test_events_do_not_depend_on_partitions(stream, monkeypatch):
    from reefcast_lab.workloads import synthetic

    one = stream(500, 10, 5, 1.0, seed=3)
    monkeypatch.setattr(synthetic, "ROWS_OF_A_TASK", 70)
    many = stream(500, 10, 5, 1.0, seed=3)
    assert (one.rdd.getNumPartitions(), many.rdd.getNumPartitions()) == (1, 8)
    assert rows_of(one) == rows_of(many)
    assert rows_of(one) != rows_of(stream(500, 10, 5, 1.0, seed=4))


def test_events_are_what_they_should_be(stream):
    events = stream(4000, 3, 2, 2.0, 10.0)
    assert dict(events.dtypes) == {
        "event": "bigint",
        "time_us": "bigint",
        "topic": "array<string>",
        "class": "string",
        "price": "bigint",
        "x1": "double",
        "x2": "double",
        "x3": "double",
    }
    found = rows_of(events)
    assert [row[:2] for row in found] == [(i, i * 100_000) for i in range(4000)]
    topics, classes = Counter(row[2][0] for row in found), Counter(row[3] for row in found)
    assert {name: round(n / 4000, 1) for name, n in classes.items()} == {
        "c0": 0.7,  # 1, 1/4 and 1/9 of their sum
        "c1": 0.2,
        "c2": 0.1,
    }
    assert set(topics) == {"t0", "t1"} and 0.77 < topics["t0"] / 4000 < 0.83
    for i in (5, 6, 7):
        numbers = [row[i] for row in found]
        assert min(numbers) >= 0 and max(numbers) < 1 and len(set(numbers)) == 4000
        assert 0.48 < sum(numbers) / 4000 < 0.52
    prices = [row[4] for row in found]
    assert 0 <= min(prices) < 1000 and 999_000 < max(prices) < 1_000_000
    assert "topic" not in stream(10).columns


def test_no_task_has_more_than_its_part_of_a_popular_class(stream, monkeypatch):
    from pyspark.sql import functions as F

    from reefcast_lab.workloads import synthetic

    monkeypatch.setattr(synthetic, "ROWS_OF_A_TASK", 1000)
    sizes = stream(9500, 1000, zipf=3.0).groupBy(F.spark_partition_id()).count()
    assert sorted(row["count"] for row in sizes.collect()) == [950] * 10


def test_how_popular_classes_are_is_measured(stream):
    from reefcast_lab.workloads.measures import popularity_reached

    found = popularity_reached(stream(50_000, 40, zipf=1.5), "class")
    assert (found["events"], found["values"]) == (50_000, 40)
    assert found["zipf"] == pytest.approx(1.5, abs=0.05)
    assert found["most_share"] == pytest.approx(0.44, abs=0.02)
    assert popularity_reached(stream(50, 2), "class")["zipf"] is None  # too few to tell


# --- filters that match a given share ------------------------------------------------------------


@pytest.mark.parametrize(
    ("selectivity", "zipf"), [pytest.param(0.1, 0.0, marks=pytest.mark.soak), (0.05, 1.0)]
)
def test_filters_match_the_share_asked_for(stream, tmp_path, selectivity, zipf):
    from reefcast_lab.workloads.boxes import Boxes
    from reefcast_lab.workloads.jobs import Clients, write_boxes

    asked = Boxes(200, selectivity, zipf)
    made = write_boxes(stream(20_000), asked, Clients(brokers=("b1", "b2")), tmp_path)
    found = {row.measure: row for row in made.measured}
    assert (found["mean_share"].asked, found["zipf"].asked) == (selectivity, zipf)
    assert found["mean_share"].reached == pytest.approx(selectivity, rel=0.05)
    assert found["zipf"].reached == pytest.approx(zipf, abs=0.15)
    assert made.table.rows == 200 and list(made.table.columns) == [
        *("subscription", "filter", "client", "broker")
    ]


def test_filters_of_a_skewed_data_set(spark, tmp_path):
    """It has attributes that go together, few values, missing ones, and one price for nine
    tenths."""
    from reefcast_lab.workloads.boxes import Boxes
    from reefcast_lab.workloads.jobs import Clients, write_boxes

    rows = spark.range(5000).selectExpr(
        "id AS event",
        "if(id % 10 < 3, id % 7, 3L) AS volume",
        "if(id % 11 = 0, NULL, (id * 7919 % 5000) / 10D) AS `last price`",
        "'A' AS symbol",
    )
    made = write_boxes(rows, Boxes(300, 0.2), Clients("advertisements"), tmp_path)
    found = {row.measure: row.reached for row in made.measured}
    assert found["mean_share"] == pytest.approx(0.2, rel=0.1)
    stored = rows_of(spark.read.parquet(made.table.path))
    assert [(row[0], row[2]) for row in stored] == [(i, f"a{i}") for i in range(300)]
    assert all('"last price" BETWEEN ' in row[1] for row in stored)


def test_filters_do_not_depend_on_partitions(stream):
    from reefcast_lab.workloads.boxes import Boxes, box_filters

    events = stream(3000)
    asked = Boxes(50, 0.1, 0.5, ("x1", "price"), seed=2)
    first = rows_of(box_filters(events, asked))
    assert first == rows_of(box_filters(events.repartition(5), asked))
    assert all(parse_filter(text).text == text for _, text in first)


@pytest.mark.parametrize("named", [("class",), ("x9",), ("event",)])
def test_attributes_that_are_no_numbers(stream, named):
    from reefcast_lab.workloads.boxes import Boxes, box_filters

    with pytest.raises(ConfigurationError, match=f"{named[0]}: no attribute of numbers; there are"):
        box_filters(stream(10), Boxes(1, 0.5, 0.0, named))


def test_no_event_has_all_attributes(spark):
    from reefcast_lab.workloads.boxes import Boxes, box_filters

    events = spark.createDataFrame(
        [(0, 1.0, None), (1, None, 1.0)], "event INT, a DOUBLE, b DOUBLE"
    )
    with pytest.raises(ConfigurationError, match="no event of the sample has all of a, b"):
        box_filters(events, Boxes(1, 0.5))


# --- covering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "degree"),
    [
        (64, 9),
        (20, 0),
        (19, 9),
        *(pytest.param(filters, 9, marks=pytest.mark.soak) for filters in (10, 59, 60)),
    ],
)
def test_filters_have_the_covering_degree_asked_for(spark, filters, degree):
    from reefcast.pipeline.matching.covering import triggered
    from reefcast_lab.workloads.covered import Covered, covered_filters

    asked = Covered(filters, degree, 0.02, seed=5)
    made = rows_of(covered_filters(spark, asked))
    assert [row[0] for row in made] == list(range(filters))
    assert len({row[1] for row in made}) == filters
    subscriptions = covered_filters(spark, asked).withColumnRenamed("number", "subscription")
    found = rows_of(triggered(subscriptions))
    assert [row[1] for row in found] == [degree] * asked.classes
    assert covering_degree(text for _, text in made) == degree


def test_covering_of_equal_filters_and_of_chains(spark):
    from reefcast.pipeline.matching.covering import triggered

    texts = ["a > 1", "a > 1", "a > 2", "a > 3 AND b = 1", "b = 1", "FALSE"]
    rows = spark.createDataFrame(list(enumerate(texts)), "subscription BIGINT, filter STRING")
    assert rows_of(triggered(rows.repartition(3))) == [(0, 1), (4, 0)]


@pytest.mark.parametrize(
    ("filters", "degree", "selectivity", "says"),
    [
        (10, 10, 0.1, "10 filters cannot have a covering degree of 10"),
        (2_000_000, 999_999, 0.5, "give a selectivity from 2e-06 to"),
        (10, 1, 0.0, "give a selectivity from 2e-06"),
    ],
)
def test_covering_that_cannot_be(filters, degree, selectivity, says):
    from reefcast_lab.workloads.covered import Covered

    with pytest.raises(ConfigurationError, match=says):
        Covered(filters, degree, selectivity).check()


# --- advertisements ------------------------------------------------------------------------------

QUOTES = [
    (0, 0, "A", 1.5, 10, 1.0),
    (1, 1, "A", 0.1, 20, None),
    (2, 2, "O'K", -7.25, 5, 3.0),
    (3, 3, None, 1.0, 1, 1.0),
]


def test_advertisements_hold_what_was_published(spark, tmp_path):
    from reefcast_lab.workloads.jobs import Clients, write_advertisements

    events = spark.createDataFrame(QUOTES, STOCKS)
    made = write_advertisements(events, "symbol", Clients("advertisements"), tmp_path)
    stored = spark.read.parquet(made.table.path)
    assert sorted(tuple(row)[1:] for row in stored.collect()) == [
        ("symbol = 'A' AND price BETWEEN 0.1 AND 1.5 AND volume BETWEEN 10 AND 20", "A"),
        (
            "symbol = 'O''K' AND price BETWEEN -7.25 AND -7.25 AND volume BETWEEN 5 AND 5 "
            "AND rest BETWEEN 3.0 AND 3.0",
            "O'K",
        ),
    ]
    figures = {row.measure: (row.asked, row.reached) for row in made.measured}
    assert figures == {"inside": (1.0, 1.0), "per_event": (None, 1.0), "mean_share": (None, 0.5)}


def test_publishers_must_be_named_by_strings(spark):
    from reefcast_lab.workloads.advertising import advertisements

    with pytest.raises(
        ConfigurationError, match="price: no attribute of strings; there are symbol"
    ):
        advertisements(spark.createDataFrame(QUOTES, STOCKS), "price")


# --- commands ------------------------------------------------------------------------------------


@pytest.fixture
def run(spark, monkeypatch):
    """Run a command in the tests' own session; return what it prints in JSON."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)

    def run(*arguments):
        words = [*map(str, arguments), "--json"]
        result = CliRunner().invoke(cli.command, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def figures_of(told):
    return {row["measure"]: (row["asked"], row["reached"]) for row in told["measured"]}


def test_the_commands_hang_together(spark, run, tmp_path):
    network = tmp_path / "net.toml"
    network.write_text(
        '[[broker]]\nname = "b1"\nlisten = "127.0.0.1:7301"\n'
        '[[broker]]\nname = "b2"\nlisten = "127.0.0.1:7302"\n[[link]]\nbetween = ["b1", "b2"]\n'
    )
    told = run("events", tmp_path, "--publications", 5000, "--classes", 4, "--zipf", 1)
    events = tmp_path / "events.parquet"
    assert told["path"] == str(events) and told["rows"] == 5000
    assert figures_of(told)["values"] == (4.0, 4.0)

    asked = ["--subscriptions", 30, "--attribute", "price", "--network", network]
    told = run("matching", events, tmp_path, *asked)
    assert figures_of(told)["mean_share"] == (0.02, pytest.approx(0.02, rel=0.1))
    stored = spark.read.parquet(told["path"])
    assert {row["broker"] for row in stored.collect()} == {"b1", "b2"}

    told = run("covering", tmp_path / "c", "--subscriptions", 40, "--degree", 9)
    assert figures_of(told)["covering_degree"] == (9.0, 9.0)
    assert figures_of(told)["mean_share"] == (0.0295, pytest.approx(0.0295, rel=0.05))

    told = run("advertisements", events, tmp_path, "--by", "class")
    assert told["rows"] == 4 and figures_of(told)["inside"] == (1.0, 1.0)
    measured = spark.read.parquet(str(tmp_path / "measured.parquet"))
    assert ("inside", 1.0, 1.0) in [tuple(row) for row in measured.collect()]


def test_interests_are_as_correlated_as_asked_for(spark, run, tmp_path):
    asked = ["--clients", 500, "--topics", 60, "--correlation", 0.25]
    told = run("interests", tmp_path, *asked)
    assert figures_of(told)["pairs_95"] == (0.25, pytest.approx(0.25, abs=0.06))
    stored = [tuple(row) for row in spark.read.parquet(told["path"]).collect()]
    assert sorted(row[0] for row in stored) == list(range(len(stored)))
    assert len({row[1:] for row in stored}) == len(stored) == told["rows"]
    grid = figures_of(run("interests", tmp_path, "--clients", 500, "--topics", 60))
    assert grid["pairs_95"][0] is None and grid["pairs_95"][1] > 0.35


def test_people_are_told_in_tables(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    words = ["covering", str(tmp_path), "--subscriptions", "20", "--degree", "4"]
    told = CliRunner().invoke(cli.command, words, catch_exceptions=False).stdout
    assert f"subscriptions: 20 rows, {tmp_path}/subscriptions.parquet" in told
    assert [line.split()[1:-1:2] for line in told.splitlines() if "covering_degree" in line] == [
        ["covering_degree", "4", "4"]
    ]


def test_events_must_be_there(spark, tmp_path):
    from reefcast_lab.workloads.jobs import read_events

    with pytest.raises(ConfigurationError, match="there are no Parquet files of events"):
        read_events(spark, tmp_path)
    spark.range(3).write.parquet(str(tmp_path / "ids"))
    with pytest.raises(ConfigurationError, match="there is no column event"):
        read_events(spark, tmp_path / "ids")


EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_of_spark_datasets_md_run(spark, tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[number], PAGE.name, "exec"), {"__name__": "example"})
