"""The loops of the covering index; their tables are those of `cover_blocks` and `cover_index`.

Theory of operation
-------------------
A stored conjunction is a *row*, its box (see `cover_coding`) an interval for each attribute that it
constrains. Rows stand in blocks of up to 4096. In each block, an attribute's line is cut by
*boundaries*, quantiles of the ends of its rows; bucket k lies between boundaries k and k + 1. For
each bucket there are two bitmaps over the rows, and these are cumulative:

    LOW[k]: the row's interval starts in bucket k or above     HIGH[k]: it ends below bucket k

Let the query's interval start in bucket i and end in j. Then for each attribute of the query

    asked for                    is no answer, or must be one         is one for certain, if also
    covering rows                in LOW[i+1] or HIGH[j]: out          not in LOW[i], HIGH[j+1]
    covered rows                 in LOW[i] and HIGH[j+1]: must be     in LOW[i+1], HIGH[j]
    intersecting rows            in LOW[j+1] or HIGH[i]: out          not in LOW[j], HIGH[i+1]
    equal rows                   in LOW[i] and HIGH[j+1]: must be,    (never for certain)
                                 in LOW[i+1] or HIGH[j]: out

A row that does not constrain the attribute has no bits, which is right in each of these lines. So
two bitmaps for each attribute and 512 rows at a time leave the survivors; two more tell which of
these are sure; the others are looked at end by end.

Attributes share 64 *classes* (by number). A bitmap for each class says which rows constrain one of
its attributes: that is what rules out rows with attributes that the query lacks, and all that there
is for attributes too rare to be cut, or beyond 64.

Words of a record of a box: low key; high key; low rest and high rest (4 bytes each); attribute and
kinds (4 bytes each; kind of the low end, and 16 times that of the high end).
"""

from __future__ import annotations

BOX_WORDS = 4
HALF = 0xFFFFFFFF
NUMBER, STRING = 2, 3
CLASSES = 64
COVERING, COVERED, MEETING, EQUAL = range(4)

(
    F_BLOCKS,  # D_* of each block
    F_BLOCK_COUNT,
    F_BOX,  # the query's or the new row's box
    F_OUT,  # what was found
    F_ROOM,  # how many words may be written there
    F_LISTS,  # scratch: offsets of bitmaps, LIST words for each of the four lists, and the groups
    F_PLACES,  # of each conjunction: its block and row
    F_ATTRIBUTE_USERS,
    F_TEXT_USERS,
    F_TEXT_ADDRESSES,
    F_TEXT_SIZES,
) = range(11)
FRAME_WORDS = 11

(
    D_BITS,  # the bitmaps
    D_STRIDE,  # bytes of a bitmap
    D_USED,  # rows, gone ones too
    D_BOXES,
    D_STARTS,  # where the box of each row starts, and of the next one to come (4 bytes)
    D_OWNERS,  # the filter of each row (4 bytes)
    D_CONJUNCTIONS,  # number of the conjunction (4 bytes)
    D_CLASSES,  # S_* of each class
    D_KEYS,  # of the boundaries; those of each class filled up to whole groups of 8
    D_RESTS,  # of the boundaries: rest and kind (4 bytes each)
    D_PRESENT,  # bit c: some row has an attribute of class c
    D_LIVE,
    D_MARKED,
) = range(13)
BLOCK_WORDS = 13
ROW_BITS = 12

# The first bitmaps of each block. Doubt: Python has the last word about covering, or about meeting.
ZERO_MAP, LIVE_MAP, MARKED_MAP, DOUBT_MAP, MEETING_DOUBT_MAP, CLASS_MAPS = range(6)
FIXED_MAPS = CLASS_MAPS + CLASSES

S_ATTRIBUTE, S_LOW, S_HIGH, S_COUNT, S_BOUNDARIES, S_SHARED, S_PLAIN_KIND = range(7)
CLASS_WORDS = 7
"""Of a class: the attribute that is cut or -1; offset of LOW[0] and of HIGH[1]; how many
boundaries; the first of them; whether rows have other attributes of this class; the kind of all its
boundaries if their rests are 0, else -1: then keys tell which of them are at or below an end."""

LIST = 512
"""Room for the offsets of one list: two for each class, and some for attributes that share one."""
