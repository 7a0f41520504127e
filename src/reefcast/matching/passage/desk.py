"""The memory that Python and the kernels of this folder share, and the calls of both.

Large parts are virtual until they are used: a broker that passes on little needs little of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reefcast.matching.index import BYTES_HEAD
from reefcast.matching.passage import kernels
from reefcast.matching.passage.courses import MOST_HEADERS
from reefcast.matching.passage.frames import HOPS_BYTES, MOST_HEADER_BYTES
from reefcast.matching.passage.layout import (
    DESK_WORDS,
    E_WORDS,
    F_END,
    F_EVENT,
    F_HEADER,
    F_START,
    F_WORDS,
    G_WORDS,
    H_AT,
    H_NUMBER,
    H_SIZE,
    H_WORDS,
    HOPS_HEADERS,
    K_CRC_TABLE,
    K_ENTRIES,
    K_ENTRY_ROOM,
    K_FOUND,
    K_FRAME_ROOM,
    K_FRAMES,
    K_HEADER_MASK,
    K_HEADERS,
    K_LAST,
    K_NOWHERE,
    K_ODD,
    K_OUT,
    K_OUT_ROOM,
    K_RUN,
    K_RUN_ROOM,
    K_SHARES,
    K_STOPPED,
    K_TOPIC,
    K_TOUCHED,
    K_TOUCHED_ROOM,
    K_WANTED_BELOW,
    NO_OUT,
)
from reefcast.matching.passage.samples import crc_table
from reefcast.matching.passage.sources import Source
from reefcast.model.filters import TOPIC
from reefcast.model.messages import Header

Outcome = tuple[int, int, memoryview, int, int, int]
"""The number of the first publication that is left; why it is (K_STOPPED); the G_* words of all
destinations with output; the publisher's last number; how many publications were passed on, and how
many of them to nobody."""
FRAME_ROOM = 4 * 1024 * 1024
"""Bytes that one call writes, at most."""
ENTRY_ROOM = 1 << 17
TOUCHED_ROOM = 1 << 16
FIRST_RUN, FIRST_OUT = 1 << 12, 1 << 13


class Desk:
    """The shared memory of one thread. The results of a call stay until the next one of its kind.
    `wanted_below`: publications with a smaller `id_hash` are not plain (`traces.files`)."""

    def __init__(self, wanted_below: int = 0) -> None:
        self._words = np.zeros(DESK_WORDS, np.int64)
        self._address = int(self._words.ctypes.data)
        self.words = self._words.data
        self._frames = np.empty(FRAME_ROOM, np.uint8)
        self._frame_bytes = self._frames.data
        self._entries = np.empty(E_WORDS * ENTRY_ROOM, np.int64)
        self._touched = np.empty(G_WORDS * TOUCHED_ROOM, np.int64)
        self._touches = self._touched.data
        self._shares = np.zeros(2 * 2 * TOUCHED_ROOM, np.int64)
        for word, memory in (
            (K_FRAMES, self._frames),
            (K_ENTRIES, self._entries),
            (K_TOUCHED, self._touched),
            (K_SHARES, self._shares),
        ):
            self.words[word] = memory.ctypes.data
        self.words[K_FRAME_ROOM] = FRAME_ROOM
        self._crc_table = np.array(crc_table(), np.int64)
        self.words[K_CRC_TABLE] = self._crc_table.ctypes.data
        self._topic = np.frombuffer(TOPIC.encode(), np.uint8)
        self.words[K_TOPIC] = self._topic.ctypes.data
        self.want_below(wanted_below)
        self.words[K_ENTRY_ROOM], self.words[K_TOUCHED_ROOM] = ENTRY_ROOM, TOUCHED_ROOM
        self._enlarge_run(FIRST_RUN)
        self._enlarge_out(FIRST_OUT)
        self.forget_headers()

    def want_below(self, wanted_below: int) -> None:
        """Have publications with a smaller `id_hash` be not plain, from the next run on."""
        self.words[K_WANTED_BELOW] = wanted_below

    def _enlarge_run(self, room: int) -> None:
        self._run = np.empty(F_WORDS * room, np.int64)
        self._publications = self._run.data
        self.words[K_RUN], self.words[K_RUN_ROOM] = self._run.ctypes.data, room

    def _enlarge_out(self, room: int) -> None:
        self._out = np.empty(room, np.int64)
        self.words[K_OUT], self.words[K_OUT_ROOM] = self._out.ctypes.data, room

    # --- a run ------------------------------------------------------------------------------------

    def cut(self, data: bytes, start: int, most_hops: int) -> int:
        """Cut the PUBLISH frames from `start` on; return how many whole ones there are."""
        address = id(data) + BYTES_HEAD
        while True:
            count: int = kernels.cut(self._address, address + start, address + len(data), most_hops)
            if count >= 0:
                return count
            self._enlarge_run(2 * self.words[K_RUN_ROOM])

    @property
    def any_odd(self) -> bool:
        """Whether some publication of the run is not plain."""
        return self.words[K_ODD] > 0

    def is_plain(self, at: int) -> bool:
        """Return whether the publication of this number in the run was found to be plain."""
        return self._publications[F_WORDS * at + F_EVENT] != 0

    def frame_of(self, data: bytes, at: int) -> tuple[int, int]:
        """Return where the publication's frame begins and ends in `data`."""
        first, base = F_WORDS * at, id(data) + BYTES_HEAD
        return self._publications[first + F_START] - base, self._publications[first + F_END] - base

    def end_of(self, data: bytes, at: int) -> int:
        """Return where the publication's frame ends in `data`."""
        return self._publications[F_WORDS * at + F_END] - id(data) - BYTES_HEAD

    # --- headers ----------------------------------------------------------------------------------

    def forget_headers(self) -> None:
        """Forget all headers that were learned, between two runs: their numbers come again."""
        slots = 2 * MOST_HEADERS
        self._headers: list[tuple[bytes, Header]] = []
        self._slots = np.zeros(H_WORDS * slots, np.int64)
        self.words[K_HEADERS], self.words[K_HEADER_MASK] = self._slots.ctypes.data, slots - 1

    @property
    def knows_enough(self) -> bool:
        """Whether no more headers are learned."""
        return len(self._headers) >= MOST_HEADERS

    def learn_header(self, head: bytes, header: Header) -> None:
        """Give the next number to a header, which is a good one, unless it is known by its bytes,
        or too long for that."""
        if self.knows_enough or not HOPS_BYTES < len(head) <= MOST_HEADER_BYTES:
            return
        address = id(head) + BYTES_HEAD
        slot = kernels.find_header(self._address, address, len(head)) - self._slots.ctypes.data
        words = self._slots[slot // 8 : slot // 8 + H_WORDS]
        if not words[H_AT]:
            words[H_AT], words[H_SIZE] = address, len(head)
            words[H_NUMBER] = HOPS_HEADERS + len(self._headers)
            self._headers.append((head, header))

    def header_of(self, at: int) -> tuple[int, Header]:
        """Return (its number, the header) of a plain publication of the run."""
        number = self._publications[F_WORDS * at + F_HEADER]
        if number < HOPS_HEADERS:
            return number, Header(number)
        return number, self._headers[number - HOPS_HEADERS][1]

    # --- passing on -------------------------------------------------------------------------------

    def pass_on(self, first: int, count: int, last: int, source: Source) -> Outcome:
        """Call the kernel of this name, for publications that came from there. `last`: the number
        of their publisher's last publication."""
        words, filters, client = self.words, source.filters, source.client
        while True:
            words[K_LAST] = last
            left = kernels.pass_on(
                self._address,
                first,
                count,
                filters.address,
                source.leads.rows.address,
                source.leads.words.address,
                source.number,
                source.own,
                int(source.topical),
                id(client) + BYTES_HEAD,
                len(client),
                source.courses,
            )
            stopped, touched, *others = words[K_STOPPED : K_NOWHERE + 1].tolist()
            if stopped != NO_OUT or left > first:
                return left, stopped, self._touches[: G_WORDS * touched], *others
            self._enlarge_out(2 * words[K_OUT_ROOM])

    @property
    def found(self) -> Sequence[int] | None:
        """The handles of the rows that the publication matches about which the routing has to be
        asked (UNKNOWN); None if its course is not known."""
        count = self.words[K_FOUND]
        return None if count < 0 else self._out[:count].tolist()

    def count_choices(self, first: int, end: int) -> None:
        """Call the kernel of this name."""
        kernels.count_choices(self._address, first, end)

    def frames(self, at: int, size: int) -> bytes:
        """Return the frames that were written at this place."""
        return bytes(self._frame_bytes[at : at + size])
