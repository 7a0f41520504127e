"""The layout of the memory that Python and the kernels of this folder share: words of 8 bytes.

- `T_*` of a table that is read: the addresses of what every event has, 0 where it is not wanted;
- `C_*` of a column of one attribute; several may have the same name (`C_NEXT`);
- `X_*` of a column of texts or bytes, which are appended;
- `M_*` of a column of maps from the names of attributes to texts; `P_*` of a place in events;
- `W_*` of rows that are written as frames, `A_*` of a column of theirs;
- `N_*` of what is wanted of bodies that are trimmed, with `P_*` of places: P_COLUMN says whether
  the attribute is wanted."""

from __future__ import annotations

from reefcast.matching.passage.layout import F_WORDS

LONG, INTEGER, DOUBLE, STRING, BOOLEAN = range(5)
"""What a column takes: whole numbers of 64 or 32 bits (7.0 is one), numbers, texts,
truth values."""

X_OFFSETS, X_DATA, X_USED, X_WORDS = range(4)
"""Where each ends (int32, one more than rows), the bytes, and how many there are."""

M_WANTED, M_JSON, M_ENDS, M_COUNT, M_FLOATS, M_FLOAT_AT, M_FLOAT_COUNT = range(7)
M_KEYS = 7
M_VALUES = M_KEYS + X_WORDS
M_WORDS = M_VALUES + X_WORDS
"""Where the entries of each row end (int32), and how many there are. A float has an empty text, and
is among M_FLOATS; M_FLOAT_AT says which entries these are. `M_JSON`: texts are quoted."""

T_TIMES, T_SEQS, T_PUBLISHERS, T_PAYLOADS, T_TOPIC_ENDS, T_TOPIC_COUNT = range(6)
T_COLUMNS, T_COLUMN_COUNT = 6, 7
T_TOPICS = 8
"""The column of texts of all topics; `T_PUBLISHERS` and `T_PAYLOADS` are addresses of such."""
T_ALL = T_TOPICS + X_WORDS
T_REST = T_ALL + M_WORDS
"""Maps of all attributes, and of those that no column takes."""
T_PUBLICATION = T_REST + M_WORDS
T_PLACES = T_PUBLICATION + F_WORDS
PLACES = 64
P_NAME, P_SIZE, P_COLUMN, P_WORDS = range(4)
T_WORDS = T_PLACES + PLACES * P_WORDS

C_KIND, C_NAME, C_SIZE, C_NEXT, C_VALUES, C_VALID, C_TEXTS = range(7)
C_WORDS = C_TEXTS + X_WORDS
"""`C_NEXT`: the next column of this name, -1 if there is none; `C_VALID`: a byte for each row."""

A_KIND, A_KEY, A_KEY_SIZE, A_VALUES, A_BYTES, A_VALID, A_WORDS = range(7)
"""`A_KEY`: the encoded name; `A_VALUES`: int64, float64, a byte for each truth value, or the ends
(int32) of the texts at `A_BYTES`; `A_VALID`: a byte for each row, 0 if nothing is missing."""

W_ROWS, W_HEAD, W_HEAD_SIZE, W_COUNTED, W_PUBLISHER, W_PUBLISHER_SIZE, W_FIRST, W_TIMES = range(8)
W_TOPIC_ENDS, W_TOPIC_TEXTS, W_TOPIC_BYTES, W_PAYLOADS, W_PAYLOAD_BYTES = range(8, 13)
W_COLUMNS, W_COLUMN_COUNT, W_OUT, W_ENDS, W_WORDS = range(13, 18)
"""What stands between the length and the body of a frame, and what the length counts beside the
body. The encoded publisher; the number of the first row; the time of each. How many topics (int32)
the rows before and with this one have (0: no row has any); the ends of their texts. Where the
payloads end (0: there are none). The columns of attributes; where to write, and where each frame
ends (int64)."""

N_NAMES, N_COUNT, N_PAYLOAD, N_OUT, N_ENDS = range(5)
N_PUBLICATION = 5
N_PLACES = N_PUBLICATION + F_WORDS
N_WORDS = N_PLACES + PLACES * P_WORDS
"""The addresses and sizes of the wanted names, by turns, and how many there are: -1 for all
attributes; whether the payload is wanted; where to write, and where each body ends (int64)."""
