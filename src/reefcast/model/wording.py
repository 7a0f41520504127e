"""Expressions and values as people write and read them.

`expression.to_sql` writes for Spark, with every name in quotes and every float with an exponent;
`readable` says the same as a person would have written it, and the parser reads it back.
"""

from __future__ import annotations

import re

from reefcast.model.expression import Expression, literal_to_sql, to_sql
from reefcast.model.publication import Value
from reefcast.model.values import Kind, is_nan, kind_of

KEYWORDS = frozenset(
    {
        *("AND", "OR", "NOT", "TRUE", "FALSE", "NULL"),
        *("BETWEEN", "IN", "IS", "LIKE", "ESCAPE", "MATCHES"),
    }
)
"""The keywords of `filter.lark`: a name that equals one of these is written in double quotes."""

LONGEST_STRING = 80
"""Characters of a value's string that are shown."""

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[0-9.]+e0\b""")
_KINDS = {Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.BOOLEAN: "a boolean"}


def readable(expression: Expression) -> str:
    """Return the text of an expression, where possible with names without quotes and floats without
    exponents."""
    return _TOKEN.sub(_plainer, to_sql(expression))


def _plainer(token: re.Match[str]) -> str:
    text = token.group()
    if text[0] == "'":
        return text
    if text[0] == '"':
        return readable_name(text[1:-1].replace('""', '"'))
    return text.removesuffix("e0")


def readable_name(name: str) -> str:
    """Return an attribute's name as a filter spells it."""
    if re.fullmatch(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def readable_value(value: Value) -> str:
    """Return a value as a constant of the filter language, but NaN and infinities by name and long
    strings cut."""
    if isinstance(value, str):
        shown = value if len(value) <= LONGEST_STRING else value[:LONGEST_STRING] + "..."
        return literal_to_sql(printable(shown))
    if isinstance(value, float):
        return "NaN" if is_nan(value) else repr(float(value))
    return literal_to_sql(value)


def printable(text: str) -> str:
    """Return the text with control characters, which could do anything to a terminal, escaped as in
    Python."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def kind_in_words(value: Value) -> str:
    return _KINDS[kind_of(value)]
