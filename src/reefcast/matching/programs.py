"""Programs: residual conditions, compiled; `model.program` says what the instructions do.

A program is one piece of memory: the words `Q_*`, then its instructions, each a word with its
number (8 bits) and its operand, and of some what follows it:

    PUSH_CONSTANT   the value, as V_* words
    TEST            operand: a tag as that of a row's predicate; its two bounds
    WITHIN          the same, but that the tag names no attribute

Programs with equal words are kept once, whatever the number of rows that have them, and run once
for an event. The stack holds addresses of V_* words: of the event's values, of constants, and of
what was calculated, which has a place of its own for each level of the stack.
"""

from __future__ import annotations

from reefcast.matching.attributes import leave_attribute, use_attribute, value_at
from reefcast.matching.chains import enter_item, first_of, leave_table, mixed, new_table, take_item
from reefcast.matching.machine import (
    Int,
    bits_of,
    compare_bytes,
    float_of,
    get8,
    part,
    product_overflows,
    put8,
    release,
    unit,
)
from reefcast.matching.numbers import key_of_bits, key_of_int
from reefcast.matching.packed import is_string, read_array, read_int, read_string, read_value
from reefcast.matching.predicates import (
    R_HIGH,
    R_HOW,
    R_KINDS,
    R_LOW,
    attribute_of,
    how_of,
    is_satisfied,
    kinds_of,
    leave_bounds,
    read_constraint,
    tag_with,
)
from reefcast.matching.state import (
    FALSE,
    MISSING,
    NUMBER,
    S_END,
    S_PROGRAMS,
    S_READ,
    S_STACK,
    S_STACK_ROOM,
    S_STAMP,
    STRING,
    T_BYTES,
    TRUE,
    V_BITS,
    V_KEY,
    V_KIND,
    V_REST,
    V_SIZE,
    V_STAMP,
    V_START,
    V_WHOLE,
    V_WORDS,
    give_back,
    longer,
    new,
)
from reefcast.matching.texts import leave_text, use_text
from reefcast.model import program as instructions

Q_NEXT, Q_HASH, Q_USERS, Q_COUNT, Q_STAMP, Q_RESULT, Q_WORDS = range(7)
"""The words of a program: an item of `chains`; the number of rows that have it; the words of its
instructions; the last event that it was run for, and whether it held."""

PUSH_VALUE, PUSH_CONSTANT = instructions.PUSH_VALUE, instructions.PUSH_CONSTANT
TEST, WITHIN = instructions.TEST, instructions.WITHIN
ADD, SUBTRACT = instructions.ADD, instructions.SUBTRACT
MULTIPLY, DIVIDE, NEGATE = instructions.MULTIPLY, instructions.DIVIDE, instructions.NEGATE
COMPARE, IS_NULL, NOT = instructions.COMPARE, instructions.IS_NULL, instructions.NOT
AND, OR = instructions.AND, instructions.OR
SKIP_FALSE, SKIP_TRUE = instructions.SKIP_FALSE, instructions.SKIP_TRUE
LESS, EQUAL, GREATER = instructions.LESS, instructions.EQUAL, instructions.GREATER

BOOLEANS = 1 << FALSE | 1 << TRUE
LEAST = -(2**63)


# --- giving back ----------------------------------------------------------------------------------


@unit
def _give_up(state: Int, program: Int) -> None:
    """Free its memory, and what it uses."""
    word = program + 8 * Q_WORDS
    end = word + 8 * get8(program, Q_COUNT)
    while word < end:
        number, operand = get8(word, 0) & 255, get8(word, 0) >> 8
        word += 8
        if number == PUSH_VALUE:
            leave_attribute(state, operand)
        elif number == PUSH_CONSTANT:
            if get8(word, V_KIND) == STRING:
                leave_text(state, get8(word, V_KEY))
            word += 8 * V_WORDS
        elif number in (TEST, WITHIN):
            leave_bounds(state, how_of(operand), get8(word, 0))
            if number == TEST:
                leave_attribute(state, attribute_of(operand))
            word += 16
    give_back(state, program, 8 * (Q_WORDS + get8(program, Q_COUNT)))


@unit
def leave_program(state: Int, program: Int) -> None:
    """Count one user less; the last one frees the program."""
    put8(program, Q_USERS, get8(program, Q_USERS) - 1)
    if get8(program, Q_USERS) == 0:
        take_item(get8(state, S_PROGRAMS), program)
        _give_up(state, program)


@part
def leave_programs(state: Int) -> None:
    """Free the table when no row is left, and the stack."""
    if get8(state, S_PROGRAMS) != 0:
        leave_table(get8(state, S_PROGRAMS))
        release(get8(state, S_STACK))


# --- reading --------------------------------------------------------------------------------------


@unit
def read_program(state: Int, at: Int) -> Int:
    """Return the program that is packed here, with one more user; S_END is where it ends."""
    _, at = read_array(at)
    deepest, at = read_int(at)
    count, at = read_int(at)
    _make_room(state, deepest)
    program = new(state, 8 * (Q_WORDS + count))
    put8(program, Q_COUNT, count)
    put8(program, Q_USERS, 1)
    put8(program, Q_STAMP, 0)
    numbers, at = read_array(at)
    word = program + 8 * Q_WORDS
    for _ in range(numbers >> 1):
        number, at = read_int(at)
        word, at = _read_instruction(state, number, word, at)
    put8(state, S_END, at)
    return _kept_once(state, program)


@part
def _make_room(state: Int, deepest: Int) -> None:
    """Make room for V_WORDS that mean missing, and for a value and an address at each level of the
    stack."""
    room = get8(state, S_STACK_ROOM)
    if get8(state, S_PROGRAMS) == 0:
        put8(state, S_PROGRAMS, new_table(state))
    if deepest > room:
        old = 8 * (V_WORDS + (V_WORDS + 1) * room) if room > 0 else 0
        size = 8 * (V_WORDS + (V_WORDS + 1) * deepest)
        put8(state, S_STACK, longer(state, get8(state, S_STACK), old, size))
        put8(state, S_STACK_ROOM, deepest)


@part
def _read_instruction(state: Int, number: Int, word: Int, at: Int) -> tuple[Int, Int]:
    """Read an instruction; return the word behind it, and where its operand ends."""
    if number == PUSH_VALUE:
        name, size = read_string(at)
        put8(word, 0, number | use_attribute(state, name, size) << 8)
        return word + 8, name + size
    if number == PUSH_CONSTANT:
        put8(word, 0, number)
        return word + 8 * (1 + V_WORDS), _read_constant(state, word + 8, at)
    if number == TEST:
        _, at = read_array(at)
        name, size = read_string(at)
        attribute = use_attribute(state, name, size)
        return word + 24, _read_bounds(state, number, attribute, word, name + size)
    if number == WITHIN:
        return word + 24, _read_bounds(state, number, 0, word, at)
    if number in (COMPARE, SKIP_FALSE, SKIP_TRUE):
        operand, at = read_int(at)
        put8(word, 0, number | operand << 8)
        return word + 8, at
    put8(word, 0, number)
    return word + 8, at + 1


@part
def _read_constant(state: Int, value: Int, at: Int) -> Int:
    for i in range(V_WORDS):
        put8(value, i, 0)
    end = read_value(at, value)
    if is_string(at):
        text = use_text(state, get8(value, V_START), get8(value, V_SIZE))
        put8(value, V_KEY, text)
        put8(value, V_START, text + 8 * T_BYTES)
    return end


@part
def _read_bounds(state: Int, number: Int, attribute: Int, word: Int, at: Int) -> Int:
    end = read_constraint(state, at)
    read = state + 8 * S_READ
    put8(word, 0, number | tag_with(attribute, get8(read, R_KINDS), get8(read, R_HOW)) << 8)
    put8(word, 1, get8(read, R_LOW))
    put8(word, 2, get8(read, R_HIGH))
    return end


@part
def _kept_once(state: Int, program: Int) -> Int:
    """Return the existing program with the same words, or this one."""
    count, hashed = get8(program, Q_COUNT), 0
    for i in range(Q_WORDS, Q_WORDS + count):
        hashed = mixed(hashed ^ get8(program, i))
    other = first_of(get8(state, S_PROGRAMS), hashed)
    while other != 0:
        if (
            get8(other, Q_HASH) == hashed
            and get8(other, Q_COUNT) == count
            and compare_bytes(other + 8 * Q_WORDS, program + 8 * Q_WORDS, 8 * count) == 0
        ):
            _give_up(state, program)
            put8(other, Q_USERS, get8(other, Q_USERS) + 1)
            return other
        other = get8(other, Q_NEXT)
    put8(program, Q_HASH, hashed)
    enter_item(state, get8(state, S_PROGRAMS), program)
    return program


# --- running --------------------------------------------------------------------------------------


@unit
def program_holds(state: Int, program: Int) -> Int:
    """Return 1 if what the program computes for the event at hand is TRUE, else 0."""
    if get8(program, Q_STAMP) != get8(state, S_STAMP):
        put8(program, Q_RESULT, 1 if _run(state, program) == TRUE else 0)
        put8(program, Q_STAMP, get8(state, S_STAMP))
    return get8(program, Q_RESULT)


@part
def _run(state: Int, program: Int) -> Int:
    """Run the program; return the kind of the value left on the stack. `top`: where its last
    address is."""
    nothing, code = get8(state, S_STACK), program + 8 * Q_WORDS
    calculated = nothing + 8 * V_WORDS
    bottom = calculated + 8 * V_WORDS * get8(state, S_STACK_ROOM)
    top = bottom - 8
    word, end = code, code + 8 * get8(program, Q_COUNT)
    while word < end:
        number, operand = get8(word, 0) & 255, get8(word, 0) >> 8
        word += 8
        if number == PUSH_VALUE:
            top += 8
            put8(top, 0, _known(state, operand, nothing))
        elif number == PUSH_CONSTANT:
            top += 8
            put8(top, 0, word)
            word += 8 * V_WORDS
        elif number in (SKIP_FALSE, SKIP_TRUE):
            wanted = FALSE if number == SKIP_FALSE else TRUE
            if get8(get8(top, 0), V_KIND) == wanted:
                word = code + 8 * operand
        elif number in (TEST, WITHIN):
            value = get8(top, 0)
            if number == TEST:
                top += 8
                value = _known(state, attribute_of(operand), nothing)
            kind = _within(state, operand, word, value)
            _put_kind(calculated, bottom, top, kind)
            word += 16
        elif number in (NEGATE, IS_NULL, NOT):
            _change(number, get8(top, 0), _place(calculated, bottom, top))
            put8(top, 0, _place(calculated, bottom, top))
        else:
            top -= 8
            left, right = get8(top, 0), get8(top, 1)
            _join(number, operand, left, right, _place(calculated, bottom, top))
            put8(top, 0, _place(calculated, bottom, top))
    return get8(get8(top, 0), V_KIND)


@part
def _known(state: Int, attribute: Int, nothing: Int) -> Int:
    value = value_at(state, attribute)
    return value if get8(value, V_STAMP) == get8(state, S_STAMP) else nothing


@part
def _place(calculated: Int, bottom: Int, top: Int) -> Int:
    """Return the place of the value calculated for this level of the stack."""
    return calculated + V_WORDS * (top - bottom)


@part
def _put_kind(calculated: Int, bottom: Int, top: Int, kind: Int) -> None:
    place = _place(calculated, bottom, top)
    put8(place, V_KIND, kind)
    put8(top, 0, place)


@part
def _within(state: Int, tag: Int, bounds: Int, value: Int) -> Int:
    """Return TRUE or FALSE, or MISSING for a value of another kind than the constraint's."""
    kinds, kind = kinds_of(tag), get8(value, V_KIND)
    comparable = kinds | BOOLEANS if kinds & BOOLEANS else kinds
    if not (comparable >> kind) & 1:
        return MISSING
    holds = (kinds >> kind) & 1 and is_satisfied(state, how_of(tag), bounds, value)
    return TRUE if holds else FALSE


@part
def _change(number: Int, value: Int, out: Int) -> None:
    """Write the result for one value; `out` may be the same."""
    kind = get8(value, V_KIND)
    if number == IS_NULL:
        put8(out, V_KIND, TRUE if kind == MISSING else FALSE)
    elif number == NOT:
        put8(out, V_KIND, TRUE if kind == FALSE else FALSE if kind == TRUE else MISSING)
    elif kind != NUMBER:
        put8(out, V_KIND, MISSING)
    elif get8(value, V_WHOLE):
        _put_int(out, -get8(value, V_BITS), get8(value, V_BITS) == LEAST)
    else:
        _put_float(out, -float_of(get8(value, V_BITS)))


@part
def _join(number: Int, operand: Int, left: Int, right: Int, out: Int) -> None:
    """Write the result for two values; `out` may be the first."""
    if number == COMPARE:
        put8(out, V_KIND, _compared(operand, left, right))
    elif number in (AND, OR):
        decisive = FALSE if number == AND else TRUE
        put8(out, V_KIND, _joined(decisive, get8(left, V_KIND), get8(right, V_KIND)))
    elif get8(left, V_KIND) != NUMBER or get8(right, V_KIND) != NUMBER:
        put8(out, V_KIND, MISSING)
    elif number == DIVIDE:
        divisor = _as_float(right)
        if divisor == 0.0:
            put8(out, V_KIND, MISSING)
        else:
            _put_float(out, _as_float(left) / divisor)
    elif get8(left, V_WHOLE) and get8(right, V_WHOLE):
        _calculate(number, get8(left, V_BITS), get8(right, V_BITS), out)
    else:
        a, b = _as_float(left), _as_float(right)
        _put_float(out, a + b if number == ADD else a - b if number == SUBTRACT else a * b)


@part
def _joined(decisive: Int, left: Int, right: Int) -> Int:
    """Combine the kinds of two values: AND if `decisive` is FALSE, OR if it is TRUE."""
    other = FALSE + TRUE - decisive
    if left == decisive or right == decisive:
        return decisive
    return other if left == other and right == other else MISSING


@part
def _calculate(number: Int, left: Int, right: Int, out: Int) -> None:
    """Compute with two int64; a result beyond int64 is UNKNOWN."""
    if number == ADD:
        result = left + right
        _put_int(out, result, ((left ^ result) & (right ^ result)) < 0)
    elif number == SUBTRACT:
        result = left - right
        _put_int(out, result, ((left ^ right) & (left ^ result)) < 0)
    else:
        _put_int(out, left * right, product_overflows(left, right) != 0)


@part
def _put_int(out: Int, number: Int, overflows: bool) -> None:
    key, rest = key_of_int(number)
    put8(out, V_KIND, MISSING if overflows else NUMBER)
    put8(out, V_KEY, key)
    put8(out, V_REST, rest)
    put8(out, V_BITS, number)
    put8(out, V_WHOLE, 1)


@part
def _put_float(out: Int, number: float) -> None:
    bits = bits_of(number)
    put8(out, V_KIND, NUMBER)
    put8(out, V_KEY, key_of_bits(bits))
    put8(out, V_REST, 0)
    put8(out, V_BITS, bits)
    put8(out, V_WHOLE, 0)


@part
def _as_float(value: Int) -> float:
    bits = get8(value, V_BITS)
    return float(bits) if get8(value, V_WHOLE) else float_of(bits)


@part
def _compared(orders: Int, left: Int, right: Int) -> Int:
    """Return whether the order of two values is among `orders`, or MISSING if they have none."""
    kind, other = get8(left, V_KIND), get8(right, V_KIND)
    if kind == NUMBER and other == NUMBER:
        a, b = get8(left, V_KEY), get8(right, V_KEY)
        if a == b:
            a, b = get8(left, V_REST), get8(right, V_REST)
        order = LESS if a < b else EQUAL if a == b else GREATER
    elif kind == STRING and other == STRING:
        order = _order_of_strings(left, right)
    elif (BOOLEANS >> kind) & 1 and (BOOLEANS >> other) & 1:
        order = LESS if kind < other else EQUAL if kind == other else GREATER
    else:
        return MISSING
    return TRUE if orders & order else FALSE


@part
def _order_of_strings(left: Int, right: Int) -> Int:
    size, other = get8(left, V_SIZE), get8(right, V_SIZE)
    order = compare_bytes(get8(left, V_START), get8(right, V_START), min(size, other))
    if order == 0:
        return LESS if size < other else EQUAL if size == other else GREATER
    return LESS if order < 0 else GREATER
