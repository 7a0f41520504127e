from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.patterns import (
    check_topic_pattern,
    is_like,
    is_topic_match,
    like_parts,
    like_prefix,
    next_prefix,
    topic_pattern_covers,
    topic_prefix,
)


def like_by_hand(text: str, parts: list) -> bool:
    """Match by the definition, character by character."""
    if not parts:
        return not text
    kind, character = parts[0]
    if kind == "%":
        return any(like_by_hand(text[start:], parts[1:]) for start in range(len(text) + 1))
    return (
        bool(text) and (kind == "_" or text[0] == character) and like_by_hand(text[1:], parts[1:])
    )


@given(st.text("ab\n", max_size=6), st.text("ab%_!\n", max_size=6), st.sampled_from(("", "!")))
def test_like_means_what_its_parts_say(text, pattern, escape):
    try:
        parts = like_parts(pattern, escape)
    except ValueError:
        return
    assert is_like(text, pattern, escape) == like_by_hand(text, parts)


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "expected"),
    [
        ("abc", "a%", "", True),
        ("abc", "a_", "", False),
        ("abc", "_b_", "", True),
        ("50%", "50!%", "!", True),
        ("505", "50!%", "!", False),
        ("a!b", "a!!b", "!", True),
        ("a\\", "a\\", "", True),
        ("a.b", "a.b", "", True),
        ("axb", "a.b", "", False),
        ("a\nb", "a%", "", True),
        ("a\nb", "a_b", "", True),
        ("\U0001f600", "_", "", True),
        ("", "%", "", True),
        ("", "_", "", False),
        ("ABC", "abc", "", False),
    ],
)
def test_like_examples(text, pattern, escape, expected):
    assert is_like(text, pattern, escape) is expected


@pytest.mark.parametrize("pattern", ["a!", "!a", "a!b%"])
def test_an_escape_character_must_escape_something(pattern):
    with pytest.raises(ValueError, match="must be followed"):
        like_parts(pattern, "!")


def test_many_wildcards_take_no_power_of_the_length():
    """A naive translation into a regular expression would run for years here."""
    assert not is_like("a" * 2000, "%a" * 30 + "b", "")


LEVELS = ("a", "b", "", "$a")
TOPICS = ["/".join(c) for n in (1, 2, 3, 4) for c in itertools.product(LEVELS, repeat=n)]
PATTERNS = [
    "/".join(levels) + end
    for n in (1, 2)
    for levels in itertools.product(("a", "b", "+", "$a"), repeat=n)
    for end in ("", "/#")
] + ["#"]


def topic_by_hand(topic: list[str], pattern: list[str]) -> bool:
    if pattern == ["#"]:
        return True
    if not topic or not pattern:
        return topic == pattern
    return pattern[0] in ("+", topic[0]) and topic_by_hand(topic[1:], pattern[1:])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_topic_patterns_are_those_of_mqtt(pattern):
    for topic in TOPICS:
        hidden = topic.startswith("$") and pattern[0] in "+#"
        expected = topic_by_hand(topic.split("/"), pattern.split("/")) and not hidden
        assert is_topic_match(topic, pattern) is expected, topic


def test_covering_of_topic_patterns_is_exact():
    matched = {p: {t for t in TOPICS if is_topic_match(t, p)} for p in PATTERNS}
    for p, q in itertools.product(PATTERNS, PATTERNS):
        assert topic_pattern_covers(p, q) == (matched[p] >= matched[q]), (p, q)


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a#", "#/a", "a+/b", "a/b+", "##", "a/#b"])
def test_misplaced_wildcards_are_refused(pattern):
    with pytest.raises(ValueError, match="topic pattern"):
        check_topic_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a", "/", "a//b", "+", "#", "+/+", "a/+/#", "$SYS/#", " "])
def test_sound_topic_patterns(pattern):
    check_topic_pattern(pattern)


@given(st.text("ab%_", max_size=5), st.text("ab", max_size=5))
def test_matches_of_like_start_with_its_prefix(pattern, text):
    prefix, rest = like_prefix(pattern, "")
    if rest == "more":
        assert not is_like(text, pattern, "") or text.startswith(prefix)
    else:
        assert is_like(text, pattern, "") == (
            text == prefix if not rest else text.startswith(prefix)
        )


def test_matches_of_topic_patterns_start_with_its_prefix():
    for pattern, topic in itertools.product(PATTERNS, TOPICS):
        prefix, rest = topic_prefix(pattern)
        if is_topic_match(topic, pattern):
            assert topic.startswith(prefix) if rest else topic == prefix


@given(st.text(min_size=1, max_size=3), st.text(max_size=3))
def test_next_prefix_bounds_exactly_what_starts_with_the_prefix(prefix, text):
    end = next_prefix(prefix)
    inside = prefix <= text and (end is None or text < end)
    assert inside == text.startswith(prefix)


def test_the_last_character_has_no_next():
    assert next_prefix("\U0010ffff") is None
    assert next_prefix("a\U0010ffff") == "b"
    assert next_prefix("\ud7ff") == "\ue000"
