"""Filters that are much work for their length, of many kinds, and large ones that people write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

ALTERNATIVES = " OR ".join(
    f"(a{i} = 'S{i}' AND b{i} > {i} AND c{i} < {i * 10})" for i in range(100)
)
LEGITIMATE = {
    "strings": "symbol IN (" + ", ".join(f"'SYM{i}'" for i in range(1000)) + ")",
    "numbers": "x = 1 OR id NOT IN (" + ",".join(map(str, range(1000))) + ")",
    "alternatives": ALTERNATIVES,
    "of the same": " OR ".join(
        f"(symbol = 'S{i}' AND price > {i} AND volume BETWEEN {i} AND {i + 5})" for i in range(80)
    ),
    "patterns": " OR ".join(f"topic MATCHES 'plant/{i}/+/temperature'" for i in range(50)),
    "letters": "größe > 5 AND straße LIKE 'Am %' AND país IN ('España', 'Perú')",
}


def _filled(unit: Callable[[int], str], between: str, size: int) -> str:
    found: list[str] = []
    length = 0
    while length < size:
        found.append(unit(len(found)))
        length += len(found[-1]) + len(between)
    return between.join(found)


def _wrapped(inside: str, levels: int, unit: Callable[[int], str]) -> str:
    for i in range(levels):
        inside = f"({inside}) AND {unit(i)}"
    return inside


def hostile(n: int) -> Iterator[tuple[str, str]]:
    """Yields (kind, filter) of about n characters."""
    strings = "x IN (" + _filled(lambda i: f"'s{i}'", ",", n // 2) + ")"
    ors = _filled(lambda i: f"a{i}=1", " OR ", n // 2)
    yield "in ints", "a IN (" + _filled(str, ",", n) + ")"
    yield "in strings", "a IN (" + _filled(lambda i: f"'{i}'", ",", n) + ")"
    yield "or eq", _filled(lambda i: f"a={i}", " OR ", n)
    yield "or attrs", _filled(lambda i: f"a{i}=1", " OR ", n)
    yield "and attrs", _filled(lambda i: f"a{i}=1", " AND ", n)
    yield "and ne", _filled(lambda i: f"a<>{i}", " AND ", n)
    yield "and ors", _filled(lambda i: f"(a{i}=1 OR b{i}=2)", " AND ", n)
    yield "ors of ands", _filled(lambda i: f"(a{i}=1 AND b{i}=2)", " OR ", n)
    yield "same and ors", _filled(lambda i: f"(a>{i} OR b>{i})", " AND ", n)
    yield "arith", _filled(lambda i: f"a+{i}", " + ", n) + " > b"
    yield "minus", "-" + _filled(lambda _: "a", " - ", n) + " > b"
    yield "parens", "(" * (n // 2) + "a" + ")" * (n // 2)
    yield "nots", "NOT " * (n // 4) + "a"
    yield "likes", _filled(lambda i: f"a LIKE '%{i}%'", " AND ", n)
    yield "like long", "a LIKE '" + "%a" * (n // 2) + "'"
    yield "ne strings", _filled(lambda i: f"a<>'{i}'", " AND ", n)
    yield "ranges", _filled(lambda i: f"(a>{2 * i} AND a<{2 * i + 1})", " OR ", n)
    yield "arith cmp", _filled(lambda i: f"a{i}+b{i}>c{i}", " AND ", n)
    yield "arith or", _filled(lambda i: f"a{i}+b{i}>c{i}", " OR ", n)
    levels = min(n // 20, 98)
    yield "nested", "".join(f"(a{i}=1 OR b{i}=2 AND " for i in range(levels)) + "c=1" + ")" * levels
    yield "topic", _filled(lambda i: f"topic MATCHES 'a/{i}/#'", " OR ", n)
    yield "wrapped", _wrapped(ors, levels, lambda i: f"b{i}=1")
    wide = f"({ors}) AND " + _filled(lambda i: f"c{i}=1", " AND ", n // 2)
    yield "wrapped wide", _wrapped(wide, levels, lambda i: f"b{i}=1")
    yield "in nested ne", _wrapped(strings, levels, lambda i: f"x<>'t{i}'")
    yield "in ne", strings + "".join(f" AND x<>'t{i}'" for i in range(levels))
    yield "in likes", f"{strings} AND " + _filled(lambda i: f"x LIKE '%s{i}%'", " AND ", n // 2)
    yield "ors in", f"({ors}) AND {strings}"
    yield "not ands", "NOT (" + _filled(lambda i: f"a{i}=1", " AND ", n) + ")"
    yield "bool attrs", _filled(lambda i: f"a{i}", " AND ", n)
    yield "bool ors", _filled(lambda i: f"a{i}", " OR ", n)
    yield "not between", _filled(lambda i: f"NOT a{i} BETWEEN 1 AND 2", " AND ", n)
    yield "unicode", _filled(lambda i: f"é{i}=1", " AND ", n)
    yield "no end", _filled(lambda i: f"a{i}=1", " AND ", n) + " AND"
    yield "no quote", _filled(lambda i: f"a{i}=1", " AND ", n) + " AND a = 'x"
    yield "commas", "a IN (" + "," * n
    yield "spaces", "a" + " " * n + "= 1"
    yield "long name", "a" * n + " = 1"
    yield "long string", "a = '" + "x" * n + "'"
    yield "digits", "a = " + "1" * n
    yield "dots", "a." * (n // 2) + "a = 1"
    yield "signs", "<" * n
    yield (
        "sums",
        " OR ".join(
            "a0+" + "+".join(f"a{i}*2" for i in range(40)) + f">{j}" for j in range(n // 250 + 1)
        ),
    )


def _list(unit: Callable[[int], str], n: int, first: int) -> str:
    return _filled(lambda i: unit(first + i), ",", n)


def _any(unit: Callable[[int], str], n: int, first: int) -> str:
    return _filled(lambda i: unit(first + i), " OR ", n)


def _all(unit: Callable[[int], str], n: int, first: int) -> str:
    return _filled(lambda i: unit(first + i), " AND ", n)


RIVALS: dict[str, Callable[[int, int], str]] = {
    "values": lambda n, s: f"a IN ({_list(str, n, s)})",
    "no values": lambda n, s: f"a NOT IN ({_list(str, n, s)})",
    "no texts": lambda n, s: "a NOT IN (" + _list("'x{}'".format, n, s) + ")",
    "lists": lambda n, s: f"{_all('a{} IN (1,5)'.format, n, 0)} AND z IN (1,{s + 2},99999)",
    "nested": lambda n, s: _any(lambda i: f"(a > {i} AND b > {i})", n, s),
    "side by side": lambda n, s: _any(lambda i: f"(a > {i} AND b < {i} AND c = {i % 3})", n, s),
    "wide": lambda n, s: _any(
        lambda i: "(" + " AND ".join(f"a{j} {'<>'[j % 2]} {i}" for j in range(8)) + ")", n, s
    ),
    "ranges": lambda n, s: _any(
        lambda i: "(" + " AND ".join(f"a{j} BETWEEN {i} AND {i + 3}" for j in range(5)) + ")", n, s
    ),
    "unequal": lambda n, s: _any(
        lambda i: "(" + " AND ".join(f"a{j} <> {i}" for j in range(3)) + ")", n, s
    ),
    "long texts": lambda n, s: _any(
        lambda i: f"(a = 'a long text {i}' AND b > 'a long text {i}')", n, s
    ),
    "sets": lambda n, s: _any(
        lambda i: f"(a IN ({i}, {i + 2}, {i + 300}) AND b IN ({i}, {i + 400}))", n, s
    ),
    "attributes": lambda n, s: _any(lambda i: f"a{i} = 1", n, s),
    "patterns": lambda n, s: _any(lambda i: f"(a LIKE 'p%{i}' AND b > {i})", n, s),
    "yes and no": lambda n, s: _all(lambda i: f"x LIKE 'a%{i}%' AND x NOT LIKE 'b%{i}%'", n, s),
    "topics": lambda n, s: _all(
        lambda i: f"t MATCHES 'a/+/{i}/#' AND NOT t MATCHES 'a/+/b{i}/#'", n, s
    ),
    "texts and patterns": lambda n, s: (
        "x NOT IN ("
        + _list("'s{}'".format, n // 2, s)
        + ") AND "
        + _all("x NOT LIKE 'q%{}%'".format, n // 3, s)
    ),
}
"""Filters of some length, the s-th of their kind: each is much work beside others of its kind."""
