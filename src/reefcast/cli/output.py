"""Standard output of a command that listens to a broker: written in a thread, beside the loop.

Whoever reads it may stop for a while, as a pager does. The loop must go on meanwhile: a broker that
hears nothing ends the connection, and nobody counts what is lost then.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

LAST_S = 2.0
"""How long `finish` waits for output that is being written."""


class Output:
    """`lines`: how many have been written."""

    def __init__(self) -> None:
        self.lines = 0
        self._thread: threading.Thread | None = None

    async def write(self, lines: Sequence[str]) -> None:
        """Write lines, and return when whoever reads has taken them. Raises `OSError`. One call at
        a time; one that is cancelled goes on, see `finish`."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        text = "".join(f"{line}\n" for line in lines)
        data = text.encode(sys.stdout.encoding, sys.stdout.errors or "strict")

        def work() -> None:
            error = self._write(data, len(lines))
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(_settle, written, error)

        # Not one of the loop's threads: the program may end while nobody reads.
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        await written

    def _write(self, data: bytes, lines: int) -> OSError | None:
        """Write past Python's buffer, whose lock is needed when the program ends."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(sys.stdout.fileno(), left) :]
        except OSError as error:
            return error
        self.lines += lines
        return None

    def finish(self) -> None:
        """Wait a moment for what is being written: the rest is lost if nobody reads it."""
        if self._thread is not None:
            self._thread.join(LAST_S)


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.cancelled():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
