"""Topic filters and conditions of MQTT subscriptions as filters of Reefcast."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import FilterSyntaxError
from reefcast.model.effort import FilterLimits
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.patterns import is_topic_match
from reefcast.model.reserved import names_reserved
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.mqtt.subscribing import MqttSubscription, Origin, subscription_of
from reefcast.mqtt.topics import parse_topic_filter

LIMITS = FilterLimits(2400, 100, 200)
CONDITIONS = (
    *("a > 1", "a = 1 OR b = 'x'", "NOT a = 1", "a IS NULL", "b LIKE '100%'", "a/2 + 1 > 1"),
    *("\"größe\" = 3 OR b = 'it''s / # + %2F'", "topic MATCHES 'x/#' OR a = 1", "TRUE", "FALSE"),
)
EVENTS = tuple(
    {name: value for name, value in (("a", a), ("b", b), ("größe", 3 if a == 1 else None)) if value}
    for a in (None, 1, 2, 3.5)
    for b in (None, "x", "100 %", "it's / # + %2F")
)
LEVELS = ("a", "x", "+", "it's", "", "é", "%41", "b c")
levels = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=3)
topic_filters = st.builds(
    lambda names, open: "/".join(names + ["#"] * open) or "/", levels, st.booleans()
) | st.sampled_from(("#", "+/a", "$a/#", "$a/x"))
TOPICS = ("a", "x", "x/a", "it's", "it's/é", "/a", "a/x/b c", "$a/x", "$a", "%41", "A")
conditions = st.sampled_from(CONDITIONS)


def want(text: str, *properties: tuple[str, str]) -> MqttSubscription:
    return subscription_of(text, properties, LIMITS)


def refusal(text: str, *properties: tuple[str, str]) -> MqttError:
    with pytest.raises(MqttError) as caught:
        want(text, *properties)
    assert "\n" not in str(caught.value)
    return caught.value


@given(topic_filters, conditions, st.sampled_from(("", "$share/g/")))
def test_all_ways_to_write_a_condition_mean_the_same(
    pattern: str, condition: str, share: str
) -> None:
    by_property = want(share + pattern, ("other", "x"), ("filter", condition))
    by_topic = want(f"{share}$filter/{quote(condition, safe='')}/{pattern}")
    assert by_property.text != by_topic.text
    for found in (by_property, by_topic):
        assert (found.pattern, found.condition) == (pattern, condition)
        assert found.group == ("g" if share else "")
    assert by_property.filter == by_topic.filter
    meant, also = parse_filter(by_topic.filter), Filter(condition)
    for event in EVENTS:
        for topic in TOPICS:
            expected = is_topic_match(topic, pattern) and also.holds(event, (topic,))
            assert meant.holds(event, (topic,)) == expected


@given(topic_filters)
def test_a_topic_filter_alone(pattern: str) -> None:
    found = want(pattern)
    assert (found.text, found.pattern, found.group) == (pattern, pattern, "")
    assert found.condition is None
    meant = parse_filter(found.filter)
    for topic in TOPICS:
        assert meant.holds({}, (topic,)) == is_topic_match(topic, pattern)


@given(st.text("ab%/$+#'é ", max_size=12), st.sampled_from(("", "$share/g/")))
def test_every_other_topic_filter_is_that_of_the_standard(text: str, share: str) -> None:
    if text.startswith("$filter/"):
        return
    try:
        expected = parse_topic_filter(share + text)
    except MqttError as error:
        assert str(refusal(share + text)) == str(error)
        return
    found = want(share + text)
    assert (found.group, found.pattern) == expected
    assert found.filter == f"topic MATCHES '{expected.pattern.replace(chr(39), chr(39) * 2)}'"


@pytest.mark.parametrize(
    ("text", "condition", "pattern"),
    [
        ("$filter/price > 3/a/b", "price > 3", "a/b"),
        ("$filter/price%20%3e%203/a/b", "price > 3", "a/b"),
        ("$filter/b = '%C3%A4'/#", "b = 'ä'", "#"),
        ("$filter/b = 'ä'/#", "b = 'ä'", "#"),
        ("$filter/b = '%2541'/#", "b = '%41'", "#"),
        ("$filter/TRUE//a", "TRUE", "/a"),
        ("$filter/TRUE//", "TRUE", "/"),
        ("$filters/x/a", None, "$filters/x/a"),
        ("$filter", None, "$filter"),
        ("a/$filter/x", None, "a/$filter/x"),
    ],
)
def test_what_is_the_condition(text: str, condition: str | None, pattern: str) -> None:
    found = want(text)
    assert (found.condition, found.pattern) == (condition, pattern)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$filter/a = 1", "no topic filter follows the condition"),
        ("$filter/a = 1/", "no topic filter follows the condition"),
        ("$filter/", "no topic filter follows the condition"),
        ("$share/g/$filter/a = 1", "no topic filter follows the condition"),
        ("$filter/a = 1/$share/g/x", "write $share/<group>/$filter/<condition>/<topic filter>"),
        ("$filter/a = 1/$filter/b = 1/x", "it has two conditions; join them with AND"),
        ("$filter/a + 1 > 2/x", "contains +; encode it as %2B"),
        ("$filter/b = '#'/x", "contains #; encode it as %23"),
        ("$filter/b = '%'/x", "must follow the % at character 6 of its condition"),
        ("$filter/b = '%4'/x", "must follow the % at character 6"),
        ("$filter/b = '%FF'/x", "its condition is not UTF-8: invalid start byte at byte 5"),
        ("$filter/b = '%ED%A0%80'/x", "its condition is not UTF-8"),
        ("$filter/a = 1/x/#/y", "# must be the whole last level"),
        ("$share//$filter/a = 1/x", "the share name '' is empty"),
        ("$filter//x", "line 1, column 1: expected an attribute"),
        ("$filter/a >> 1/x", "line 1, column 4: expected an attribute, a number"),
        ("$filter/a = 1%0AAND b == 2/x", "line 2, column 7: 'equal' is written ="),
        ("$filter/TRUE) OR (TRUE/x", "line 1, column 5: expected the end of the filter"),
        ("$filter/a = ${user}/x", "stands in the filters of roles only"),
        ("$filter/TRUE/$SYS/broker", "leave the condition out"),
        ("", "must not be empty"),
    ],
)
def test_what_is_wrong_is_shown(text: str, words: str) -> None:
    error = refusal(text)
    assert words in str(error)
    assert error.reason is Reason.TOPIC_FILTER_INVALID


def test_a_wrong_condition_shows_where() -> None:
    error = refusal("a/b", ("filter", "symbol = 'IBM' AND price << 3"))
    assert "column 27" in str(error) and "in \"symbol = 'IBM' AND price << 3\"" in str(error)
    cause = error.__cause__
    assert isinstance(cause, FilterSyntaxError)
    assert (cause.line, cause.column) == (1, 27) and "a number" in cause.expected


@given(st.text("a=1'()%$/{}\n \u2028é+#", max_size=20), st.sampled_from(("", "x", "$share/g/x")))
def test_whatever_is_asked_has_an_answer(condition: str, pattern: str) -> None:
    """Also without limits of a broker."""
    for limits in (LIMITS, FilterLimits(8, 1, 2), FilterLimits(1 << 40, 1 << 40, 1 << 40)):
        for text, properties in (
            (pattern, (("filter", condition),)),
            (f"$filter/{condition}/{pattern}", ()),
            (condition, ()),
        ):
            with suppress(MqttError):
                found = subscription_of(text, properties, limits)
                assert parse_filter(found.filter)


def test_a_topic_filter_may_be_too_long_without_limits_too() -> None:
    unlimited = FilterLimits(1 << 40, 1 << 40, 1 << 40)
    assert subscription_of("x" * 65_000, (), unlimited)
    with pytest.raises(MqttError, match="its filter has 65551 characters, and may have 65536"):
        subscription_of("x" * 65_535, (), unlimited)


def test_what_is_said_fits_into_a_reason_string() -> None:
    error = refusal("a", ("filter", f"b = 'x' '{chr(0x1F600) * 15_000}'"))
    assert "line 1, column 9: expected" in str(error) and len(str(error)) < 600


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a", (("filter", "a = 1"), ("filter", "a = 1"))),
        ("$filter/a = 1/x", (("filter", "a = 1"),)),
    ],
)
def test_a_condition_is_given_once(text: str, properties: tuple[tuple[str, str], ...]) -> None:
    error = refusal(text, *properties)
    assert error.reason is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert "has 2 conditions: give one" in str(error)


def test_conditions_and_topic_filters_have_limits() -> None:
    for text, words in (
        (f"$filter/{' OR '.join(['a = 1'] * 400)}/x", "more work than 2400 steps"),
        (f"$filter/{'(' * 101}a = 1{')' * 101}/x", "nested more than 100 deep"),
        (f"$filter/{'(' * 100}a = 1{')' * 100}/x", "nested more than 100 deep"),
        (f"$filter/{'n' * 201} = 1/x", "more than 200 characters"),
        ("x" * 65_000, "more work than 2400 steps"),
    ):
        error = refusal(text)
        assert error.reason is Reason.QUOTA_EXCEEDED and words in str(error)
    deep = f"{'(' * 99}a = 1{')' * 99}"
    assert parse_filter(want(f"$filter/{deep}/x").filter).holds({"a": 1}, ("x",))


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        *(("a", Origin.CLIENTS), ("#", Origin.CLIENTS), ("+/a", Origin.CLIENTS)),
        *(("$a/#", Origin.CLIENTS), ("$SYSTEM/a", Origin.CLIENTS), ("a/$SYS/b", Origin.CLIENTS)),
        *(("$SYS/#", Origin.SYS), ("$SYS", Origin.SYS), ("$share/g/$SYS/broker/+", Origin.SYS)),
        *(("$reefcast/#", Origin.ADVISORIES), ("$reefcast/session/+", Origin.ADVISORIES)),
        ("$filter/a = 1/$reefcast/session/#", Origin.ADVISORIES),
    ],
)
def test_topics_that_others_than_clients_publish_under(text: str, origin: Origin) -> None:
    found = want(text)
    assert found.origin is origin
    assert names_reserved(parse_filter(found.filter)) == (origin is Origin.ADVISORIES)
