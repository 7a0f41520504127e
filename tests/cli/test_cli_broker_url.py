"""A broker's URL need not be given: it comes from the environment, or is the default one."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from reefcast.cli.broker_url import split_words
from reefcast.cli.main import group

HERE = "reefcast://127.0.0.1:7301"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REEFCAST_URL", raising=False)


@pytest.mark.parametrize(
    ("words", "url", "others"),
    [
        (("price < 100",), HERE, ("price < 100",)),
        (("reefcast://a:1", "price < 100"), "reefcast://a:1", ("price < 100",)),
        (("reefcast://a:1,reefcast://b", "x"), "reefcast://a:1,reefcast://b", ("x",)),
        (("symbol=IBM", "price=99"), HERE, ("symbol=IBM", "price=99")),
        (("site = 'http://a:1'",), HERE, ("site = 'http://a:1'",)),
        (("site=http://a:1",), HERE, ("site=http://a:1",)),
        (("a/b:1/#",), HERE, ("a/b:1/#",)),
        ((), HERE, ()),
        # Meant as URLs, and refused as such by whoever connects.
        (("localhost:7301", "x"), "localhost:7301", ("x",)),
        (("http://a", "x"), "http://a", ("x",)),
    ],
)
def test_what_is_a_url_and_what_is_none(
    words: tuple[str, ...], url: str, others: tuple[str, ...]
) -> None:
    assert split_words(words) == (url, others)


def test_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEFCAST_URL", "reefcast://far:1")
    assert split_words(("x",)) == ("reefcast://far:1", ("x",))
    assert split_words((HERE, "x")) == (HERE, ("x",))


def test_what_is_required_is_missed() -> None:
    with pytest.raises(click.UsageError, match=r"FILTER\.\.\."):
        split_words((HERE,), "FILTER...")


@pytest.mark.parametrize("name", ["history", "publish", "storage", "subscribe"])
def test_who_talks_to_a_broker_says_what_the_url_is(name: str) -> None:
    said = " ".join(CliRunner().invoke(group, [name, "--help"]).output.split())
    assert re.search(rf"{name} \[OPTIONS\] .*?\[URL\] [A-Z[]", said)
    assert "reefcast://host:port; by default that of REEFCAST_URL" in said


@pytest.mark.parametrize(
    "arguments", [["subscribe", "localhost:7301", "x = 1"], ["publish", "http://a:1", "x=1"]]
)
def test_a_wrong_url_is_named(arguments: list[str]) -> None:
    failed = CliRunner().invoke(group, arguments).exception
    assert "does not name a broker; write reefcast://host:port" in str(failed)


def test_history_takes_one_filter() -> None:
    run = CliRunner().invoke(group, ["history", "a = 1", "b = 1"])
    assert run.exit_code == 2 and "one FILTER" in run.output
