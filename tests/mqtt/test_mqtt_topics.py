"""Topic names and topic filters: what is valid, and what matches."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.model.patterns import is_topic_match
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.mqtt.topics import TopicFilter, check_topic_name, is_shared, parse_topic_filter

NAMES = ("a", "/", "//", "a/b", "$SYS/x", " ", "a/$b", "/a", "a/", "é\U0001f600")
FILTERS = {
    **{name: TopicFilter("", name) for name in NAMES},
    **{text: TopicFilter("", text) for text in ("#", "+", "a/#", "+/+", "/+", "a/+/b", "+/a/#")},
    "$share": TopicFilter("", "$share"),
    "$shared/a/b": TopicFilter("", "$shared/a/b"),
    "$share/g/a/+": TopicFilter("g", "a/+"),
    "$share/g//": TopicFilter("g", "/"),
    "$share/g/#": TopicFilter("g", "#"),
    "$share/g h/$share/g/a": TopicFilter("g h", "$share/g/a"),
}


@pytest.mark.parametrize("name", NAMES)
def test_valid_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("", "is empty", id="MQTT-4.7.3-1"),
        pytest.param("a/+/b", "wildcard + at its character 2", id="MQTT-4.7.0-1"),
        pytest.param("a#", "wildcard # at its character 1", id="MQTT-4.7.0-1:#"),
    ],
)
def test_invalid_names(name: str, words: str) -> None:
    with pytest.raises(MqttError) as caught:
        check_topic_name(name)
    assert caught.value.reason is Reason.TOPIC_NAME_INVALID
    assert words in str(caught.value)


@pytest.mark.parametrize(("text", "parts"), FILTERS.items())
def test_valid_filters(text: str, parts: TopicFilter) -> None:
    assert parse_topic_filter(text) == parts
    assert is_shared(text) == bool(parts.share_name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "must not be empty", id="MQTT-4.7.3-1"),
        pytest.param("a/#/b", "level 2 is '#'", id="MQTT-4.7.1-1"),
        pytest.param("a/b#", "level 2 is 'b#'", id="MQTT-4.7.1-1:level"),
        pytest.param("##", "level 1 is '##'", id="MQTT-4.7.1-1:twice"),
        pytest.param("a+/b", "level 1 is 'a+'", id="MQTT-4.7.1-2"),
        pytest.param("a/++", "level 2 is '++'", id="MQTT-4.7.1-2:twice"),
        pytest.param("$share/", "share name '' is empty", id="MQTT-4.8.2-1"),
        pytest.param("$share//a", "share name '' is empty", id="MQTT-4.8.2-1:empty"),
        pytest.param("$share/g+/a", "share name 'g+'", id="MQTT-4.8.2-2"),
        pytest.param("$share/#/a", "share name '#'", id="MQTT-4.8.2-2:#"),
        pytest.param("$share/g", "no topic filter follows", id="MQTT-4.8.2-2:no-slash"),
        pytest.param("$share/g/", "no topic filter follows", id="MQTT-4.8.2-2:no-filter"),
        pytest.param("$share/g/a/#/b", "level 2 is '#'", id="MQTT-4.8.2-2:filter"),
    ],
)
def test_invalid_filters(text: str, words: str) -> None:
    with pytest.raises(MqttError) as caught:
        parse_topic_filter(text)
    assert caught.value.reason is Reason.TOPIC_FILTER_INVALID
    assert words in str(caught.value)


def matches(name: list[str], pattern: list[str]) -> bool:
    """The rules of section 4.7, level by level."""
    if not pattern or not name:
        return pattern in (name, ["#"])
    if pattern[0] == "#":
        return True
    return pattern[0] in ("+", name[0]) and matches(name[1:], pattern[1:])


LEVELS = st.sampled_from(("", "a", "b", "A", "$SYS", "$", "é", "e\u0301", "\n", ".*"))


@given(
    st.lists(LEVELS, min_size=1, max_size=4),
    st.lists(LEVELS | st.just("+"), max_size=4),
    st.booleans(),
)
@example(["$SYS", "a"], [], True)
@example(["$SYS", "a"], ["+", "a"], False)
@example(["$SYS", "a"], ["$SYS"], True)
@example(["é"], ["e\u0301"], False)
def test_matching(levels: list[str], pattern: list[str], open_end: bool) -> None:
    """MATCHES is what the standard asks for: MQTT-4.7.1-1 to 4.7.3-4."""
    name = "/".join(levels)
    pattern = [*pattern, "#"] if open_end or not pattern else pattern
    text = "/".join(pattern)
    if not name or not text:
        return
    hidden = name.startswith("$") and text[0] in "+#"
    assert is_topic_match(name, text) == (not hidden and matches(levels, pattern))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("$SYS/x", "#", False, id="MQTT-4.7.2-1"),
        pytest.param("$SYS/x", "+/x", False, id="MQTT-4.7.2-1:+"),
        pytest.param("$SYS/x", "$SYS/#", True, id="4.7.2:named"),
        pytest.param("sport", "sport/#", True, id="4.7.1.2:parent"),
        pytest.param("é", "e\u0301", False, id="MQTT-4.7.3-4"),
        pytest.param("ACCOUNTS", "Accounts", False, id="4.7.3:case"),
        pytest.param("/finance", "+", False, id="4.7.1.3:+"),
        pytest.param("/finance", "+/+", True, id="4.7.1.3:+/+"),
    ],
)
def test_matching_by_example(name: str, text: str, expected: bool) -> None:
    assert is_topic_match(name, text) is expected
