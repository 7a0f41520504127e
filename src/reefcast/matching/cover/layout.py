"""The loops of the covering index; their tables are those of `cover.blocks` and `cover.index`.

Theory of operation
-------------------
A stored conjunction is a *row*, its box (see `cover.coding`) an interval for each attribute that it
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

An end that many rows share (a symbol, a missing bound) gets a bucket of its own, a *point*: there
rows with an end in the query's bucket have the same end, and nothing is unsure.

Words of a box: for each attribute a *record* of low key; high key; low rest and high rest (4 bytes
each); attribute and kinds (4 bytes each; kind of the low end, and 16 times that of the high end).
The last two are its *tags*. Boxes of one block that differ in the keys only share a *shape*, where
all their tags are; a row keeps the keys.
"""

from __future__ import annotations

BOX_WORDS = 4
HALF = 0xFFFFFFFF
NUMBER, STRING = 2, 3
CLASSES, BUCKETS = 64, 128
"""The largest number of buckets of an attribute."""
COVERING, COVERED, MEETING, EQUAL, DOMINATING = range(5)

(
    F_BLOCKS,  # D_* of each block
    F_BLOCK_COUNT,
    F_BOX,  # the box of the query, or of the new row
    F_OUT,  # the result
    F_ROOM,  # how many words may be written there
    F_LISTS,  # scratch: offsets of bitmaps, LIST words for each of the four lists, and the groups
    F_PLACES,  # of each conjunction: its block and row
    F_ATTRIBUTE_USERS,
    F_TEXT_USERS,
    F_TEXT_ADDRESSES,
    F_TEXT_SIZES,
    F_FILTERS,  # the filters whose dominators to find
    F_AGES,  # by filter
    F_DEPTHS,  # by filter
) = range(14)
FRAME_WORDS = 14

(
    D_BITS,  # the bitmaps
    D_STRIDE,  # bytes of a bitmap
    D_USED,  # rows, removed ones too
    D_KEYS,  # of all rows, two for each record
    D_STARTS,  # the start of each row, in records, and that of the next new row (4 bytes)
    D_ROW_SHAPES,  # the shape of each row, in words (4 bytes)
    D_SHAPES,  # see SHAPE_*; first the heads of the chains
    D_SHAPE_WORDS,  # words in use
    D_CONJUNCTIONS,  # the number of each row's conjunction (4 bytes)
    D_CLASSES,  # S_* of each class; this and the boundaries are the cuts, which blocks may share
    D_BOUNDARIES,  # their keys; those of each class filled up to whole groups of 8
    D_BOUNDARY_RESTS,  # their rests and kinds (4 bytes each)
    D_PRESENT,  # bit c: some row has an attribute of class c
    D_SHARED,  # bit c: some row has one that is not the one cut
    D_LIVE,
    D_MARKED,
) = range(16)
BLOCK_WORDS = 16
ROW_BITS = 12

# The first bitmaps of each block. Doubt: Python decides about covering, or about meeting.
ZERO_MAP, LIVE_MAP, MARKED_MAP, DOUBT_MAP, MEETING_DOUBT_MAP, CLASS_MAPS = range(6)
FIXED_MAPS = CLASS_MAPS + CLASSES

S_ATTRIBUTE, S_LOW, S_HIGH, S_COUNT, S_BOUNDARIES, S_PLAIN_KIND, S_POINTS = range(7)
CLASS_WORDS = 9
"""The words of a class: the attribute that is cut or -1; which bitmaps LOW[0] and HIGH[1] are; how
many boundaries; the first of them; their common kind if no long text is among them, else -1; two
words whose bits say which buckets are points."""

SHAPE_NEXT, SHAPE_COUNT, SHAPE_TAGS = range(3)
SHAPE_HEADS = 64
"""The words of a shape: the next one of its chain, or 0; how many records; their tags, two words
each."""

LIST, LISTS, GROUPS = 512, 4, 8
"""Room for the offsets of one list: two for each class, and some for attributes that share one.
Then the number of lists, and of groups of rows in a block."""
