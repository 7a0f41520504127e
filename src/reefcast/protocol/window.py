"""Numbered frames of a link between brokers: what was sent and not acknowledged. No I/O.

Frames are numbered by the order in which they are first sent, so what could not be sent yet, since
the connection is broken, has no number and may still be dropped. What was sent may have arrived: it
is kept until the other end says so, and sent again after a reconnect if it says that it has not.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from reefcast.model.messages import Publish
from reefcast.protocol.numbered import Unacknowledged


class Entry(NamedTuple):
    frame: bytes
    publish: Publish | None


class SendWindow:
    """`queue_len`: publications that are not acknowledged, whether sent or not."""

    def __init__(self) -> None:
        self.queue_len = 0
        self._sent: Unacknowledged[Entry] = Unacknowledged()
        # What waits for a connection, by serial number, so that any may be taken out.
        self._waiting: dict[int, Entry] = {}
        self._waiting_publications: deque[int] = deque()
        self._serial = 0

    @property
    def all_acknowledged(self) -> bool:
        return not (len(self._sent) or self._waiting)

    def add_sent(self, frame: bytes, publish: Publish | None) -> None:
        """Add a frame that is sent now, under the next number."""
        self._sent.add(Entry(frame, publish))
        if publish is not None:
            self.queue_len += 1

    def add_waiting(self, frame: bytes, publish: Publish | None, limit: int) -> Publish | None:
        """Add a frame that waits for a connection; return the publication that had to be dropped
        for it.

        At most `limit` publications wait; the oldest goes, control messages never do.
        """
        self._serial += 1
        self._waiting[self._serial] = Entry(frame, publish)
        if publish is None:
            return None
        self.queue_len += 1
        self._waiting_publications.append(self._serial)
        if len(self._waiting_publications) <= limit:
            return None
        self.queue_len -= 1
        return self._waiting.pop(self._waiting_publications.popleft()).publish

    def acknowledged(self, number: int) -> None:
        """The other end has taken over all up to `number`."""
        for entry in self._sent.acknowledge(number):
            self.queue_len -= entry.publish is not None

    def resume(self) -> list[bytes]:
        """Return the frames to send on a new connection, in order; all have a number now."""
        for entry in self._waiting.values():
            self._sent.add(entry)
        self._waiting.clear()
        self._waiting_publications.clear()
        return [entry.frame for entry in self._sent]

    def publications(self) -> list[Publish]:
        """Those that the other end has not acknowledged, in order. It may have got those that were
        sent: they are marked `again`."""
        sent = [entry.publish for entry in self._sent if entry.publish is not None]
        waiting = [entry.publish for entry in self._waiting.values() if entry.publish is not None]
        return [msgspec.structs.replace(publish, again=True) for publish in sent] + waiting
