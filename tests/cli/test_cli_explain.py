"""`reefcast explain`: its output, as text and as JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest
from click.testing import CliRunner

from reefcast.cli.main import group
from reefcast.errors import LocalError

REEFCAST = [sys.executable, "-m", "reefcast"]


def explained(*arguments: object) -> str:
    """Run the command, which must succeed; return what it prints."""
    done = CliRunner().invoke(group, ["explain", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def records(*arguments: object) -> list[dict]:
    return list(map(json.loads, explained(*arguments, "--json").splitlines()))


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(group, ["explain", *map(str, arguments)])
    assert done.exit_code != 0
    if isinstance(done.exception, LocalError):
        return str(done.exception)
    assert done.exit_code == 2
    return done.output


@pytest.fixture
def filters(tmp_path: Path) -> Path:
    file = tmp_path / "filters.txt"
    file.write_text("dest = 'SFO'\n\n  price < 100 AND seats > 5\n", encoding="utf-8")
    return file


def test_a_filter_that_does_not_match() -> None:
    filter = "dest='SFO' AND (seats > 5 OR NOT cancelled) AND price BETWEEN 1 AND 100"
    assert explained(filter, '{"dest": "SFO", "seats": "7", "price": 120}').splitlines() == [
        "event 1: does not match: seats > 5 is UNKNOWN (seats = '7'); "
        "price <= 100 is FALSE (price = 120)",
        "",
        "  FALSE    AND",
        "  TRUE       dest = 'SFO'    dest = 'SFO'",
        "  UNKNOWN    OR",
        "> UNKNOWN      seats > 5     seats = '7'",
        "                 hint: seats = '7' is a string and 5 a number: "
        "unlike kinds do not compare; publish it as a number",
        "  UNKNOWN      NOT",
        "  UNKNOWN        cancelled   the event has no attribute cancelled",
        "  FALSE      AND",
        "  TRUE         price >= 1    price = 120",
        "> FALSE        price <= 100  price = 120",
    ]


def test_a_filter_that_matches() -> None:
    assert explained(
        "price < 100 AND NOT (seats > 5) OR x", "price=99.5", "seats=3"
    ).splitlines() == [
        "event 1: matches: price < 100 (price = 99.5); seats > 5 is FALSE (seats = 3), below NOT",
        "",
        "  TRUE     OR",
        "  TRUE       AND",
        "> TRUE         price < 100  price = 99.5",
        "  TRUE         NOT",
        "> FALSE          seats > 5  seats = 3",
        "  UNKNOWN    x              the event has no attribute x",
    ]


def test_values_are_those_of_publish() -> None:
    (record,) = records("a IS NULL AND b = 1 AND c = '1' AND d", "b=1", 'c="1"', "d=true", "a=null")
    assert record["matches"]
    assert [node["values"] for node in record["decisive"]] == [
        {"a": None},
        {"b": 1},
        {"c": "1"},
        {"d": True},
    ]
    nested = '{"order": {"price": 3, "note": null}}'
    (record,) = records("order.price < 4 AND order.note IS NULL", nested)
    assert record["matches"]


def test_as_json() -> None:
    assert records("NOT (x + 1 > 5)", '{"x": 5}', '{"X": 1}') == [
        {
            "event": 1,
            "filter": "NOT (x + 1 > 5)",
            "matches": False,
            "topic": None,
            "topics": {},
            "never": False,
            "decisive": [
                leaf := {
                    "text": "x + 1 > 5",
                    "verdict": "TRUE",
                    "wanted": False,
                    "decisive": True,
                    "values": {"x": 5, "x + 1": 6},
                    "hints": [],
                }
            ],
            "tree": {"text": "NOT", "verdict": "FALSE", "wanted": True, "terms": [leaf]},
        },
        {
            "event": 2,
            "filter": "NOT (x + 1 > 5)",
            "matches": False,
            "topic": None,
            "topics": {},
            "never": False,
            "decisive": [
                leaf := {
                    "text": "x + 1 > 5",
                    "verdict": "UNKNOWN",
                    "wanted": False,
                    "decisive": True,
                    "values": {"x": None, "x + 1": None},
                    "hints": ["it has X: names are case-sensitive"],
                }
            ],
            "tree": {"text": "NOT", "verdict": "UNKNOWN", "wanted": True, "terms": [leaf]},
        },
    ]


def test_topics() -> None:
    filter = "topic MATCHES 'a/+' AND x > 1"
    both = ("--topic", "b", "--topic", "a/b")
    assert explained(filter, "x=2", *both).startswith(
        "event 1: matches under topic 'a/b': topic MATCHES 'a/+' (topic = 'a/b'); x > 1 (x = 2)\n"
    )
    assert explained(filter, "x=1", *both).startswith(
        "event 1: does not match under any of 2 topics; under the nearest, 'a/b': x > 1 is FALSE"
    )
    assert explained(filter, "x=1", "--topic", "a/b").startswith(
        "event 1: does not match under topic 'a/b': x > 1 is FALSE"
    )
    (record,) = records(filter, "x=2", *both)
    assert (record["topic"], record["topics"]) == ("a/b", {"b": False, "a/b": True})


def test_several_filters(filters: Path) -> None:
    assert explained("--filters", filters, '{"dest": "SFO"}', '{"price": 1}').splitlines() == [
        "event 1: 1 of 2 filters match",
        "yes  dest = 'SFO'",
        "no   price < 100 AND seats > 5",
        "       price < 100 is UNKNOWN (the event has no attribute price); "
        "seats > 5 is UNKNOWN (the event has no attribute seats)",
        "",
        "event 2: 0 of 2 filters match",
        "no   dest = 'SFO'",
        "       dest = 'SFO' is UNKNOWN (the event has no attribute dest)",
        "no   price < 100 AND seats > 5",
        "       seats > 5 is UNKNOWN (the event has no attribute seats)",
    ]
    found = records("--filters", filters, '{"dest": "SFO"}', '{"price": 1}')
    assert [(each["event"], each["matches"]) for each in found] == [
        (1, True),
        (1, False),
        (2, False),
        (2, False),
    ]


def test_long_explanations_are_cut_in_the_summary_only() -> None:
    output = explained(" AND ".join(f"a{i} = {i}" for i in range(9)), "b=1")
    assert output.splitlines()[0].endswith("; and 5 more")
    assert output.count("\n> UNKNOWN") == 9


def test_what_no_event_can_match() -> None:
    assert "No event can match this filter" in explained("x < 1 AND x > 1", "x=1").splitlines()[0]


def test_nothing_reaches_the_terminal_unescaped() -> None:
    output = explained("a = '\x1b[2J'", '{"a": "\\u001b]0;x\\u0007"}')
    assert not re.search(r"[^\n\x20-\x7e]", output)


def test_rows_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"x": 1}\n\n{"x": 2}\n')
    (tmp_path / "e.csv").write_text("x,s\n1,a\n2,\n")
    for name in ("e.jsonl", "e.csv"):
        found = records("x > 1 AND s IS NULL", "--file", tmp_path / name)
        assert [each["matches"] for each in found] == [False, True]


def test_rows_of_standard_input() -> None:
    done = subprocess.run(
        [*REEFCAST, "explain", "x > 1", "--json", "--format", "csv"],
        input=b"x\n1\n2\n",
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert [json.loads(each)["matches"] for each in done.stdout.splitlines()] == [False, True]


def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text('{"x": 1}\n' * 5000)
    command = [*REEFCAST, "explain", "x > 1", "--file", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        bound = Timer(60, process.kill)
        bound.start()
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
        bound.cancel()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give a FILTER, or --filters FILE"),
        (("x >", "x=1"), "line 1, column 4: expected"),
        (("x > 1", '{"x": 1'), "event 1 is not a JSON object of attributes"),
        (("x > 1", '{"x": 1}', "x=1"), "either as JSON objects or as NAME=VALUE, not both"),
        (("x > 1", "x"), "'x' is not an attribute; write name=value"),
        (("x > 1", '{"x": 1}', '{"x": [1]}'), "event 2: attribute 'x' has the value [1]"),
        (("x > 1", '{"x": {"y": 1}, "x.y": 2}'), "event 1: attribute 'x.y' occurs twice"),
        (("x > 1", "x=1", "--file", __file__), "give either EVENTs or --file, not both"),
        (("--plan",), "no filter to plan for"),
        (("--plan", "x > 1", "x=1"), "--plan is about filters"),
        (("--plan", "x > 1", "--topic", "a"), "--plan is about filters"),
        (("--plan", "x > 1", "--file", __file__), "--plan is about filters"),
    ],
)
def test_what_cannot_be_explained(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(*arguments)


def test_a_file_of_filters_with_an_error(filters: Path) -> None:
    filters.write_text("x > 1\n\nx >\n")
    sentence = refused("--filters", filters, "x=1")
    assert sentence.startswith(f"{filters}, filter of line 3: line 1, column 4: expected")


def test_the_plan_of_an_index(tmp_path: Path) -> None:
    file = tmp_path / "filters.txt"
    lines = [f"symbol = 'S{i % 40}' AND price > {i}" for i in range(2000)]
    file.write_text("\n".join([*lines, "price < size OR x > 1"]))
    plan = json.loads(explained("--plan", "--filters", file, "--json"))
    assert (plan["filters"], plan["rows"], plan["with_residuals"]) == (2001, 2002, 1)
    assert [(each["attribute"], each["values"]) for each in plan["partitions"]] == [("symbol", 40)]
    text = explained("--plan", "--filters", file)
    assert text.startswith("filters: 2,001, rows: 2,002 (with residual conditions: 1), memory: ")
    assert re.search(r"^symbol +value +40 +2,000 +0 +40 +symbol = '", text, re.MULTILINE)
    text = explained("--plan", "--filters", file, "symbol = 'S7' AND price < size")
    assert text.endswith(
        "\n\nsymbol = 'S7' AND price < size\n"
        "  in partition symbol = 'S7' (51 rows), matched by bitmaps, "
        "and its residual conditions\n"
    )


def test_the_plan_for_one_filter() -> None:
    assert explained("--plan", "x > 1 OR y > 1").splitlines()[2:] == [
        "rows in no partition: 2, checked one by one",
        "",
        "x > 1 OR y > 1",
        "  in no partition (2 rows), checked one by one",
        "  in no partition (2 rows), checked one by one",
    ]
    found = json.loads(explained("--plan", "x > 1", "--json"))
    assert found["filter"] == {
        "text": "x > 1",
        "rows": [{"partition": None, "rows": 1, "plan": "one by one", "with_residuals": False}],
    }
    assert explained("--plan", "x > 1 AND x < 1").endswith(
        "  no event can match it: it is in the index, and costs nothing\n"
    )


def test_what_looks_like_a_mistake_is_told_on_standard_error() -> None:
    for form in ((), ("--json",)):
        arguments = ["explain", "symbol = \"IBM\" AND p > '1'", "symbol=IBM", *form]
        done = CliRunner().invoke(group, arguments)
        first, second = done.stderr.splitlines()
        assert first.startswith(
            'reefcast: warning: symbol = "IBM" AND p > \'1\': "IBM" is the name'
        )
        assert "the number is written 1, without quotes" in second
        assert "warning" not in done.stdout
    done = CliRunner().invoke(group, ["explain", "symbol = 'IBM'", "symbol=IBM"])
    assert done.stderr == ""


# --- grants ---------------------------------------------------------------------------------------

ROLES = """
[[broker]]
name = "b1"
listen = "127.0.0.1:7301"
[[role]]
name = "desk"
subscribe = "desk = ${claims.desk} AND owner = ${user}"
"""


def test_with_a_role_what_its_user_gets_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(ROLES)
    asked = ("--network", file, "--role", "desk", "--user", "anna", "--claim", "desk=fx")
    (inside,) = records(*asked, "n > 0", "n=1", "desk=fx", "owner=anna")
    (outside,) = records(*asked, "n > 0", "n=1", "desk=hr", "owner=anna")
    assert inside["matches"] and not outside["matches"]
    assert [node["text"] for node in outside["decisive"]] == ["desk = 'fx'"]
    missing = refused("--network", file, "--role", "desk", "TRUE", "n=1")
    assert "may see nothing" in missing and "${claims.desk} has no value" in missing
    assert "no role 'hr'" in refused("--network", file, "--role", "hr", "TRUE", "n=1")
    assert "give it with --network" in refused("--role", "hr", "TRUE", "n=1")
    assert "say more about a --role" in refused("--user", "anna", "TRUE", "n=1")
