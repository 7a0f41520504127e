from __future__ import annotations

import pytest

from reefcast.errors import FilterSyntaxError
from reefcast.model.filters import TRUE, Filter, parse_filter
from reefcast.model.publication import Publication


def publication(topics=(), **attributes):
    return Publication("p", 1, 0, attributes, tuple(topics))


def test_a_filter_holds_only_where_it_is_true():
    filter = parse_filter("a > 5")
    assert filter.holds({"a": 6})
    assert not filter.holds({"a": 5})
    assert not filter.holds({})
    assert not filter.holds({"a": "6"})
    assert not parse_filter("a").holds({"a": 1})


def test_a_filter_holds_if_it_holds_for_one_topic():
    filter = parse_filter("topic = 'x' AND a > 5")
    assert filter.matches(publication(["w", "x"], a=6))
    assert not filter.matches(publication(["w", "x"], a=5))
    assert not filter.matches(publication(["w"], a=6))
    assert not filter.matches(publication(a=6))


def test_one_topic_at_a_time():
    both = parse_filter("topic = 'x' AND topic = 'y'")
    assert not both.matches(publication(["x", "y"]))
    other = parse_filter("topic <> 'x'")
    assert other.matches(publication(["x", "y"]))
    assert not other.matches(publication(["x"]))


def test_topics_go_before_an_attribute_of_that_name():
    assert parse_filter("topic = 5").matches(publication(topic=5))
    assert not parse_filter("topic = 5").matches(publication(["x"], topic=5))
    assert parse_filter("topic IS NULL").matches(publication())
    assert not parse_filter("topic IS NULL").matches(publication(["x"]))


def test_filters_are_equal_by_text():
    assert parse_filter("a > 5") == parse_filter("a > 5")
    assert len({parse_filter("a > 5"), parse_filter("a  > 5")}) == 2
    assert parse_filter("a > 5") != "a > 5"
    assert repr(parse_filter("a > 5")) == "Filter('a > 5')"


def test_parsing_is_remembered():
    assert parse_filter("a > 17") is parse_filter("a > 17")


def test_true_is_what_its_text_says():
    parsed = parse_filter("TRUE")
    assert isinstance(TRUE, Filter)
    assert (parsed, parsed.expression) == (TRUE, TRUE.expression)
    assert TRUE.holds({})
    assert TRUE.matches(publication(["x"]))


def test_errors_come_through():
    with pytest.raises(FilterSyntaxError):
        parse_filter("a >")
