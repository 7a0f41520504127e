"""The state of a compiled index: its memory layout.

The state is one array of words that Python owns; it has the addresses of everything else. Constants
here number the words of each object, for all modules:

- `S_*` of the state itself; `A_*` of an attribute; `V_*` of its value in the event at hand;
- `T_*` of a text (a string constant or an attribute's name), see `texts`;
- `C_*` of cuts and `CA_*` of each attribute in them, see `cuts`;
- `B_*` of a block, see `blocks`; `P_*` of a partition, see `partitions`.

Rows and predicates have their layout in `rows`."""

from __future__ import annotations

from reefcast.matching.machine import (
    Int,
    allocate,
    allocate_zeroed,
    copy_bytes,
    get8,
    part,
    put8,
    reallocate,
    release,
)

# Kinds of a value, in this order the first slots of an attribute; bit k of a predicate's kinds says
# that values of kind k may satisfy it.
MISSING, FALSE, TRUE, NUMBER, STRING = range(5)

LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""Below and above the key of every number (see `numbers`)."""

(
    S_BYTES,  # allocated
    S_SEED,  # of hashes, drawn by Python
    S_TEXTS,  # see `chains`
    S_ATTRIBUTES,  # A_* of each attribute number
    S_ATTRIBUTE_COUNT,  # numbers given out so far
    S_ATTRIBUTE_ROOM,
    S_FREE_ATTRIBUTE,  # 1 + the first of the numbers to be reused; they are linked by A_NAME
    S_VALUES,  # V_* for each attribute number
    S_STAMP,  # number of the event at hand
    S_PARTITIONS,  # the same
    S_SPLITS,  # scratch: attributes of the event at hand that partition
    S_SPLIT_COUNT,
    S_DEFAULT,  # the partition of all rows that no attribute partitions
    S_BLOCKS,  # block by its number
    S_BLOCK_COUNT,
    S_BLOCK_ROOM,
    S_FREE_BLOCK,  # 1 + number, linked
    S_FIRST,  # first row by the filter's handle
    S_SEEN,  # stamp of the last event that found the filter, by handle; 0 before S_MULTI > 0
    S_HANDLE_ROOM,
    S_MULTI,  # filters of several rows
    S_ROWS,
    S_PROGRAMMED,  # rows with a program
    S_SLOTS,  # scratch: slots of the event at hand, see `cuts.event_slots`
    S_SLOT_ROOM,
    S_SCALED_COUNT,
    S_OTHER_COUNT,
    S_SERIAL,  # of the last cuts
    S_PARTITION_COUNT,
    S_END,  # where the bytes that were read end
    S_VALUE,  # scratch: V_* of a value
    S_SCRATCH,  # see `search`
    S_FOUND_ROOM,  # see `sweep`
    S_TILE,
    S_LAYOUT,  # L_* of the first names of the last event, in their order
    S_PROGRAMS,  # see `programs`; 0 before there is one
    S_STACK,
    S_STACK_ROOM,
    S_GRAMS,  # see `grams`; 0 before a long string was searched
    S_READ,  # scratch: kinds, how to check, and bounds of a predicate; 4 words
) = range(40)
STATE_WORDS = 44

L_SIZE, L_ATTRIBUTE, L_NAME = range(3)
L_WORDS = 6
"""Words: 1 + the size of a name, or 0 for none; 1 + the number of its attribute, or 0; the name."""

LAYOUT, LONGEST_NAME = 256, 8 * (L_WORDS - L_NAME)
"""How many names are remembered, and their largest size in bytes."""

A_NAME, A_USERS, A_SPLIT, A_VALUES, A_COUNT, A_PIECES, A_WORDS = range(7)
"""Words: the text of the name; rows and cuts that use it; whether it partitions; by how many
values, see `partitions`; a counter for use within one call; a table, see `pieces`."""

BY_VALUE, BY_PRESENCE, BY_PIECE = 1, 2, 4
"""Values of A_SPLIT."""

V_STAMP, V_KIND, V_KEY, V_REST, V_START, V_SIZE, V_BITS, V_WHOLE = range(8)
V_WORDS = 8
"""Words: the event that the value belongs to; key and rest of a number; the text or 0 of a string;
the address of its characters; a number as it came: an int64 (V_WHOLE is 1) or the bits of a
float64."""

T_NEXT, T_HASH, T_SIZE, T_USERS, T_ATTRIBUTE, T_MEMO, T_RANK, T_BYTES = range(8)

C_USERS, C_ATTRIBUTES, C_SLOTS, C_SERIAL, C_UNSURE, C_BYTES, C_LANES, C_FIRST = range(8)
(
    CA_ATTRIBUTE,
    CA_SLOT,
    CA_NUMBERS,
    CA_NUMBER_AT,
    CA_TEXTS,
    CA_TEXT_AT,
    CA_LANE,
    CA_SCALE_AT,
    CA_WORDS,
) = range(9)

(
    B_PARTITION,
    B_NUMBER,
    B_SHIFT,  # a slot's bitmap is 1 << shift bytes long
    B_CAPACITY,
    B_USED,
    B_ALIVE,
    B_CUTS,
    B_EXCLUDED,  # bitmaps by slot
    B_UNSURE,  # the same
    B_DEAD,  # bitmap: no row there, or one that was removed
    B_SCALED,  # the rows' scaled bounds, see `cuts`
    B_DOUBTED,  # bitmap: rows that must be checked wherever they survive
    B_UNSCALED,  # bitmap: rows that must be checked where they are unsure
    B_ROWS,  # addresses of the rows
    B_HANDLES,  # 4 bytes each
    B_BYTES,
    B_WORDS,
) = range(17)

(
    P_NEXT,
    P_HASH,
    P_ATTRIBUTE,
    P_KIND,
    P_KEY,
    P_ROWS,
    P_LIST,
    P_COUNT,
    P_ROOM,
    P_BLOCKS,
    P_CUTS,
    P_STAMP,  # of the last event that was searched for by piece
) = range(12)
P_WORDS = 12


@part
def new(state: Int, size: Int) -> Int:
    """Allocate `size` bytes, counted with what the allocator adds."""
    put8(state, S_BYTES, get8(state, S_BYTES) + size + 8)
    return allocate(size)


@part
def new_zeroed(state: Int, size: Int) -> Int:
    put8(state, S_BYTES, get8(state, S_BYTES) + size + 8)
    return allocate_zeroed(size, 1)


@part
def give_back(state: Int, address: Int, size: Int) -> None:
    if address != 0:
        put8(state, S_BYTES, get8(state, S_BYTES) - size - 8)
        release(address)


@part
def longer(state: Int, address: Int, old: Int, size: Int) -> Int:
    """Move the `old` bytes at `address` to memory of `size` bytes, with zeros behind them."""
    larger = new_zeroed(state, size)
    if address != 0:
        copy_bytes(larger, address, old)
        give_back(state, address, old)
    return larger


@part
def lengthened(state: Int, address: Int, old: Int, size: Int) -> Int:
    """Make the memory of `old` bytes at `address` `size` bytes long, with zeros behind the old
    ones. Where it is large, the system moves it without a copy."""
    put8(state, S_BYTES, get8(state, S_BYTES) + size - old)
    larger = reallocate(address, size)
    for i in range(old >> 3, size >> 3):
        put8(larger, i, 0)
    return larger


@part
def forget_layout(state: Int) -> None:
    """Forget the layout of events, because the attributes have changed."""
    for i in range(LAYOUT):
        put8(get8(state, S_LAYOUT), L_WORDS * i, 0)
