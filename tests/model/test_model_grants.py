"""What roles grant: values of users in their filters, and filters joined."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import FilterSyntaxError, LocalError, ProtocolError
from reefcast.model.filters import TRUE, parse_filter
from reefcast.model.grants import (
    NOTHING,
    Grant,
    Grants,
    Right,
    Template,
    UserGrant,
    both,
    either,
    required,
)
from reefcast.model.publication import Publication
from reefcast.model.subjects import Subject

conditions = st.sampled_from(
    ["a = 1", "a > 1", "b = 'x'", "b LIKE 'x%'", "a IS NULL", "NOT b = 'y'", "a + 1 > 2", "TRUE"]
)
filters = st.builds(
    lambda terms, word: f" {word} ".join(f"({term})" for term in terms),
    st.lists(conditions, min_size=1, max_size=3),
    st.sampled_from(["AND", "OR"]),
).map(parse_filter)
attributes = st.fixed_dictionaries(
    {}, optional={"a": st.integers(0, 3), "b": st.sampled_from(["x", "xy", "y"])}
)
values = st.one_of(
    st.text(max_size=8), st.booleans(), st.integers(-5, 2**63 - 1), st.floats(allow_nan=False)
)


@given(st.lists(filters, min_size=2, max_size=3), attributes)
def test_joined_filters_match_what_they_say(some: list[Any], event: dict[str, Any]) -> None:
    assert both(some[0], some[1]).holds(event) is all(each.holds(event) for each in some[:2])
    assert either(some).holds(event) is any(each.holds(event) for each in some)


def test_what_one_covers_stays_as_it_is() -> None:
    wide, narrow = parse_filter("a > 0"), parse_filter("a > 5 AND b = 'x'")
    assert both(wide, narrow) is narrow and both(narrow, wide) is narrow
    assert either([wide, narrow]) is wide and either([]) is NOTHING
    assert both(wide, parse_filter("b = 'x'")).text == "a > 0 AND b = 'x'"


@pytest.mark.long
@given(values)
def test_a_value_is_what_an_event_must_have(value: Any) -> None:
    """Whatever is in a value, the filter holds for events that have it, and for no others."""
    template = Template("a = ${claims.x}")
    try:
        filter = template.of(Subject("u", claims={"x": value}))
    except LocalError as error:
        assert "${claims.x}" in str(error) or "half a character" in str(error)
        return
    assert filter.holds({"a": value})
    for other in ("", "TRUE", 7, not value, f"{value}'"):
        assert filter.holds({"a": other}) is parse_filter("a = b").holds({"a": other, "b": value})


@pytest.mark.parametrize(
    ("claims", "text", "expected"),
    [
        (
            {"desk": ["fx", "o'x"]},
            "desk IN ('hr', ${claims.desk})",
            "\"desk\" IN ('hr', 'fx', 'o''x')",
        ),
        ({"desk": "fx"}, "desk NOT IN (${claims.desk})", "\"desk\" NOT IN ('fx')"),
        ({"desk": []}, "desk IN (${claims.desk})", "FALSE"),
        ({"desk": []}, "desk NOT IN (${claims.desk})", '"desk" IS NOT NULL'),
        ({"a": {"b": 5}}, "x BETWEEN 1 AND ${claims.a.b}", '"x" >= 1 AND "x" <= 5'),
        ({"a.b": 6, "a": {"b": 5}}, "NOT x = ${claims.a.b}", 'NOT ("x" = 6)'),
    ],
)
def test_values_of_claims(claims: dict[str, Any], text: str, expected: str) -> None:
    assert Template(text).of(Subject("u", claims=claims)).text == expected


@pytest.mark.parametrize(
    ("claims", "text", "why"),
    [
        ({}, "a = ${claims.x}", "has no value"),
        ({"x": None}, "a = ${claims.x}", "has no value"),
        ({"x": [1]}, "a = ${claims.x}", "is a list"),
        ({"x": {"y": 1}}, "a = ${claims.x}", "no text, number or truth value"),
        ({"x": 2**63}, "a = ${claims.x}", "no text, number or truth value"),
        ({"x": [1, "a"]}, "a IN (${claims.x})", "different kinds"),
        ({"x": "a"}, "a > ${claims.x} + 1", "with the values of user 'u'"),
        ({"x": "\ud800"}, "a = ${claims.x}", "half a character"),
    ],
)
def test_a_value_that_cannot_stand_there(claims: dict[str, Any], text: str, why: str) -> None:
    role = UserGrant(name="r", subscribe=Template(text))
    grant = Grants([role]).of(Subject("u", granted=("r",), claims=claims))
    assert grant is not None and grant.subscribe is NOTHING
    assert why in grant.missing[0] and "role 'r'" in grant.missing[0]


@pytest.mark.parametrize("text", ["a = ${foo}", "a = ${claims.}", "a LIKE ${user}", "${user} ="])
def test_filters_of_roles_that_are_none(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        Template(text)


def test_only_roles_have_values_of_users() -> None:
    with pytest.raises(FilterSyntaxError, match=r"line 1, column 19: .* roles only"):
        parse_filter("b = '${u}' OR a = ${user}")
    assert parse_filter("a = '${user}'").holds({"a": "${user}"})


def test_several_roles_and_none() -> None:
    grants = Grants(
        [
            UserGrant(name="r", publish=TRUE_TEMPLATE, subscribe=Template("a = 1")),
            UserGrant(name="s", subscribe=Template("b = 'x'"), rights=frozenset({Right.MOVE})),
        ]
    )
    grant = grants.of(Subject("u", granted=("r", "s", "gone")))
    assert grant is not None and grant.publish == TRUE and grant.rights == {Right.MOVE}
    assert grant.subscribe.holds({"a": 1}) and grant.subscribe.holds({"b": "x"})
    assert grant.missing == ["there is no role 'gone'"]
    nothing = grants.of(Subject("u"))
    assert nothing is not None and nothing.publish is NOTHING
    with pytest.raises(LocalError, match="user 'u' may see nothing"):
        nothing.narrowed(TRUE)
    assert grants.of(None) is None and Grants().of(Subject("u")) is None
    with pytest.raises(ProtocolError, match="user 'u' has no right to 'drain' here"):
        required(grant.rights, Right.DRAIN, "u")


def test_a_filter_that_is_too_long_with_its_grant_is_refused() -> None:
    grant = Grant("u", NOTHING, parse_filter("owner = 'u'"), frozenset())
    terms = " OR ".join(f"(a = {n} AND b = {n})" for n in range(2400))
    with pytest.raises(LocalError, match="together with what user 'u' may see"):
        grant.narrowed(parse_filter(terms))


def test_a_clients_own_inbox_and_advisory_events() -> None:
    grant = Grant("u", NOTHING, parse_filter("a = 1"), frozenset({Right.STATUS}))
    own, other = "reply.for = 'c/1'", "reply.for = 'c/2'"
    assert grant.narrowed(parse_filter(own), "c/1").text == own
    assert grant.narrowed(parse_filter(other), "c/1").text != other
    advisories = "topic LIKE '$reefcast/session/%'"
    assert grant.narrowed(parse_filter(advisories)).text == advisories
    told = Publication("$advisor:b:1", 1, 0, {}, ("$reefcast/session/full",))
    fake = Publication("mallory", 1, 0, {"reply.for": "c/1"}, ("$reefcast/session/full",))
    assert grant.sees(told) and not grant.sees(fake) and grant.sees(fake, "c/1")
    without = Grant("u", NOTHING, TRUE, frozenset())
    assert not without.sees(told) and not without.narrowed(parse_filter(advisories)).conjunctions
    some = without.narrowed(parse_filter(f"{advisories} OR b = 1"))
    assert not some.matches(told) and some.matches(Publication("p", 1, 0, {"b": 1}))


TRUE_TEMPLATE = Template("TRUE")
