"""Machine code that is linked and loaded here does the same as when LLVM loads it, and Python may
call it with anything."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching.machine import Int, allocate, copy_bytes, ones, part, put8, release
from reefcast.matching.native.compiling import object_code
from reefcast.matching.native.definitions import Unit
from reefcast.matching.native.linking import Unlinkable, link
from reefcast.matching.native.llvm_loading import load_object
from reefcast.matching.native.loading import load, python_function
from reefcast.matching.vectors import count_up_to

Functions = dict[str, Callable[..., int]]
INT64 = st.integers(-(2**63), 2**63 - 1)
WORDS = 64


@part
def chosen(value: Int) -> Int:
    """Choose by a number, which LLVM compiles to a table."""
    kind = value & 7
    if kind == 0:
        return value
    if kind == 1:
        return 17
    if kind == 2:
        return ones(value)
    if kind == 3:
        return value >> 5
    if kind == 4:
        return -value
    if kind == 5:
        return value * value
    return 99991


def mixed(a: Int, b: Int) -> Int:
    result = 0
    for i in range(b & 31):
        result = result * 3 + chosen(a + i)
    return result ^ b


def counted(first: Int, step: Int, value: Int) -> Int:
    """Use memory of the C library, and vectors."""
    place, other = allocate(8 * WORDS), allocate(8 * WORDS)
    for i in range(WORDS):
        put8(place, i, first + i * (step & 0xFF))
    copy_bytes(other, place, 8 * WORDS)
    count = count_up_to(other, WORDS // 8, value)
    release(place)
    release(other)
    return count


def written(address: Int, value: Int) -> None:
    put8(address, 0, value)


UNITS = [Unit(mixed, python=True), Unit(counted, python=True), Unit(written, python=True)]


def calls_mixed(a: Int) -> Int:
    return called(a, 3) + 1


called = UNITS[0]


@pytest.fixture(scope="module")
def code() -> bytes:
    return object_code(UNITS, ())


def functions(units: list[Unit], addresses: dict[str, int]) -> Functions:
    return {
        unit.function.__name__: python_function(unit.function.__name__, addresses[unit.python_name])
        for unit in units
    }


@pytest.fixture(scope="module")
def addresses(code: bytes) -> dict[str, int]:
    return load(link(code), {})


@pytest.fixture(scope="module")
def ours(addresses: dict[str, int]) -> Functions:
    return functions(UNITS, addresses)


@pytest.fixture(scope="module")
def theirs(code: bytes) -> Functions:
    return functions(UNITS, load_object(code, {}, [unit.python_name for unit in UNITS]))


@given(a=INT64, b=INT64, c=INT64)
def test_linked_here_or_by_llvm_is_the_same(
    ours: Functions, theirs: Functions, a: int, b: int, c: int
) -> None:
    assert ours["mixed"](a, b) == theirs["mixed"](a, b)
    assert ours["counted"](a, b, c) == theirs["counted"](a, b, c)


@given(first=st.integers(-1000, 1000), step=st.integers(0, 255), value=INT64)
def test_what_it_computes(ours: Functions, first: int, step: int, value: int) -> None:
    words = range(first, first + WORDS * step, step) if step else [first] * WORDS
    assert ours["counted"](first, step, value) == sum(word <= value for word in words)


@given(value=INT64)
def test_what_returns_nothing_returns_none(ours: Functions, value: int) -> None:
    place = np.zeros(1, np.int64)
    assert ours["written"](int(place.ctypes.data), value) is None
    assert place[0] == value


@given(value=st.integers(-(2**63), 2**63 - 4))
def test_a_later_batch_calls_units_of_a_former_one(
    ours: Functions, later: Callable[[int], int], value: int
) -> None:
    expected = (ours["mixed"](value, 3) + 1 + 2**63) % 2**64 - 2**63
    assert later(value) == expected


@pytest.fixture(scope="module")
def later(addresses: dict[str, int]) -> Callable[[int], int]:
    unit = Unit(calls_mixed, python=True)
    image = link(object_code([unit], addresses))
    return functions([unit], load(image, addresses))["calls_mixed"]


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((), TypeError),
        ((1,), TypeError),
        ((1, 2, 3), TypeError),
        ((1, 2.0), TypeError),
        (("1", 2), TypeError),
        ((1, None), TypeError),
        ((2**63, 2), OverflowError),
        ((1, -(2**63) - 1), OverflowError),
    ],
)
def test_wrong_arguments_are_refused(
    ours: Functions, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ours["mixed"](*arguments)
    assert ours["mixed"](-1, -1) == ours["mixed"](np.int64(-1), np.int64(-1))


def test_what_is_no_object_file_of_this_machine_is_refused(code: bytes) -> None:
    for other in (
        b"",
        b"\x7fELF",
        b"\xcf\xfa\xed\xfe" + bytes(64),
        code[:18] + b"\xb7" + code[19:],
    ):
        with pytest.raises(Unlinkable):
            link(other)


def test_a_relocation_that_is_not_known_is_refused(code: bytes) -> None:
    image = link(code)
    assert image.slots
    (sections,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    changed = bytearray(code)
    for at in range(sections, sections + count * size, size):
        _, kind, _, _, offset, length, *_ = struct.unpack_from("<IIQQQQIIQQ", code, at)
        if kind == 4 and length:
            struct.pack_into("<I", changed, offset + 8, 23)  # R_X86_64_TPOFF32
    with pytest.raises(Unlinkable, match="relocation 23"):
        link(bytes(changed))


def test_a_function_that_nobody_has_is_told(addresses: dict[str, int]) -> None:
    unit = Unit(calls_mixed, python=True)
    image = link(object_code([unit], addresses))
    with pytest.raises(LookupError, match="mixed"):
        load(image, {})
