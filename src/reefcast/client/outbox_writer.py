"""The thread that writes a publisher's outbox file.

What comes while it syncs goes together with the next sync (*group commit*). A disk that fails does
not end the client: publications wait until it works again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from reefcast.client.outbox_file import OutboxFile

_log = logging.getLogger("reefcast.client")
LATER_S = 0.2
"""How long what is done may stay in the file while nothing is published: it costs a sync."""
AGAIN_S = 0.5
"""The pause until a disk that failed is tried again."""


class OutboxWriter:
    """`written`: called on the event loop's thread with how many publications are in the file since
    the last call, in their order. Made on that thread."""

    def __init__(self, file: OutboxFile, written: Callable[[int], None]) -> None:
        self.file = file
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._done: list[int] = []
        self._next_seq = file.left.last_seq + 1
        self._closing = self._failed = False
        self._ended = asyncio.Event()
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, frames: Sequence[bytes]) -> None:
        """Write publications, which have the next numbers."""
        with self._wake:
            self._frames += frames
            self._wake.notify()

    def done(self, seq: int) -> None:
        """Remove a publication, soon."""
        with self._wake:
            self._done.append(seq)
            if len(self._done) == 1:
                self._wake.notify()

    async def close(self) -> None:
        """Write what is left, and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await self._ended.wait()

    # --- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._wait() and self._write_next():
                pass
        finally:
            self.file.close()
            self._tell(self._ended.set)

    def _write_next(self) -> bool:
        """Write all that has come, with one sync; return False if the client closes before that
        succeeds."""
        with self._wake:
            frames, self._frames = self._frames, []
            done, self._done = self._done, []
        if not self._commit(frames, done):
            return False
        self._next_seq += len(frames)
        if frames:
            self._tell(self._written, len(frames))
        return True

    def _wait(self) -> bool:
        """Return when there is something to write; False if there never will be."""
        with self._wake:
            self._wake.wait_for(lambda: self._frames or self._done or self._closing)
            if not self._frames:
                self._wake.wait_for(lambda: self._frames or self._closing, LATER_S)
            return bool(self._frames or self._done)

    def _commit(self, frames: Sequence[bytes], done: Sequence[int]) -> bool:
        """Write until it succeeds; return False if the client closes before that."""
        while True:
            try:
                self.file.commit(self._next_seq, frames, done)
            except OSError as error:
                if not self._failed:
                    _log.error(
                        "the outbox cannot be written: %s; nothing is published until it can",
                        error,
                    )
                self._failed = True
                with self._wake:
                    if self._wake.wait_for(lambda: self._closing, AGAIN_S):
                        return False
            else:
                if self._failed:
                    _log.warning("the outbox %s can be written again", self.file.path)
                self._failed = False
                return True

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            _log.debug("the event loop has ended before the outbox")
