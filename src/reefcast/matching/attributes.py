"""Attributes that filters name: a number for each, and its value in the event at hand."""

from __future__ import annotations

from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.state import (
    A_COUNT,
    A_NAME,
    A_PIECES,
    A_SPLIT,
    A_USERS,
    A_VALUES,
    A_WORDS,
    S_ATTRIBUTE_COUNT,
    S_ATTRIBUTE_ROOM,
    S_ATTRIBUTES,
    S_FREE_ATTRIBUTE,
    S_SPLITS,
    S_VALUES,
    T_ATTRIBUTE,
    V_STAMP,
    V_WORDS,
    forget_layout,
    longer,
)
from reefcast.matching.texts import find_text, leave_text, use_text


@part
def attribute_at(state: Int, number: Int) -> Int:
    return get8(state, S_ATTRIBUTES) + 8 * A_WORDS * number


@part
def value_at(state: Int, attribute: Int) -> Int:
    """Return the address of the event's value for the attribute. The event has the attribute if the
    stamp there is the event's."""
    return get8(state, S_VALUES) + 8 * V_WORDS * attribute


@part
def _new_attribute(state: Int) -> Int:
    free = get8(state, S_FREE_ATTRIBUTE)
    if free != 0:
        put8(state, S_FREE_ATTRIBUTE, get8(attribute_at(state, free - 1), A_NAME))
        return free - 1
    number, room = get8(state, S_ATTRIBUTE_COUNT), get8(state, S_ATTRIBUTE_ROOM)
    if number == room:
        for word, words in ((S_ATTRIBUTES, A_WORDS), (S_VALUES, V_WORDS), (S_SPLITS, 1)):
            put8(state, word, longer(state, get8(state, word), 8 * words * room, 16 * words * room))
        put8(state, S_ATTRIBUTE_ROOM, 2 * room)
    put8(state, S_ATTRIBUTE_COUNT, number + 1)
    return number


@unit
def use_attribute(state: Int, name: Int, size: Int) -> Int:
    """Return the number of the attribute with this name, with one more user."""
    text = find_text(state, name, size)
    if text == 0 or get8(text, T_ATTRIBUTE) == 0:
        text = use_text(state, name, size)
        number = _new_attribute(state)
        put8(text, T_ATTRIBUTE, number + 1)
        forget_layout(state)
        attribute = attribute_at(state, number)
        put8(attribute, A_NAME, text)
        put8(attribute, A_USERS, 0)
        put8(attribute, A_SPLIT, 0)
        put8(attribute, A_VALUES, 0)
        put8(attribute, A_COUNT, 0)
        put8(attribute, A_PIECES, 0)
        put8(value_at(state, number), V_STAMP, 0)
    number = get8(text, T_ATTRIBUTE) - 1
    attribute = attribute_at(state, number)
    put8(attribute, A_USERS, get8(attribute, A_USERS) + 1)
    return number


@unit
def leave_attribute(state: Int, number: Int) -> None:
    attribute = attribute_at(state, number)
    put8(attribute, A_USERS, get8(attribute, A_USERS) - 1)
    if get8(attribute, A_USERS) == 0:
        text = get8(attribute, A_NAME)
        put8(text, T_ATTRIBUTE, 0)
        forget_layout(state)
        leave_text(state, text)
        put8(attribute, A_NAME, get8(state, S_FREE_ATTRIBUTE))
        put8(state, S_FREE_ATTRIBUTE, number + 1)
