"""The layout of the memory that Python and the kernels of this folder share: words of 8 bytes.

- `K_*` of the desk, from which all else hangs by address;
- `F_*` of a publication of the run, written by `cut`;
- `E_*` of an entry: one publication for one destination, with a number of a subscription;
- `D_*` of a destination: a client of the broker, or a neighbour;
- `H_*` of a slot in the table of known headers;
- `C_*` of a course, `A_*` of where its copies go, `S_*` of a choice among next hops (`courses`);
- `L_*` of a row that leads to one, by its handle in the index;
- `G_*` of a destination with output, as Python reads it."""

from __future__ import annotations

(
    K_RUN,  # the publications of the run
    K_RUN_ROOM,
    K_ODD,  # how many of them are not plain
    K_STAMP,  # counts what is done, so that what was noted before no longer counts
    K_CALL,  # its value at the beginning of the call
    K_OUT,  # handles that the index found
    K_OUT_ROOM,
    K_ENTRIES,
    K_ENTRY_ROOM,
    K_ENTRY_COUNT,
    K_FRAMES,  # bytes of frames
    K_FRAME_ROOM,
    K_FRAME_BYTES,  # at most so many will be written
    K_TOUCHED,  # G_* of the destinations that something is for
    K_TOUCHED_ROOM,
    K_SHARES,  # table of destinations by what they get: stamp and number, by turns
    K_STOPPED,  # why `pass_on` went no further
    K_TOUCHED_COUNT,
    K_LAST,  # the number of the publisher's last publication
    K_PASSED,  # publications that were passed on, or ended here
    K_NOWHERE,  # of these, for nobody
    K_FOUND,  # UNKNOWN: how many handles are in K_OUT; -1 if it is the course that is not known
    K_HEADERS,  # table of known headers
    K_HEADER_MASK,
    K_WANTED_BELOW,  # rows of a trace are wanted of ids whose hash is below; 0: of none
    K_CRC_TABLE,
    K_TOPIC,  # the bytes of the name of the attribute `topic`
) = range(27)
DESK_WORDS = 32

WHOLE, NOT_PLAIN, NO_ROOM, NO_OUT, UNKNOWN = range(5)
"""Values of K_STOPPED: all is done; the next publication is not plain; it must wait for a later
call; the index found more rows than there is room for; the routing must be asked about it."""

F_START, F_BODY, F_END, F_EVENT, F_SEQ, F_TOPICS, F_TOPIC, F_HEADER, F_CHOICE = range(9)
F_WORDS = 9
"""Where frame and body begin and end, and the map of attributes: 0 if it is not plain; its number,
how many topics it has and where the first one is; the number of its header; the choice that was
made for it, 0 if none was."""

HOPS_HEADERS = 127
"""Headers of nothing but a hop count have that number, if one more is still a byte. All others get
numbers from here on when they are first seen."""

H_AT, H_SIZE, H_NUMBER = range(3)
H_WORDS = 4
"""Where the bytes are (0: the slot is free), how many, the header's number."""

E_NEXT, E_PUBLICATION, E_NUMBER, E_MORE = range(4)
E_WORDS = 4
"""The destination's next entry; which publication of the run; a subscription's number, or for a
neighbour the address of the copy's header; the entry of the next higher number of the same
publication. 0: none; entry 0 is not used."""

D_KIND, D_CLOSED, D_STAMP, D_SEEN, D_CALL, D_FIRST, D_LAST, D_FRAMES, D_HASH, D_MOST = range(10)
D_WORDS = 10
"""Whether frames are deliveries; whether everything for it takes the readable path; the stamp when
a publication found it last, and how many of its rows then, or are not sorted yet; the last call
that did, its first and last entry, how many frames; a hash of these; how many frames of this call
its link may have already when a course sends one more."""

C_ROWS, C_ONWARD, C_TABLE, C_MASK, C_COUNT = range(5)
C_WORDS = 5
"""What matching rows mean for neighbours (see below); the header of copies to where they lead; a
table; how many copies there are whatever matches, whose A_* follow."""

FOLLOWED, CHOSEN, BOUND, UNMATCHED = range(4)
"""C_ROWS. Each neighbour where rows lead gets a copy; or those that the routing chose of these, by
the table of choices, which C_MASK makes a hash a place in; or those where the table says that rows
lead, by their handles: the destination's number plus 1, or 0; or nothing is matched at all."""

A_TO, A_HEADER = range(2)
A_WORDS = 2
"""A destination, and the header of its copy."""

S_HASH, S_HOPS, S_USES, S_COUNT = range(4)
S_WORDS = 4
"""A hash of the next hops of a choice, how many they are; how often it was made; how many copies
there are, or -1 if Python decides. The numbers of the next hops follow, then the A_*."""

CLIENT, NEIGHBOUR = 1, 2

L_TO, L_NUMBER = range(2)
L_WORDS = 2
"""The destination, and for a client the subscription's number there."""

G_TO, G_AT, G_SIZE, G_FRAMES = range(4)
G_WORDS = 4
"""The destination; where its frames begin in K_FRAMES, how many bytes, how many frames."""

MOST_NUMBERS = 256
"""The most subscriptions of one client that a publication may match."""
