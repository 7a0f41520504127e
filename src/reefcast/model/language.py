"""The filter language: from a text to an expression (see docs/reference/filter-language.md).

The grammar is in `filter.lark`, the checks beyond it in `actions`; `quick` reads most filters
without lark. This module has the parser, and the explanation of syntax errors."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, cast

from reefcast.errors import FilterSyntaxError
from reefcast.model import quick
from reefcast.model.actions import Fault, transformer
from reefcast.model.expression import Expression
from reefcast.model.parameters import parameters_of
from reefcast.model.places import listed, place_of

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser

MAX_LENGTH = 64 * 1024
"""Characters in a filter."""
_PARAMETER = re.compile(r"""'[^']*'|"[^"]*"|(\$\{)""")
NO_PARAMETERS = (
    "a value such as ${user} stands in the filters of roles only ([[role]] in a network file)"
)


def parse(text: str) -> Expression:
    """Return the expression that `text` says. Raises `FilterSyntaxError` with the line, the column
    and what was expected."""
    expression = parse_with_parameters(text)
    if "${" in text and parameters_of(expression):
        at = next(found.start() for found in _PARAMETER.finditer(text) if found[1])
        _fail(text, at, NO_PARAMETERS)
    return expression


def parse_with_parameters(text: str) -> Expression:
    """Return the expression of a role's filter, which may have parameters; otherwise as `parse`."""
    expression = read_quickly(text)
    return _slowly(text) if expression is None else expression


def read_quickly(text: str) -> Expression | None:
    """Return the expression that `text` says; None if only the grammar's parser can tell, which
    takes several times as long. Raises `FilterSyntaxError` for characters that no filter has."""
    _check_characters(text)
    return quick.read(text)


def _slowly(text: str) -> Expression:
    """Parse by the grammar: `quick`'s twin."""
    from lark import UnexpectedInput

    try:
        return cast(Expression, _parser().parse(text))  # the actions leave no tree
    except UnexpectedInput:
        _explain(text)
    except Fault as fault:
        _fail(text, fault.position, fault.message, fault.expected)


def _check_characters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        message = f"a filter has at most {MAX_LENGTH} characters, this one has {len(text)}"
        _fail(text, MAX_LENGTH, message)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _fail(text, error.start, f"{text[error.start]!r} is half a character (a lone surrogate)")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    from lark import Lark

    return Lark.open(
        "filter.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",  # keywords are reserved everywhere
        start="filter",
        maybe_placeholders=True,
        transformer=transformer(),
    )


# --- errors --------------------------------------------------------------------------------------


_WORDS = {
    "NAME": "an attribute",
    "QUOTED_NAME": "an attribute",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "STRING": "a string in single quotes",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COMPARISON": "a comparison (= <> < <= > >=)",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "$END": "the end of the filter",
}


def _explain(text: str) -> NoReturn:
    """Parse once more, token by token, to learn what was expected where it fails."""
    from lark import UnexpectedCharacters, UnexpectedToken

    state = _parser().parse_interactive(text)
    try:
        for _ in state.iter_parse():
            pass
        state.feed_eof()  # type: ignore[no-untyped-call]  # lark gives it no types
    except UnexpectedToken as error:
        token = error.token
        end = token.type == "$END"
        position = len(text.rstrip()) if end else token.start_pos or 0
        found = "the filter ends" if end else f"found {str(token)!r}"
        hint = _hint_for_token(token, state)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        found, hint = f"found {text[position]!r}", _hint_for_character(text, position)
    if not hint:
        position, hint = _foreign_sign(text, position)
    expected = _in_words(state.accepts())  # type: ignore[no-untyped-call]  # as above
    _fail(text, position, hint or f"expected {listed(expected)}, but {found}", expected)


def _hint_for_token(token: Token, state: InteractiveParser) -> str:
    if token.type == "_NULL":
        return "NULL may be written only after IS, as in: attribute IS NULL"
    choices = state.choices()  # type: ignore[no-untyped-call]  # lark gives it no types
    if token.type == "QUOTED_NAME" and "STRING" in choices:
        return "double quotes make a name of it; a string is written in single quotes"
    return ""


def _hint_for_character(text: str, position: int) -> str:
    rest = text[position : position + 2]
    if rest[0] == "'":
        return "the string that starts here has no closing quote (' within it is written '')"
    if rest[0] == '"':
        return "the name that starts here has no closing double quote"
    if rest == "--":
        return "put a space or parentheses between two minus signs"
    return ""


_FOREIGN_SIGNS = {
    "==": "'equal' is written =",
    "!=": "'unequal' is written <>",
    "=>": "'at least' is written >=",
    "=<": "'at most' is written <=",
    "&": "'and' is written AND",
    "|": "'or' is written OR",
    "!": "'not' is written NOT",
    "`": "the name of an attribute is written without quotes, or in double quotes",
}
"""What to write instead of other languages' signs."""


def _foreign_sign(text: str, position: int) -> tuple[int, str]:
    """Return what to write instead of the sign at the position, and where that sign starts."""
    for start in range(max(position - 1, 0), position + 1):
        for sign, hint in _FOREIGN_SIGNS.items():
            if text.startswith(sign, start) and start + len(sign) > position:
                return start, hint
    return position, ""


def _in_words(terminals: set[str]) -> tuple[str, ...]:
    """Return the terminals in words: operands first, then keywords, then signs, the end last."""
    names = sorted(terminals - {"PARAMETER"}, key=_rank)
    words = {_WORDS.get(name) or name.lstrip("_"): None for name in names}
    return tuple(words)


def _rank(terminal: str) -> tuple[int, str]:
    order = list(_WORDS)
    place = order.index(terminal) if terminal in order else order.index("COMPARISON")
    return (place, terminal)


def _fail(text: str, position: int, message: str, expected: tuple[str, ...] = ()) -> NoReturn:
    place = place_of(text, position)
    raise FilterSyntaxError(
        place.said(message), line=place.line, column=place.column, expected=expected
    ) from None
