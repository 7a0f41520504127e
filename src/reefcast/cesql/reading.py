"""From a text to the nodes of a CESQL expression, and what is wrong with a text that is none.

The grammar is in `cesql.lark`, the checks beyond it in `actions`. Lark is loaded for the first
expression."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, cast

from reefcast.cesql.actions import transformer
from reefcast.cesql.nodes import Node
from reefcast.errors import CesqlError
from reefcast.model.actions import Fault
from reefcast.model.places import listed, place_of

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_LENGTH, MAX_TOKENS = 16 * 1024, 1024
"""Characters in an expression; and words, signs and values: reading them takes less than 100 ms."""
_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|\w+|[^\s\w]""", re.DOTALL)


def read(text: str) -> Node:
    """Return the root node of what `text` says. Raises `CesqlError`, with kind parse."""
    from lark import UnexpectedInput

    _check(text)
    try:
        return cast(Node, _parser().parse(text))  # the actions leave no tree
    except UnexpectedInput:
        _explain(text)
    except Fault as fault:
        _fail(text, fault.position, fault.message)


def _check(text: str) -> None:
    """Raise `CesqlError` for a text that is too long, or has characters that are none."""
    if len(text) > MAX_LENGTH:
        message = f"an expression has at most {MAX_LENGTH} characters, this one has {len(text)}"
        _fail(text, MAX_LENGTH, message)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _fail(text, error.start, f"{text[error.start]!r} is half a character (a lone surrogate)")
    beyond = next(islice(_TOKEN.finditer(text), MAX_TOKENS, None), None)
    if beyond is not None:
        message = f"an expression has at most {MAX_TOKENS} words, signs and values: make two of it"
        _fail(text, beyond.start(), message)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    from lark import Lark

    return Lark.open(
        "cesql.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",  # keywords are reserved everywhere
        maybe_placeholders=True,
        transformer=transformer(),
    )


# --- errors --------------------------------------------------------------------------------------

_WORDS = {
    "NAME": "an attribute or a function",
    "INTEGER": "an integer",
    "STRING": "a string",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COMPARISON": "a comparison (= != <> < <= > >=)",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "PERCENT": "'%'",
    "$END": "the end of the expression",
}


def _explain(text: str) -> NoReturn:
    """Parse once more, token by token, to learn what was expected where it fails."""
    from lark import UnexpectedCharacters, UnexpectedToken

    state = _parser().parse_interactive(text)
    hint = ""
    try:
        for _ in state.iter_parse():
            pass
        state.feed_eof()  # type: ignore[no-untyped-call]  # lark gives it no types
    except UnexpectedToken as error:
        token = error.token
        end = token.type == "$END"
        position = len(text.rstrip()) if end else token.start_pos or 0
        found = "the expression ends" if end else f"found {str(token)!r}"
        hint = _hint_for_token(text, token)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        found, hint = f"found {text[position]!r}", _hint_for_character(text, position)
    expected = _in_words(state.accepts())  # type: ignore[no-untyped-call]  # as above
    _fail(text, position, hint or f"expected {listed(expected)}, but {found}")


def _hint_for_token(text: str, token: Token) -> str:
    before = text[: token.start_pos or 0].rstrip()
    if token.type == "STRING" and before[-1:] == token[0] == text[(token.start_pos or 0) - 1]:
        return f"a {token[0]} within a string is written \\{token[0]}"
    if before[-4:].upper() == "LIKE":
        return "the pattern of LIKE is a string in quotes, such as 'a%'"
    if before[-6:].upper() == "EXISTS":
        return "EXISTS takes the name of an attribute, without parentheses"
    if token == "=" and before[-1:] == "=":
        return "'equal' is written ="
    return ""


def _hint_for_character(text: str, position: int) -> str:
    sign = text[position]
    if sign in "'\"":
        return (
            f"the string that starts here has no closing quote; {sign} within it is written "
            f"\\{sign}, and a backslash in front of a quote is no part of the string"
        )
    return _FOREIGN_SIGNS.get(sign, "")


_FOREIGN_SIGNS = {
    "&": "'and' is written AND",
    "|": "'or' is written OR",
    "!": "'not' is written NOT, and 'unequal' !=",
    "^": "'either, but not both' is written XOR",
    ".": "there are no fractions and no nested attributes in CESQL",
}
"""What to write instead of other languages' signs."""


def _in_words(terminals: set[str]) -> tuple[str, ...]:
    """Return the terminals in words: operands first, then keywords, then signs, the end last."""
    words = {_WORDS.get(name) or name.lstrip("_"): None for name in sorted(terminals, key=_rank)}
    return tuple(words)


def _rank(terminal: str) -> tuple[int, str]:
    order = list(_WORDS)
    place = order.index(terminal) if terminal in order else order.index("COMPARISON")
    return (place, terminal)


def _fail(text: str, position: int, message: str) -> NoReturn:
    raise error_at(text, position, "parse", message) from None


def error_at(text: str, position: int, kind: str, message: str) -> CesqlError:
    """Return an error at a place of an expression's text."""
    place = place_of(text, position)
    return CesqlError(
        place.said(message), kind=kind, position=position, line=place.line, column=place.column
    )
