"""Publications of which a sampled trace has rows, found by the bytes of their ids: as
`traces.files.id_hash` finds them, by the CRC-32 of "publisher#number"."""

from __future__ import annotations

from reefcast.matching.machine import Int, get1, get8, part, put8, unit
from reefcast.matching.packed import read_string
from reefcast.matching.passage.layout import F_BODY, F_EVENT, F_SEQ, K_CRC_TABLE, K_WANTED_BELOW

CRC_POLYNOMIAL = 0xEDB88320
ALL_ONES = 0xFFFFFFFF
NUMBER_SIGN, ZERO = ord("#"), ord("0")


def crc_table() -> list[int]:
    """Return what each byte adds to a CRC-32, the table that the kernels use."""
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (CRC_POLYNOMIAL if crc & 1 else 0) for crc in table]
    return table


@part
def _with_byte(table: Int, crc: Int, byte: Int) -> Int:
    return get8(table, (crc ^ byte) & 0xFF) ^ (crc >> 8)


@part
def _with_number(table: Int, crc: Int, number: Int) -> Int:
    """Return the CRC continued by the digits of a number of at least 0."""
    power = 1
    while number // power >= 10:
        power *= 10
    while power > 0:
        crc = _with_byte(table, crc, ZERO + number // power % 10)
        power //= 10
    return crc


@unit
def mark_wanted(desk: Int, publication: Int) -> None:
    """Mark a plain publication of which rows are wanted as not plain; also one with a negative
    number, which counts as wanted here."""
    if get8(publication, F_EVENT) == 0:
        return
    table, crc, number = get8(desk, K_CRC_TABLE), ALL_ONES, get8(publication, F_SEQ)
    start, size = read_string(get8(publication, F_BODY) + 1)
    for i in range(size):
        crc = _with_byte(table, crc, get1(start, i))
    crc = _with_byte(table, crc, NUMBER_SIGN)
    if number < 0 or _with_number(table, crc, number) ^ ALL_ONES < get8(desk, K_WANTED_BELOW):
        put8(publication, F_EVENT, 0)
