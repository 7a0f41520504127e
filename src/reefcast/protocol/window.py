"""The numbered frames of a link between brokers that were sent and not acknowledged. No I/O.

Frames are numbered in the order in which they are first sent. A frame that could not be sent yet,
because the connection is broken, has no number and may still be dropped. A frame that was sent may
have arrived: it is kept until the other end acknowledges it, and sent again after a reconnect if
the other end does not have it.

Publications of the compiled path are kept as the batch that was sent; a publication of such a batch
is decoded again if it is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from reefcast.model.messages import Header, Publish
from reefcast.model.wire import HEAD_BYTES, Codec
from reefcast.protocol.batches import Batch
from reefcast.protocol.numbered import Unacknowledged

_CODEC = Codec(header=Header)
"""Decodes batches with headers of nothing but a number of hops."""


class Entry(NamedTuple):
    frame: bytes
    publish: Publish | None


class SendWindow:
    """The frames for one neighbour. `queue_len`: unacknowledged publications, whether sent or
    not."""

    def __init__(self, codec: Codec = _CODEC) -> None:
        self.queue_len = 0
        self._codec = codec
        self._sent: Unacknowledged[Entry | Batch] = Unacknowledged()
        # Frames that wait for a connection, by serial number, so that any may be removed.
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

    def add_sent_batch(self, batch: Batch) -> None:
        """Add a batch whose publications go out now, under the next numbers."""
        self._sent.add(batch, batch.count)
        self.queue_len += batch.count

    def add_waiting(self, frame: bytes, publish: Publish | None, limit: int) -> Publish | None:
        """Add a frame that waits for a connection; return the publication that had to be dropped
        for it.

        At most `limit` publications wait. The oldest is dropped; control messages, and publications
        that are to be confirmed, never are."""
        self._serial += 1
        self._waiting[self._serial] = Entry(frame, publish)
        if publish is None:
            return None
        self.queue_len += 1
        if publish.confirm:
            return None
        self._waiting_publications.append(self._serial)
        if len(self._waiting_publications) <= limit:
            return None
        self.queue_len -= 1
        return self._waiting.pop(self._waiting_publications.popleft()).publish

    def acknowledged(self, number: int) -> None:
        """Forget all up to `number`, which the other end has taken over."""
        before = len(self._sent)
        done = self._sent.acknowledge(number)
        controls = sum(isinstance(item, Entry) and item.publish is None for item in done)
        self.queue_len -= before - len(self._sent) - controls

    def resume(self) -> list[bytes]:
        """Return the frames to send on a new connection, in order; all have a number afterwards."""
        for entry in self._waiting.values():
            self._sent.add(entry)
        self._waiting.clear()
        self._waiting_publications.clear()
        return [item.frame if isinstance(item, Entry) else item.data for item in self._not_had()]

    def publications(self) -> list[Publish]:
        """Return the unacknowledged publications, in order. The other end may have those that were
        sent: they are marked `again`."""
        sent = [publish for item in self._not_had() for publish in _publications(item, self._codec)]
        waiting = [entry.publish for entry in self._waiting.values() if entry.publish is not None]
        return [msgspec.structs.replace(publish, again=True) for publish in sent] + waiting

    def _not_had(self) -> list[Entry | Batch]:
        """Return the items that were sent, without the frames that are acknowledged."""
        items, partly = list(self._sent), self._sent.partly
        if partly and isinstance(items[0], Batch):
            _, items[0] = items[0].cut(partly)
        return items


def _publications(item: Entry | Batch, codec: Codec) -> list[Publish]:
    if isinstance(item, Batch):
        return [publish for _, publish in decoded(item, codec)]
    return [] if item.publish is None else [item.publish]


def decoded(batch: Batch, codec: Codec) -> Iterator[tuple[bytes, Publish]]:
    """Yield the frames of a batch, each with its publication."""
    for frame in batch.frames():
        yield frame, codec.decode_publish(frame[HEAD_BYTES:])
