"""A quick parser of the filter language: it reads most texts in a third of lark's time.

The grammar of `filter.lark` as functions that call each other; nodes and checks are the same
`actions`. Whatever is odd (anything that is no filter, and names beyond ASCII, for keywords are
found in them by Unicode's rules) is left to lark, which is the twin that defines what is right, and
explains errors. So no position is kept here."""

from __future__ import annotations

import re

from reefcast.model.actions import ACTIONS, MAX_DEPTH, Fault, Part
from reefcast.model.expression import Expression, Literal
from reefcast.model.values import Kind

_TOKENS = re.compile(
    r"""[ \t\r\n\f]*(
        [A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*
      | (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
      | [0-9]+
      | '[^']*(?:''[^']*)*'
      | "[^"]*(?:""[^"]*)*"
      | <=|>=|<>|--
      | [^ \t\r\n\f]
    )""",
    re.VERBOSE,
)
_SPACES = " \t\r\n\f"
KEYWORDS = frozenset(
    (
        "AND",
        "BETWEEN",
        "ESCAPE",
        "FALSE",
        "IN",
        "IS",
        "LIKE",
        "MATCHES",
        "NOT",
        "NULL",
        "OR",
        "TRUE",
    )
)
_SIGNS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_NUMERALS = frozenset("0123456789.")
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_END = ""
SHORT = 18
"""Digits of an integer that is certainly an int64."""


class _OddError(Exception):
    """The text is not for this parser."""


class _Token(str):
    """A token as actions expect it of lark."""

    __slots__ = ()
    type = ""
    start_pos = 0


class _Minus(_Token):
    __slots__ = ()
    type = "MINUS"


class _Float(_Token):
    __slots__ = ()
    type = "FLOAT"


class _True(_Token):
    __slots__ = ()
    type = "TRUE"


class _QuotedName(_Token):
    __slots__ = ()
    type = "QUOTED_NAME"


def read(text: str) -> Expression | None:
    """Return the expression that `text` says; None if lark should parse it."""
    reader = _Reader(text)
    try:
        part = reader.condition()
        if reader.word() is _END:
            expression: Expression = ACTIONS["filter"](part)
            return expression
    except (_OddError, Fault):
        pass
    return None


class _Reader:
    """`words`: the tokens, keywords in capitals, `_END` after the last one."""

    __slots__ = ("at", "depth", "words")

    def __init__(self, text: str) -> None:
        # Without spaces at its end each match has a token; they would be tried from each on.
        tokens: list[str] = _TOKENS.findall(text.rstrip(_SPACES))
        self.words = [up if (up := token.upper()) in KEYWORDS else token for token in tokens]
        self.words.append(_END)
        self.at = 0
        self.depth = 0  # of what calls itself

    def word(self) -> str:
        return self.words[self.at]

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def demand(self, word: str) -> str:
        if self.take() != word:
            raise _OddError
        return word

    # --- conditions ------------------------------------------------------------------------------

    def condition(self) -> Part:
        part = self.conjunct()
        if self.word() != "OR":
            return part
        parts = [part]
        while self.word() == "OR":
            self.at += 1
            parts.append(self.conjunct())
        return _made("or", *parts)

    def conjunct(self) -> Part:
        part = self.negand()
        if self.word() != "AND":
            return part
        parts = [part]
        while self.word() == "AND":
            self.at += 1
            parts.append(self.negand())
        return _made("and", *parts)

    def negand(self) -> Part:
        if self.word() != "NOT":
            return self.predicate()
        sign = _Token(self.deeper())
        part = self.negand()
        self.depth -= 1
        return _made("not", sign, part)

    def predicate(self) -> Part:
        part = self.sum()
        word = self.word()
        if word in _SIGNS:
            self.at += 1
            return _made("comparison", part, word, self.sum())
        if word == "IS":
            self.at += 1
            negation = self.negation()
            self.demand("NULL")
            return _made("is_null", part, negation)
        negation = self.negation()
        follow = _FOLLOWING.get(self.word())
        if follow is not None:
            self.at += 1
            return follow(self, part, negation)
        if negation is not None:
            raise _OddError
        return part

    def negation(self) -> str | None:
        return self.take() if self.word() == "NOT" else None

    def between(self, part: Part, negation: str | None) -> Part:
        low = self.sum()
        self.demand("AND")
        return _made("between", part, negation, low, self.sum())

    def among(self, part: Part, negation: str | None) -> Part:
        self.demand("(")
        listed = self.numbers()
        if not listed:
            listed = [self.value()]
            while self.word() == ",":
                self.at += 1
                listed.append(self.value())
        self.demand(")")
        return _made("in", part, negation, *listed)

    def numbers(self) -> list[Part]:
        """Parse the values of a list, if they are integers without a sign that certainly fit into
        int64; lists of them are long, and this takes a fraction of the time."""
        try:
            end = self.words.index(")", self.at)
        except ValueError:
            raise _OddError from None
        words, between = self.words[self.at : end : 2], self.words[self.at + 1 : end : 2]
        digits = "".join(words)
        if not (digits.isascii() and digits.isdigit()) or len(between) != len(words) - 1:
            return []
        if max(map(len, words)) > SHORT or between.count(",") != len(between):
            return []
        self.at = end
        return [Part(Literal(number), Kind.NUMBER, 0) for number in map(int, words)]

    def like(self, part: Part, negation: str | None) -> Part:
        pattern, escape = self.text(), None
        if self.word() == "ESCAPE":
            self.at += 1
            escape = self.text()
        return _made("like", part, negation, pattern, escape)

    def matches(self, part: Part, negation: str | None) -> Part:
        return _made("matches", part, negation, self.text())

    def text(self) -> _Token:
        word = self.take()
        if word[:1] != "'" or len(word) < 2:
            raise _OddError
        return _Token(word)

    # --- values ----------------------------------------------------------------------------------

    def sum(self) -> Part:
        part = self.product()
        while self.word() in ("+", "-"):
            part = _made("addition", part, self.take(), self.product())
        return part

    def product(self) -> Part:
        part = self.factor()
        while self.word() in ("*", "/"):
            part = _made("multiplication", part, self.take(), self.factor())
        return part

    def factor(self) -> Part:
        """Parse a factor; a number may have a sign of its own, which is not a minus applied to
        it."""
        word = self.word()
        if word in ("+", "-") and self.words[self.at + 1][:1] in _NUMERALS:
            self.at += 1
            return _made("signed", _Minus(word) if word == "-" else _Token(word), self.numeral())
        if word == "-":
            sign = _Minus(self.deeper())
            part = self.factor()
            self.depth -= 1
            return _made("minus", sign, part)
        if word == "(":
            return self.group()
        return self.operand()

    def group(self) -> Part:
        parenthesis = _Token(self.deeper())
        part = self.condition()
        self.demand(")")
        self.depth -= 1
        return _made("group", parenthesis, part)

    def deeper(self) -> str:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _OddError
        return self.take()

    def operand(self) -> Part:
        first = self.word()[:1]
        if first in _LETTERS and self.word() not in KEYWORDS:
            return _made("attribute", _Token(self.take()))
        if first == '"' and len(self.word()) > 1:
            return _made("attribute", _QuotedName(self.take()))
        return self.literal()

    def value(self) -> Part:
        """Parse a value of a list."""
        sign = self.word()
        if sign in ("+", "-"):
            self.at += 1
            return _made("signed", _Minus(sign) if sign == "-" else _Token(sign), self.numeral())
        return self.literal()

    def literal(self) -> Part:
        word = self.word()
        if word[:1] == "'":
            return _made("string", self.text())
        if word in ("TRUE", "FALSE"):
            return _made("boolean", _True(self.take()) if word == "TRUE" else _Token(self.take()))
        numeral = self.numeral()
        return _made("float" if numeral.type else "integer", numeral)

    def numeral(self) -> _Token:
        word = self.take()
        if word[:1] not in _NUMERALS or word == ".":
            raise _OddError
        return _Token(word) if word.isdigit() else _Float(word)


def _made(rule: str, *children: object) -> Part:
    part: Part = ACTIONS[rule](*children)
    return part


_FOLLOWING = {
    "BETWEEN": _Reader.between,
    "IN": _Reader.among,
    "LIKE": _Reader.like,
    "MATCHES": _Reader.matches,
}
