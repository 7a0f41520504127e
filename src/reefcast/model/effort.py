"""How much work a filter will be, from a look at its text: before it is parsed, normalised and put
into indexes, for a broker that does this for whoever asks.

The work is counted in *steps*. Each token is one, a comma half, and what costs more counts more: a
term of an OR may become rows of its own in indexes, a pattern becomes a small program. The weights
are measured: `tests/model/test_model_effort.py` has hostile filters of many kinds, and a step takes
a few microseconds in each of them. Looking stops at the limit, so this takes no longer for a longer
text.

A text that `quick` cannot read is left to lark, which takes several times as long, and again to say
what is wrong. So it may have a part of the steps only (`ODD`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from reefcast.errors import LimitError
from reefcast.model.filters import Filter, parse_quickly

ODD = 8
"""How many times as long a text takes that `quick` cannot read."""
TERM = 8
"""Steps of what may make an alternative: OR, NOT, and AND within a NOT."""
PATTERN = 20
"""Steps of a pattern, beside those for its length."""
BETWEEN = 3
"""Steps of BETWEEN, which is two comparisons."""
ARITHMETIC = 2
"""Steps of + - * and /, which are computed for each publication."""
PATTERN_CHARS, STRING_CHARS, SPACE_CHARS = 4, 64, 256
"""How many characters of a pattern, of another string or name, and of the whole text, are one
step."""

_MORE = {"arithmetic": ARITHMETIC, "between": BETWEEN}
_NAMES, _TERMS = frozenset(("word", "name")), frozenset(("or", "not"))
_TOKENS = re.compile(
    r"""
    (?P<space> [\s,]{8,} )
  | (?P<pattern> (?:LIKE|MATCHES)[ \t\r\n\f]*'[^']*(?:''[^']*)*'? )
  | (?P<string> '[^']*(?:''[^']*)*'? )
  | (?P<name> "[^"]*(?:""[^"]*)*"? )
  | (?P<or> OR\b )
  | (?P<not> NOT\b )
  | (?P<and> AND\b )
  | (?P<between> BETWEEN\b )
  | (?P<word> [^\W\d][\w.]* | [0-9.][\w.]* )
  | (?P<open> \( )
  | (?P<close> \) )
  | (?P<arithmetic> [-+*/] )
  | (?P<sign> [^\s,] )
    """,
    re.VERBOSE | re.IGNORECASE,
)


class FilterLimits(NamedTuple):
    """What a filter may be. `steps`: of work; `depth`: parentheses around each other; `name_chars`:
    characters of an attribute's name."""

    steps: int
    depth: int
    name_chars: int


def admit_filter(text: str, limits: FilterLimits) -> Filter | None:
    """Look at a filter before it is parsed. Raises `LimitError` if it exceeds a limit, and names
    the limit.

    Returns the parsed filter where it had to be parsed to know; as long as the caller keeps it,
    `parse_filter` does not parse it again."""
    steps = steps_of(text, limits)
    if steps * ODD <= limits.steps:
        return None
    filter = parse_quickly(text)
    if filter is None:
        raise LimitError(
            f"this filter is {steps} steps of work, and it is written in an unusual way, or wrong: "
            f"such a filter may have {limits.steps // ODD} steps, an eighth of filter_steps in "
            "[limits]. Write names with letters beyond ASCII in double quotes; parse_filter at the "
            "client says what is wrong"
        )
    return filter


def steps_of(text: str, limits: FilterLimits) -> int:
    """Return the steps of work that a filter will be. Raises `LimitError` at the first limit that
    is exceeded."""
    steps, depth = text.count(",") // 2 + len(text) // SPACE_CHARS, 0
    negated = False
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup
        if kind == "space":  # else each of it would be looked at
            continue
        size = token.end() - token.start()
        steps += 1
        if kind == "pattern":
            steps += PATTERN + size // PATTERN_CHARS
        elif kind == "string":
            steps += size // STRING_CHARS
        elif kind in _NAMES:
            if size > limits.name_chars + (2 if kind == "name" else 0):
                raise LimitError(
                    f"the name {text[token.start() : token.start() + 20]}... in this filter has "
                    f"more than {limits.name_chars} characters (name_chars in [limits])"
                )
        elif kind == "open":
            depth += 1
            if depth > limits.depth:
                raise LimitError(
                    f"parentheses are nested more than {limits.depth} deep in this filter "
                    "(filter_depth in [limits])"
                )
        elif kind == "close":
            depth -= 1
        elif kind in _MORE:
            steps += _MORE[kind]
        elif kind in _TERMS or (kind == "and" and negated):
            steps += TERM
            negated = negated or kind == "not"
        if steps > limits.steps:
            raise LimitError(
                f"this filter is more work than {limits.steps} steps (filter_steps in [limits]), "
                "about the number of its words, signs and values: make several subscriptions of it"
            )
    return steps
