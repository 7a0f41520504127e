"""The filter dialects of the Subscriptions API, and the filters of Reefcast that serve them."""

from __future__ import annotations

from typing import Any

import pytest
from cloudevents_strategies import events
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.filters import SubscriptionError, read_filters
from reefcast.cloudevents.mapping import publication_of
from reefcast.cloudevents.translating import delivered_event, prefilter_of
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication, Value

NOW_US = 1_764_000_000_123_456
NAMES = ("type", "source", "subject", "id", "n", "m", "topic", "time", "datacontenttype")
NAMES += ("specversion", "expirytime", "reefcastattributes", "dataschema")
TEXTS = (
    "a",
    "ab",
    "a%b",
    "_",
    "!",
    "5",
    "-5",
    "57",
    "true",
    "t",
    "1.0",
    "/s",
    "\ufffd",
    "/reefcast/p",
)
TEXTS += ("reefcast.event", "event", "r", "p:1", "2", "application/json", "O'H", "Z", "x://y")


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda operator, members: {operator: members},
        st.sampled_from(("exact", "prefix", "suffix")),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=2),
    )


SQL = st.sampled_from(
    (
        *("type = 'a'", "n > 5", "EXISTS m", "NOT EXISTS m", "subject LIKE 'a%'", "n", "m = TRUE"),
        *("id = 'p:1'", "LENGTH(type) > 1", "n IN (5, 57)", "NOT (n = '5')", "1 / 0 = 1"),
        *("topic = 'a'", "NOT EXISTS datacontenttype", "NOT EXISTS Foo", "TRUE", "NOT EXISTS n"),
    )
)
FILTERS = st.recursive(
    st.one_of(conditions(), SQL.map(lambda text: {"sql": text})),
    lambda inner: st.one_of(
        st.builds(
            lambda word, filters: {word: filters},
            st.sampled_from(("all", "any")),
            st.lists(inner, min_size=1, max_size=3),
        ),
        inner.map(lambda filter: {"not": filter}),
    ),
    max_leaves=5,
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from((*TEXTS, "", "a\x01", "\x01b", "2026-11-26T00:00:00Z", "a b")),
    st.sampled_from((5, 57, -5, 0, 2**40, 5.0, 2.5, float("nan"), True, False)),
)
NATIVE = st.builds(
    lambda attributes, topics: Publication("p", 1, NOW_US, attributes, tuple(topics)),
    st.dictionaries(st.sampled_from((*NAMES, "content.type", "data.a", "Foo")), VALUES, max_size=5),
    st.lists(st.sampled_from(TEXTS), max_size=2),
)
SMALL = st.builds(
    lambda context, more: CloudEvent(
        {"specversion": "1.0", "id": "a", "source": "/s", "type": "t"} | context | more
    ),
    st.dictionaries(st.sampled_from(("type", "subject", "id", "topic")), st.sampled_from(TEXTS)),
    st.dictionaries(
        st.sampled_from(("n", "m")),
        st.one_of(st.sampled_from(TEXTS), st.sampled_from((5, -5, True))),
    ),
)
PUBLICATIONS = st.one_of(
    NATIVE, st.one_of(SMALL, events()).map(lambda event: publication_of(event, "p", 1, NOW_US))
)


@settings(max_examples=200)
@given(FILTERS, st.lists(PUBLICATIONS, min_size=1, max_size=5))
def test_prefilters_miss_nothing_and_exact_ones_mean_the_same(
    dialects: dict[str, Any], publications: list[Publication]
) -> None:
    filter = read_filters([dialects])
    prefilter = prefilter_of(filter)
    text = parse_filter(prefilter.text)
    for publication in publications:
        event = delivered_event(publication)
        holds = event is not None and filter.holds(event.context)
        assert text.matches(publication) or not holds
        if prefilter.exact and event is not None:
            assert text.matches(publication) == holds


def translated(*dialects: object) -> tuple[str, bool]:
    return prefilter_of(read_filters(list(dialects)))


def test_what_common_filters_become() -> None:
    assert translated() == ("TRUE", True)
    assert translated({"exact": {"type": "com.example.push"}}) == (
        "\"type\" = 'com.example.push'",
        True,
    )
    assert translated({"prefix": {"type": "a_"}}, {"suffix": {"subject": ".jpg"}}) == (
        "(\"type\" LIKE 'a!_%' ESCAPE '!' AND \"subject\" LIKE '%.jpg')",
        True,
    )
    assert translated({"exact": {"n": "5"}}) == ('("n" = \'5\' OR "n" = 5)', False)
    assert translated({"sql": "subject = 'a'"})[0] == "(\"subject\" = 'a' OR specversion IS NULL)"
    text, exact = translated({"not": {"any": [{"exact": {"type": "a"}}, {"exact": {"m": "b"}}]}})
    assert exact and text.startswith('(("type" IS NULL OR NOT ("type" = \'a\') OR ')


def test_conditions_are_case_sensitive_and_need_the_attribute() -> None:
    context = {"type": "Push", "n": 5, "flag": True}
    for dialects, holds in (
        ({"exact": {"type": "push"}}, False),
        ({"exact": {"type": "Push", "n": "5", "flag": "true"}}, True),
        ({"prefix": {"type": "Pu"}}, True),
        ({"suffix": {"type": "sh", "missing": "x"}}, False),
        ({"not": {"exact": {"missing": "x"}}}, True),
        ({"sql": "n + 1 = 6 AND flag"}, True),
        ({"sql": "missing = 1"}, False),
        ({"not": {"sql": "missing = 1"}}, True),
    ):
        assert read_filters([dialects]).holds(context) is holds


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({}, "filters: must be a list"),
        ([5], r"filters[0]: must be an object with one member"),
        ([{"exact": {"a": "b"}, "prefix": {"a": "b"}}], "filters[0]: must be an object with one"),
        ([{"exact": {}}], "filters[0].exact: must be an object with names"),
        ([{"exact": {"a": ""}}], "filters[0].exact.a: must be a text that is not empty"),
        (
            [{"prefix": {"Type": "b"}}],
            "filters[0].prefix.Type: no CloudEvent has such an attribute",
        ),
        ([{"suffix": {"a": "\n"}}], "filters[0].suffix.a: no attribute of a CloudEvent can be"),
        ([{"all": []}], "filters[0].all: must have at least one filter"),
        ([{"any": [{"not": []}]}], "filters[0].any[0].not: must be an object with one member"),
        ([{"sql": "type = "}], "filters[0].sql: "),
        ([{"jsonpath": "$"}], "there is no such dialect here; there are exact, prefix"),
        ([{"exact": {f"a{n}": "b" for n in range(201)}}], "more than 200 conditions"),
    ],
)
def test_what_is_wrong_with_filters(filters: object, words: str) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_filters(filters)
    assert words in str(raised.value)


def test_filters_nested_too_deep() -> None:
    filter: object = {"exact": {"a": "b"}}
    for _ in range(30):
        filter = {"not": filter}
    with pytest.raises(SubscriptionError, match="20 levels"):
        read_filters([filter])
