"""The log of requests of a live broker: it collects rows, and a thread writes them periodically."""

from __future__ import annotations

import asyncio

from reefcast.history.messages import Request
from reefcast.history.request_log import RequestLog, Rows
from reefcast.logs import part
from reefcast.network.sections import RequestsSection
from reefcast.timing import now_us
from reefcast.words import counted

log = part("trace")


class LiveRequestLog:
    """The log of what this broker's clients ask storages. Rows of the last `flush_s` seconds that
    have not been written are lost with the process."""

    def __init__(self, rows: RequestLog, section: RequestsSection) -> None:
        self._log = rows
        self._flush_s = section.flush_s
        self._keep_s = section.keep_s
        self._flushed_at_s = 0.0
        self._writing: asyncio.Future[None] | None = None

    def asked(self, request: Request) -> None:
        """Record a request of a client, once for each question: not when a broken answer is
        continued, nor when a storage fetches what it lacks."""
        if request.after is None and not request.for_storage:
            self._log.asked(now_us(), request.topics)

    def flush_if_due(self, now_s: float) -> None:
        """Start writing a file in a thread, unless one is being written or it is too early."""
        busy = self._writing is not None and not self._writing.done()
        if busy or now_s - self._flushed_at_s < self._flush_s:
            return
        self._flushed_at_s = now_s
        rows = self._log.drain()
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._write, rows)

    def _write(self, rows: Rows) -> None:
        """Write rows to a file; with a full disk they are lost, and the broker goes on."""
        lost, self._log.lost = self._log.lost, 0
        try:
            self._log.write(rows)
            self._log.remove_old(now_us() / 1e6 - self._keep_s)
        except OSError as error:
            lost += len(rows[0])
            log.error("the log of requests: %s", error)
        if lost:
            log.error("%s of the log of requests lost", counted(lost, "row"))

    async def finish(self) -> None:
        """Write everything that is left."""
        if self._writing is not None:
            await self._writing
        self._write(self._log.drain())


def open_request_log(section: RequestsSection, broker: str) -> LiveRequestLog | None:
    """Open the log that the network file asks for, and load the Parquet library now, not later."""
    if not section.directory:
        return None
    import pyarrow.parquet  # noqa: F401 (loaded now, not while the first requests wait)

    return LiveRequestLog(RequestLog(section.directory, broker), section)
