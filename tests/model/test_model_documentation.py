"""Every example of docs/reference/filter-language.md is executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reefcast.errors import FilterSyntaxError
from reefcast.model.filters import parse_filter

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "filter-language.md").read_text(
    encoding="utf-8"
)
ROWS = re.findall(r"^\| `(.+)` \| `(\{.*\})` \| (yes|no) \|$", PAGE, re.MULTILINE)
FILTERS = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()
ERRORS = re.findall(r'>>> reefcast.parse_filter\("(.*)"\)\n(.*?)\n```', PAGE, re.DOTALL)


def test_there_are_examples():
    assert (len(ROWS), len(FILTERS), len(ERRORS)) >= (25, 5, 1)
    assert PAGE.count("| yes |") + PAGE.count("| no |") == len(ROWS)


@pytest.mark.parametrize(("text", "event", "matches"), ROWS)
def test_tables(text, event, matches):
    attributes = json.loads(event)
    filter = parse_filter(text)
    assert filter.holds(attributes) is (matches == "yes")
    assert any(each.holds(attributes) for each in filter.conjunctions) is (matches == "yes")


@pytest.mark.parametrize("text", FILTERS)
def test_filters(text):
    assert parse_filter(text).conjunctions


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_errors(text, message):
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    assert str(caught.value) == message


def test_errors_named_in_passing():
    for text in ("5 LIKE 'x%'", "a IN (1, 'x')", "5 AND a", "a = b = c", "a = NULL"):
        with pytest.raises(FilterSyntaxError):
            parse_filter(text)


def test_an_event_under_several_topics():
    assert parse_filter("topic <> 'a'").holds({}, ["a", "b"])
