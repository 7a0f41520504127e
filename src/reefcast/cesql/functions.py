"""The functions of CESQL (CESQL 1.0, section 3.5): those that are built in, and those of users."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reefcast.cesql.values import INT32_MAX, INT32_MIN, NAMES, Type, Value, cast, type_of
from reefcast.errors import LocalError

LONGEST = 1 << 20
"""Characters of a string that CONCAT may return; the standard sets no limit, but expressions are
others' texts."""
_NAME = re.compile(r"[A-Za-z][A-Za-z_]*")


class FunctionError(Exception):
    """Raised by the body of a function: an error with this text. `value` is what the function
    returns all the same; without it that is the zero value of its type. `kind` is that of the
    error (see `CesqlError`)."""

    def __init__(
        self, message: str, value: Value | None = None, *, kind: str = "functionEvaluation"
    ) -> None:
        super().__init__(message)
        self.value = value
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Function:
    """A function that expressions may call.

    `name` has letters and underscores, and is called in capitals or not. `parameters` and `returns`
    are types: str, int or bool, and object for a parameter that takes any of them. `variadic` is
    the type of further arguments, of which there may be any number; None for none. `body` gets the
    arguments cast to these types. What it raises becomes an error of the evaluation, with kind
    functionEvaluation; raise `FunctionError` to say what the value is."""

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    body: Callable[..., Value]
    variadic: Type | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise LocalError(
                f"{self.name!r} is no name of a function: use the letters a to z, and _ between "
                "them"
            )
        types = (*self.parameters, *([] if self.variadic is None else [self.variadic]))
        if self.returns not in (str, int, bool) or not all(each in NAMES for each in types):
            raise LocalError(
                f"{self.name}: a function returns str, int or bool; its parameters are of these "
                "types, or object for any"
            )

    @property
    def signature(self) -> str:
        """The name and the types, as CESQL writes them."""
        types = [NAMES[each] for each in self.parameters]
        if self.variadic is not None:
            types.append(f"{NAMES[self.variadic]}...")
        return f"{self.name.upper()}({', '.join(types)})"

    def types(self, count: int) -> tuple[Type, ...]:
        """Return the types of the parameters when the function is called with `count` arguments."""
        if self.variadic is None:
            return self.parameters
        return (*self.parameters, *[self.variadic] * (count - len(self.parameters)))

    def call(self, arguments: list[Value]) -> Value:
        """Return what the function returns. Raises `FunctionError`."""
        try:
            value = self.body(*arguments)
        except FunctionError:
            raise
        except Exception as error:  # the body is another's
            raise FunctionError(f"{type(error).__name__}: {error}") from error
        if type_of(value) is not self.returns:
            raise FunctionError(f"it returned {value!r}, which is no {NAMES[self.returns]}")
        if isinstance(value, int) and not INT32_MIN <= value <= INT32_MAX:
            raise FunctionError(f"it returned {value}, which does not fit into 32 bits")
        return value


class Functions:
    """The functions that expressions may call: the built-in ones and those given.

    Raises `LocalError` where two could not be told apart: functions of one name differ in the
    number of their parameters, and a variadic one has more of them than all others."""

    def __init__(self, given: Iterable[Function] = ()) -> None:
        self._fixed: dict[tuple[str, int], Function] = {}
        self._variadic: dict[str, Function] = {}
        for function in (*BUILT_IN, *given):
            self._add(function)

    def _add(self, function: Function) -> None:
        name, count = function.name.upper(), len(function.parameters)
        variadic = self._variadic.get(name)
        if function.variadic is None:
            other = self._fixed.get((name, count))
            if variadic is not None and count >= len(variadic.parameters):
                other = variadic
            self._fixed[name, count] = function
        else:
            longer = [each for (of, n), each in self._fixed.items() if of == name and n >= count]
            other = variadic or (longer[0] if longer else None)
            self._variadic[name] = function
        if other is not None:
            raise LocalError(
                f"{function.signature} and {other.signature} cannot be told apart: functions of "
                "one name differ in the number of their parameters, and a variadic one has more "
                "of them than all others; give it another name"
            )

    def find(self, name: str, count: int) -> Function | None:
        """Return the function of this name, in capitals, for so many arguments; None if there is
        none."""
        function = self._fixed.get((name, count))
        if function is None:
            function = self._variadic.get(name)
            if function is not None and count < len(function.parameters):
                return None
        return function

    def named(self, name: str) -> list[str]:
        """Return the signatures of all functions of this name, in capitals."""
        of_the_name = [each for (of, _), each in self._fixed.items() if of == name]
        return [each.signature for each in (*of_the_name, *self._variadic_of(name))]

    def _variadic_of(self, name: str) -> list[Function]:
        return [self._variadic[name]] if name in self._variadic else []


# --- the built-in functions ----------------------------------------------------------------------

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters with Unicode's property White_Space; `str.strip` removes some others, too."""


def _concat(*texts: str) -> str:
    return _joined("", texts)


def _concat_ws(delimiter: str, *texts: str) -> str:
    return _joined(delimiter, texts)


def _joined(delimiter: str, texts: tuple[str, ...]) -> str:
    """Join texts. Raises `FunctionError` before it makes a text that is too long."""
    if sum(map(len, texts)) + len(delimiter) * max(len(texts) - 1, 0) > LONGEST:
        raise FunctionError(f"it would return more than {LONGEST} characters")
    return delimiter.join(texts)


def _left(text: str, count: int) -> str:
    return text[: _counted(text, count)]


def _right(text: str, count: int) -> str:
    return text[len(text) - min(_counted(text, count), len(text)) :]


def _counted(text: str, count: int) -> int:
    if count < 0:
        raise FunctionError(f"the number of characters is {count}; it must not be negative", text)
    return count


def _substring(text: str, position: int, length: int = INT32_MAX) -> str:
    if length < 0:
        raise FunctionError(f"the length is {length}; it must not be negative", "")
    if not position:
        return ""
    if abs(position) > len(text):
        raise FunctionError(
            f"position {position} lies outside of a text of {len(text)} characters; they count "
            "from 1, or from -1 backwards",
            "",
        )
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _abs(number: int) -> int:
    if number == INT32_MIN:
        raise FunctionError(
            f"the absolute value of {number} does not fit into 32 bits", INT32_MAX, kind="math"
        )
    return abs(number)


def _itself(value: Value) -> Value:
    return value


BUILT_IN = (
    Function("LENGTH", (str,), int, len),
    Function("CONCAT", (), str, _concat, variadic=str),
    Function("CONCAT_WS", (str,), str, _concat_ws, variadic=str),
    Function("LOWER", (str,), str, str.lower),
    Function("UPPER", (str,), str, str.upper),
    Function("TRIM", (str,), str, lambda text: text.strip(WHITE_SPACE)),
    Function("LEFT", (str, int), str, _left),
    Function("RIGHT", (str, int), str, _right),
    Function("SUBSTRING", (str, int), str, _substring),
    Function("SUBSTRING", (str, int, int), str, _substring),
    Function("ABS", (int,), int, _abs),
    # A cast is that of the argument to the type of the parameter.
    Function("INT", (int,), int, _itself),
    Function("BOOL", (bool,), bool, _itself),
    Function("STRING", (str,), str, _itself),
    Function("IS_INT", (object,), bool, lambda value: cast(value, int) is not None),
    Function("IS_BOOL", (object,), bool, lambda value: cast(value, bool) is not None),
)
STANDARD = Functions()
"""The built-in functions alone."""
