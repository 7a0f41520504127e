"""Explanations: they agree with `holds`, and the predicates that they call decisive do decide."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import (
    DOMAIN,
    complicated,
    conditions,
    finite_literals,
    odd_attributes,
    predicates_of,
)

from reefcast.model import wording
from reefcast.model.explanation import Explanation, Node, explain
from reefcast.model.expression import (
    And,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Not,
    Or,
    attributes_of,
    evaluate,
    to_sql,
    truth,
)
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.language import parse
from reefcast.model.wording import readable, readable_name, readable_value

GRAMMAR = Path(wording.__file__).with_name("filter.lark").read_text(encoding="utf-8")
UNKNOWN = Comparison("=", Attribute("nobody has this"), Literal(1))

expressions = conditions(complicated, max_leaves=10)
events = st.dictionaries(
    st.sampled_from(("a", "b", "topic")),
    st.sampled_from([each for each in DOMAIN if each is not None]),
)
topics = st.lists(st.sampled_from(("a", "a/b", "$a", "b")), max_size=3)


def filter_of(expression: Expression) -> Filter:
    return Filter(to_sql(expression), expression)


def replaced(node: Node, leaf: Callable[[Node], Expression]) -> Expression:
    """Return the expression with other predicates."""
    match node.expression:
        case And():
            return And(tuple(replaced(term, leaf) for term in node.terms))
        case Or():
            return Or(tuple(replaced(term, leaf) for term in node.terms))
        case Not():
            return Not(replaced(node.terms[0], leaf))
        case _:
            return leaf(node)


def row_of(explanation: Explanation, attributes: dict) -> dict:
    topic = {} if explanation.topic is None else {"topic": explanation.topic}
    return {**attributes, **topic}


@given(expressions, events, topics)
def test_agrees_with_holds(expression, attributes, topics):
    filter = filter_of(expression)
    found = explain(filter, attributes, topics)
    assert found.matches is filter.holds(attributes, topics)
    assert found.topics == {topic: filter.holds(attributes, [topic]) for topic in topics}
    assert (found.topic is None) is (not topics)
    assert (found.tree.verdict is True) is found.matches
    assert not (found.matches and found.never())


@given(expressions, events, topics)
def test_the_tree_is_the_expression(expression, attributes, topics):
    found = explain(filter_of(expression), attributes, topics)
    row = row_of(found, attributes)
    assert replaced(found.tree, lambda node: node.expression) == expression
    nodes = [(found.tree, True)]
    while nodes:
        node, wanted = nodes.pop()
        assert node.verdict is truth(evaluate(node.expression, row))
        assert node.wanted is wanted
        below = wanted is not isinstance(node.expression, Not)
        nodes += [(term, below) for term in node.terms]


@given(expressions, events, topics)
def test_what_decides_for_a_match(expression, attributes, topics):
    """The decisive predicates are enough: with all others UNKNOWN the filter holds, and so it does
    whatever the others say (AND, OR, NOT only say more when they know more). None of them can be
    left out."""
    found = explain(filter_of(expression), attributes, topics)
    if not found.matches:
        return
    decisive = found.decisive()
    row = row_of(found, attributes)

    def kept(*nodes: Node) -> object:
        chosen = set(map(id, nodes))
        only = replaced(found.tree, lambda n: n.expression if id(n) in chosen else UNKNOWN)
        return evaluate(only, row)

    assert kept(*decisive) is True
    for spared in decisive:
        assert kept(*(node for node in decisive if node is not spared)) is not True


@given(expressions, events, topics)
def test_what_decides_against_a_match(expression, attributes, topics):
    """If the decisive predicates were as wanted, the filter would hold; none of them can be left
    out."""
    found = explain(filter_of(expression), attributes, topics)
    if found.matches:
        return
    decisive = found.decisive()
    assert all(node.verdict is not node.wanted for node in decisive)
    row = row_of(found, attributes)

    def repaired(*nodes: Node) -> object:
        chosen = set(map(id, nodes))
        other = replaced(
            found.tree, lambda n: Literal(n.wanted) if id(n) in chosen else n.expression
        )
        return evaluate(other, row)

    assert repaired(*decisive) is True
    for spared in decisive:
        assert repaired(*(node for node in decisive if node is not spared)) is not True


shapes = st.recursive(
    st.just(Attribute("p")),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: Or(tuple(terms))),
    ),
    max_leaves=7,
)


def with_names_of_their_own(shape: Expression) -> Expression:
    numbers = itertools.count()
    tree = explain(filter_of(shape), {}).tree
    return replaced(tree, lambda _: Attribute(f"p{next(numbers)}"))


@given(shapes.map(with_names_of_their_own), st.data())
def test_no_smaller_set_decides(expression, data):
    """Every set of predicates is tried."""
    names = sorted(attributes_of(expression))
    verdicts = {name: data.draw(st.sampled_from((True, False, None)), name) for name in names}
    event = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    found = explain(filter_of(expression), event)
    wanted = {node.text: node.wanted for node in found.tree.predicates()}

    def decides(chosen: tuple[str, ...]) -> bool:
        if found.matches:
            row = {name: event[name] for name in chosen if name in event}
        else:
            row = {**event, **{name: wanted[name] for name in chosen}}
        return evaluate(expression, row) is True

    smaller = range(len(found.decisive()))
    assert decides(tuple(node.text for node in found.decisive()))
    assert not any(decides(each) for n in smaller for each in itertools.combinations(names, n))


def test_of_alternatives_the_nearest_and_no_constant():
    found = explain(parse_filter("1 = 2 OR (a = 1 AND b = 2) OR c = 3 OR d = 4"), {"c": 0})
    assert [node.text for node in found.decisive()] == ["c = 3"]
    found = explain(parse_filter("1 = 2 OR (a = 1 AND b = 2)"), {})
    assert [node.text for node in found.decisive()] == ["a = 1", "b = 2"]
    found = explain(parse_filter("1 = 2 AND a = 1"), {"a": 1})
    assert [(node.text, node.hints) for node in found.decisive()] == [
        ("1 = 2", ("this is the same for every event",))
    ]
    assert found.never()


def test_topics():
    filter = parse_filter("topic MATCHES 'a/+' AND x > 1 AND y > 1")
    found = explain(filter, {"x": 2, "y": 2}, ["b", "a/b", "a/c"])
    assert (found.matches, found.topic) == (True, "a/b")
    assert found.topics == {"b": False, "a/b": True, "a/c": True}
    found = explain(filter, {"x": 1, "y": 1}, ["b", "a/b", "a/c"])
    assert (found.matches, found.topic) == (False, "a/b")
    assert [node.text for node in found.decisive()] == ["x > 1", "y > 1"]
    assert explain(filter, {"topic": "a/b", "x": 2, "y": 2}).matches


# --- what a person reads -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "event", "seen", "hint"),
    [
        ("price < 100", {"price": 120}, "price = 120", None),
        ("NOT (price < 100)", {"price": 12}, "price = 12", None),
        ("dest = 'SFO'", {}, "the event has no attribute dest", None),
        ('"a b" = 1', {}, 'the event has no attribute "a b"', None),
        ("dest = 'SFO'", {"Dest": "SFO"}, "the event has no attribute dest", "it has Dest: names"),
        ("dep_delay > 5", {"dep_dealy": 9}, "the event has no attribute dep_delay", "misspelt"),
        ("dest IS NOT NULL", {"Dest": "SFO"}, "the event has no attribute dest", "it has Dest"),
        ("dest IS NULL", {"dest": "SFO"}, "dest = 'SFO'", None),
        (
            "seats > 5",
            {"seats": "7"},
            "seats = '7'",
            "seats = '7' is a string and 5 a number: unlike kinds do not compare; "
            "publish it as a number",
        ),
        ("5 < seats", {"seats": "7"}, "seats = '7'", "publish it as a number"),
        ("seats > 5", {"seats": "many"}, "seats = 'many'", "unlike kinds do not compare"),
        ("flight = '15'", {"flight": 15}, "flight = 15", "write the constant without quotes"),
        ("flight <> '15'", {"flight": 15}, "flight = 15", "write the constant without quotes"),
        ("flight IN ('15')", {"flight": 15}, "flight = 15", "write the constant without quotes"),
        ("up = TRUE", {"up": "true"}, "up = 'true'", "publish it as a boolean"),
        ("up = TRUE", {"up": 1}, "up = 1", "publish it as a boolean"),
        ("up = 1", {"up": True}, "up = TRUE", "compare it with TRUE or FALSE"),
        ("up", {"up": 1}, "up = 1", "up = 1 is a number, and a condition needs a boolean"),
        ("up", {"up": False}, "up = FALSE", None),
        (
            "a = b",
            {"a": 1, "b": "1"},
            "a = 1, b = '1'",
            "a = 1 is a number and b = '1' a string: unlike kinds do not compare",
        ),
        ("a < 5", {"a": math.nan}, "a = NaN", "NaN equals itself and exceeds every number"),
        ("a IN (5)", {"a": math.nan}, "a = NaN", "NaN equals itself"),
        (
            "id = 9007199254740993",
            {"id": 2.0**53},
            "id = 9007199254740992.0",
            "an integer and a float compare exactly: 9007199254740992.0 is not 9007199254740993",
        ),
        ("x * 3 = 0.3", {"x": 0.1}, "x = 0.1, x * 3 = 0.30000000000000004", "differ by a rounding"),
        ("x < 0.3", {"x": 0.1 * 3}, "x = 0.30000000000000004", None),
        ("x IN (0.3)", {"x": 0.1 * 3}, "x = 0.30000000000000004", "differ by a rounding"),
        ("a / b > 1", {"a": 5, "b": 0}, "a = 5, b = 0, a / b = UNKNOWN", "a division by zero"),
        (
            "a + 1 > 1",
            {"a": 2**63 - 1},
            "a = 9223372036854775807, a + 1 = UNKNOWN",
            "a + 1 does not fit into int64, and so UNKNOWN",
        ),
        ("-a > 1", {"a": -(2**63)}, "a = -9223372036854775808, -a = UNKNOWN", "does not fit"),
        (
            "2 * (a + 1) > 1",
            {"a": "5"},
            "a = '5', 2 * (a + 1) = UNKNOWN",
            "a = '5' is a string, and arithmetic takes numbers",
        ),
        ("dest = 'SFO'", {"dest": "sfo"}, "dest = 'sfo'", "strings are case-sensitive"),
        ("dest = 'SFO'", {"dest": "SFO "}, "dest = 'SFO '", "blanks at an end"),
        ("dest IN ('LAX', 'SFO')", {"dest": "sfo"}, "dest = 'sfo'", "strings are case-sensitive"),
        ("dest = 'S%'", {"dest": "SFO"}, "dest = 'SFO'", "= takes % literally; LIKE knows"),
        ("topic = 'a/+'", {"topic": "a/b"}, "topic = 'a/b'", "MATCHES knows wildcards"),
        ("gate < '9'", {"gate": "9"}, "gate = '9'", "not as numbers"),
        ("dest LIKE 's%'", {"dest": "SFO"}, "dest = 'SFO'", "LIKE is case-sensitive"),
        ("dest LIKE 'F'", {"dest": "SFO"}, "dest = 'SFO'", "LIKE has to match the whole string"),
        ("dest LIKE 'S*'", {"dest": "SFO"}, "dest = 'SFO'", "the wildcards of LIKE are"),
        ("rate LIKE '5\\%'", {"rate": "5%"}, "rate = '5%'", "add ESCAPE '\\'"),
        ("rate LIKE '5\\x'", {"rate": "5x"}, "rate = '5x'", None),
        ("dest LIKE 'X%'", {"dest": "SFO"}, "dest = 'SFO'", None),
        ("dest NOT LIKE 'S%'", {"dest": "SFO"}, "dest = 'SFO'", None),
        ("NOT (dest LIKE 'S%')", {"dest": "SFO"}, "dest = 'SFO'", None),
        ("dest LIKE 'S%'", {"dest": 5}, "dest = 5", "patterns match only strings"),
        ("dest NOT LIKE 'S%'", {"dest": 5}, "dest = 5", "patterns match only strings"),
        ("t MATCHES 'a'", {"t": 5}, "t = 5", "patterns match only strings"),
        ("t MATCHES '#'", {"t": "$SYS/x"}, "t = '$SYS/x'", "no topic that starts with $"),
        ("t MATCHES 'a/+'", {"t": "A/b"}, "t = 'A/b'", "topics are case-sensitive"),
        ("t MATCHES 'a/+'", {"t": "/a/b"}, "t = '/a/b'", "a slash at an end makes one more level"),
        (
            "t MATCHES 'a/+'",
            {"t": "a/b/c"},
            "t = 'a/b/c'",
            "the topic has 3 levels and the pattern 2: + is exactly one, # the rest",
        ),
        ("t MATCHES 'a/+'", {"t": "b/c"}, "t = 'b/c'", None),
        ("NOT (t MATCHES 'a/+')", {"t": "a/c"}, "t = 'a/c'", None),
        (
            "(a AND b) = TRUE",
            {"a": True, "b": False},
            "a = TRUE, b = FALSE, (a AND b) = FALSE",
            None,
        ),
    ],
)
def test_hints(filter, event, seen, hint):
    (node,) = explain(parse_filter(filter), event).decisive()
    assert node.seen_text == seen
    if hint is None:
        assert node.hints == ()
    else:
        assert len(node.hints) == 1
        assert hint in node.hints[0]


def test_no_hints_where_nothing_is_amiss():
    found = explain(parse_filter("price < 100 OR seats > 5"), {"price": 1, "seats": "7"})
    assert [node.hints for node in found.tree.predicates()] == [(), ()]
    found = explain(parse_filter("price < 100 AND seats > 5"), {"price": 1, "seats": "7"})
    assert [len(node.hints) for node in found.tree.predicates()] == [0, 1]


@given(expressions, events)
def test_every_predicate_can_be_said(expression, attributes):
    """Any predicate and any event give hints without an error."""
    for node in explain(filter_of(expression), attributes).tree.predicates():
        assert node.text and all(node.hints) and json.dumps([node.seen_text, node.hints])


@given(
    conditions(complicated | predicates_of(odd_attributes))
    | st.builds(Comparison, st.just("="), odd_attributes, finite_literals)
)
def test_readable_text_is_read_back(expression):
    # once through the parser, which knows no BETWEEN and no nested AND of ANDs afterwards
    parsed = parse(to_sql(expression))
    assert parse(readable(parsed)) == parsed


def test_readable_is_readable():
    text = 'price < 100 AND x * 1.5 >= 2.0 AND s LIKE \'"a" 1.0e0\' AND "and" = 1e+22'
    assert readable(parse(text)) == text


def test_keywords_are_those_of_the_grammar():
    assert set(re.findall(r': "([a-z]+)"i$', GRAMMAR, re.MULTILINE)) == {
        each.lower() for each in wording.KEYWORDS
    }
    assert [readable_name(each) for each in ("Not", "a1", "a.b", "a.1", "1a", 'a"b', "größe")] == [
        '"Not"',
        "a1",
        "a.b",
        '"a.1"',
        '"1a"',
        '"a""b"',
        "größe",
    ]


def test_values():
    assert list(map(readable_value, (5, -0.0, 1e22, math.inf, math.nan, True, "it's"))) == [
        "5",
        "-0.0",
        "1e+22",
        "inf",
        "NaN",
        "TRUE",
        "'it''s'",
    ]
    assert readable_value("a\x1b[2J\n") == "'a\\x1b[2J\\n'"
    assert readable_value("x" * 100) == "'" + "x" * 80 + "...'"
