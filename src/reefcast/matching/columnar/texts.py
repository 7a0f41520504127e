"""Texts in columns of Arrow: appended as they are, as JSON, or as the digits of a number."""

from __future__ import annotations

from reefcast.matching.columnar.layout import X_DATA, X_OFFSETS, X_USED
from reefcast.matching.machine import Int, copy_bytes, get1, get8, part, put1, put4, put8, unit

_QUOTE, _BACKSLASH, _MINUS, _ZERO, _A = (ord(each) for each in '"\\-0a')
_SHORT = (ord("b"), ord("t"), ord("n"), 0, ord("f"), ord("r"))
"""What JSON writes behind a backslash for the characters from 8 on."""
_B, _T, _N, _NONE, _F, _R = _SHORT
_U = ord("u")
JSON_BYTES = 6
"""The most bytes that JSON needs for one of a text."""


@part
def end_text(texts: Int, number: Int) -> None:
    """Note that text `number` (counted from 0) ends here."""
    put4(get8(texts, X_OFFSETS), number + 1, get8(texts, X_USED))


@part
def append(texts: Int, start: Int, size: Int) -> None:
    used = get8(texts, X_USED)
    copy_bytes(get8(texts, X_DATA) + used, start, size)
    put8(texts, X_USED, used + size)


@part
def append_byte(texts: Int, byte: Int) -> None:
    used = get8(texts, X_USED)
    put1(get8(texts, X_DATA), used, byte)
    put8(texts, X_USED, used + 1)


@part
def _hexadecimal(digit: Int) -> Int:
    return digit + _ZERO if digit < 10 else digit - 10 + _A


@part
def _escape(out: Int, byte: Int) -> Int:
    """Write a character that JSON does not have in texts; return where it ends."""
    put1(out, 0, _BACKSLASH)
    short = 0
    if byte in (_QUOTE, _BACKSLASH):
        short = byte
    elif byte == 8:
        short = _B
    elif byte == 9:
        short = _T
    elif byte == 10:
        short = _N
    elif byte == 12:
        short = _F
    elif byte == 13:
        short = _R
    if short != 0:
        put1(out, 1, short)
        return out + 2
    put1(out, 1, _U)
    put1(out, 2, _ZERO)
    put1(out, 3, _ZERO)
    put1(out, 4, _ZERO + (byte >> 4))
    put1(out, 5, _hexadecimal(byte & 15))
    return out + JSON_BYTES


@unit
def append_json(texts: Int, start: Int, size: Int) -> None:
    """Append a text with quotes, as JSON has it."""
    first = get8(texts, X_DATA) + get8(texts, X_USED)
    put1(first, 0, _QUOTE)
    out = first + 1
    for i in range(size):
        byte = get1(start, i)
        if byte < 0x20 or byte in (_QUOTE, _BACKSLASH):
            out = _escape(out, byte)
        else:
            put1(out, 0, byte)
            out += 1
    put1(out, 0, _QUOTE)
    put8(texts, X_USED, get8(texts, X_USED) + out + 1 - first)


@part
def _last_digit(number: Int) -> Int:
    digit = number % 10
    return 10 - digit if number < 0 and digit != 0 else digit


@part
def _without_last(number: Int) -> Int:
    """Divide by 10, towards 0."""
    return (number + _last_digit(number)) // 10 if number < 0 else number // 10


@unit
def append_integer(texts: Int, number: Int) -> None:
    """Append the decimal digits of an int64."""
    if number < 0:
        append_byte(texts, _MINUS)
    digits, left = 1, _without_last(number)
    while left != 0:
        left = _without_last(left)
        digits += 1
    used = get8(texts, X_USED)
    put8(texts, X_USED, used + digits)
    at, left = get8(texts, X_DATA) + used, number
    for i in range(digits):
        put1(at, digits - 1 - i, _ZERO + _last_digit(left))
        left = _without_last(left)
