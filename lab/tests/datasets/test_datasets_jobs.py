"""Public data sets to events: literal rows, what must be refused, and the real files."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast_lab.cli import dataset
from reefcast_lab.datasets.csv_files import plain_name
from reefcast_lab.experiments.covering.event_logs import read_log
from reefcast_lab.experiments.mesh.social import read_trace
from reefcast_lab.experiments.octopia.stocks import SHORTEST_DAYS, read_quotes

pytestmark = pytest.mark.spark


def utc_us(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1_000_000


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def made(spark, tmp_path):
    """Return the tables of a data set that consists of this file or folder, as lists of tuples."""
    from reefcast_lab.datasets.jobs import write_dataset

    def make(name, path):
        found = {}
        for table in write_dataset(spark, name, path, tmp_path / "out"):
            frame = spark.read.parquet(table.path)
            assert (table.rows, table.columns) == (frame.count(), dict(frame.dtypes))
            found[table.table] = [tuple(row) for row in frame.orderBy(frame.columns[0]).collect()]
        assert not list((tmp_path / "out").glob(".unpacked-*"))
        return found

    return make


QUOTES = """\
date,open,high,low,close,volume,adj_close,name
2015-01-13,40,42,39,41,200,38.2,B
2015-01-12,10,12,9,10,100,null,B
2015-01-12,1.5,1.75,1.25,1.5,2770800,1.4,A
2015-01-12,1.5,1.75,1.6,1.5,10,1.4,LOW-ABOVE-OPEN
2015-01-12,1.5,1.75,1.25,1.5,0,1.4,NO-VOLUME
2015-01-12,null,null,null,null,null,null,NOTHING
"""


@pytest.mark.parametrize("name", ["quotes.csv", "quotes.csv.gz"])
def test_stocks(made, tmp_path, name):
    assert made("stocks", write(tmp_path / name, QUOTES)) == {
        "events": [
            (0, utc_us(2015, 1, 12), "A", 1.5, 1.75, 1.25, 1.5, 1.4, 2_770_800, 0.0),
            (1, utc_us(2015, 1, 12), "B", 10.0, 12.0, 9.0, 10.0, None, 100, 0.0),
            (2, utc_us(2015, 1, 13), "B", 40.0, 42.0, 39.0, 41.0, 38.2, 200, 3.1),
        ]
    }


def test_stocks_of_a_folder_of_downloads_are_named_by_their_files(made, tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    heads = "Date,Open,High,Low,Close,Adj Close,Volume\n"
    write(folder / "MSFT.csv", heads + "2020-01-02 09:30:00,2,2,1,2,1.5,7\n")
    write(folder / "BRK.B.csv", heads + "2020-01-02,1,1,1,1,1,5\n")
    assert [(row[1], row[2], row[8]) for row in made("stocks", folder)["events"]] == [
        (utc_us(2020, 1, 2), "BRK.B", 5),
        (utc_us(2020, 1, 2, 9, 30), "MSFT", 7),
    ]


def test_social(made, tmp_path):
    trace = write(tmp_path / "trace.csv", "1,2,0.5\n2,1,0.25\n3,3,0\n1,o'k,1\n")
    hour_us = 3_600_000_000
    found = made("social", trace)
    assert found["events"] == [
        (0, hour_us // 4, "2", "1"),
        (1, hour_us // 2, "1", "2"),
        (2, hour_us, "1", "o'k"),
    ]
    assert {row[1:] for row in found["subscriptions"]} == {
        ("author IN ('2', 'o''k')", "u1"),
        ("author IN ('1')", "u2"),
        ("author IN ('1')", "uo'k"),
    }
    assert [row[0] for row in found["subscriptions"]] == [0, 1, 2]
    assert all(parse_filter(row[1]).text == row[1] for row in found["subscriptions"])


def test_topics(made, tmp_path):
    lines = write(
        tmp_path / "user_artists.dat", "18800\n92834\n10\t51\t13\n2 52 7\n2\t51\t9\nx y z\n"
    )
    assert made("topics", lines) == {
        "events": [
            (0, 0, ["51"], 2, 9),
            (1, 1_000_000, ["52"], 2, 7),
            (2, 2_000_000, ["51"], 10, 13),
        ],
        "subscriptions": [
            (0, "topic = '51'", "u2"),
            (1, "topic = '52'", "u2"),
            (2, "topic = '51'", "u10"),
        ],
    }


LOG = """\
case:SUM,case:concept:name,org:resource,concept:name,time:timestamp,of it,lifecycle:transition
20,7,112,pay,2011-10-01T02:00:00.250+02:00,0.5,COMPLETE
20,7,113,ship,2011-10-01T02:00:00.250+02:00,,START
,8,,pay,2011-10-01T00:00:00+02:00,2,COMPLETE
"""


def test_event_log(made, tmp_path):
    assert made("event-log", write(tmp_path / "log.csv", LOG)) == {
        "events": [
            (0, utc_us(2011, 9, 30, 22), "8", "pay", "COMPLETE", None, None, 2.0),
            (1, utc_us(2011, 10, 1) + 250_000, "7", "pay", "COMPLETE", 20, "112", 0.5),
            (2, utc_us(2011, 10, 1) + 250_000, "7", "ship", "START", 20, "113", None),
        ]
    }


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("stocks", "date,open,high\n", "no column close, low, volume"),
        ("stocks", QUOTES.replace("2015-01-13,40", "2015-01-13,many"), "does not hold what .*many"),
        ("social", "1,2,soon\n", "does not hold what .*soon"),
        ("social", "1,2,0.5\n1,2\n", "does not hold what"),
        ("topics", "a b c\n", "no line of user, topic and count"),
        ("event-log", "concept:name,time:timestamp\n", "no column case:concept:name"),
        (
            "event-log",
            "case:concept:name,concept:name,time:timestamp,a b,a:b\n",
            "would both be a_b",
        ),
        (
            "event-log",
            LOG.replace("2011-10-01T00:00:00+02:00", "then"),
            "does not hold what .*then",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(made, tmp_path, name, text, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        made(name, write(tmp_path / "file.csv", text))
    assert "file.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_that_lacks_files(made, tmp_path):
    with pytest.raises(Exception, match=r"has no flights\.csv\.zip, weather\.csv, planes\.csv"):
        made("flights", tmp_path)


@given(st.text(max_size=20))
def test_names_need_no_quotes(text):
    name = plain_name(text)
    assert name == "" or name.replace("_", "").isalnum()
    assert plain_name(name) == name


def test_the_command_knows_all_data_sets():
    from reefcast_lab.datasets.jobs import DATASETS

    assert list(dataset.NAMES) == list(DATASETS)


def test_the_command_prints_what_it_wrote(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda session: None)  # the tests' own session
    source, out = write(tmp_path / "trace.csv", "1,2,0.5\n"), tmp_path / "out"
    arguments = ["social", str(source), str(out)]
    result = CliRunner().invoke(dataset.command, arguments, catch_exceptions=False)
    assert f"subscriptions: 2 rows, {out}/subscriptions.parquet" in result.stdout
    assert "author" in result.stdout
    result = CliRunner().invoke(dataset.command, [*arguments, "--json"], catch_exceptions=False)
    events, subscriptions = json.loads(result.stdout)
    assert (events["table"], events["rows"], subscriptions["rows"]) == ("events", 1, 2)
    assert list(events["columns"]) == ["event", "time_us", "author", "wall"]


# --- the real files, against the experiments' readers --------------------------------------------


@pytest.mark.data
@pytest.mark.soak  # 600 000 events; smaller files are read every time
def test_real_stocks_are_those_of_the_experiments(made, data):
    path = data / "stocks/sp500_yahoo_482sym_2015_2020.csv.gz"
    events = made("stocks", path)["events"]
    assert [row[0] for row in events] == list(range(591_917))
    assert [row[1:3] for row in events] == sorted(row[1:3] for row in events)
    ours: dict[str, list[tuple]] = {}
    for _, _, symbol, *quote in events:
        ours.setdefault(symbol, []).append(tuple(quote))
    theirs = {quotes.symbol: quotes for quotes in read_quotes(str(path))}
    assert {s for s, days in ours.items() if len(days) >= SHORTEST_DAYS} == set(theirs)
    for symbol, quotes in theirs.items():
        days = [quotes.event(day) for day in range(len(quotes))]
        names = ("open", "high", "low", "close", "volume", "change")
        assert [(*day[:4], *day[5:]) for day in ours[symbol]] == [
            tuple(day[name] for name in names) for day in days
        ]


@pytest.mark.data
def test_a_real_social_trace_is_that_of_the_experiments(made, data):
    path = data / "social/facebook_wall_chip_all.csv.gz"
    found = made("social", path)
    trace = read_trace(path)
    assert sorted(row[2:] for row in found["events"]) == sorted(each[:2] for each in trace)
    assert [row[1] for row in found["events"]] == [round(each.at_h * 3.6e9) for each in trace]
    assert len(found["subscriptions"]) == len({user for each in trace for user in each[:2]})


@pytest.mark.data
def test_real_topics(made, data):
    found = made("topics", data / "topics/lastfm_user_artists.dat")
    assert len(found["events"]) == len(found["subscriptions"]) == 92_834
    assert len({row[2] for row in found["subscriptions"]}) == 1892
    assert len({row[1] for row in found["subscriptions"]}) == 17_632


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "process"),
    [
        pytest.param("bpic2012.csv.gz", "case:AMOUNT_REQ", marks=pytest.mark.soak),
        ("bpic2013_incidents.csv.gz", "impact"),
    ],
)
def test_real_event_logs_are_those_of_the_experiments(made, data, name, process):
    path = data / "workflow" / name
    events = made("event-log", path)["events"]
    ours: dict[str, list[str]] = {}
    for row in events:
        ours.setdefault(row[2], []).append(f"{row[3]} {row[4]}")
    theirs = [[step.activity for step in case.steps] for case in read_log(path, process)]
    assert sorted(ours.values()) == sorted(theirs)
