"""What the synchronous client has to do with retained values."""

from __future__ import annotations

from reefcast.client.backlog import BackloggedClient
from reefcast.client.event import Event
from reefcast.client.thread import LoopThread
from reefcast.model.flat import Attributes


class RetainingClient:
    """The part of a synchronous client that has to do with retained values."""

    _thread: LoopThread
    _client: BackloggedClient

    def clear_retained(
        self,
        *,
        topic: str = "",
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Clear the value that is retained under this topic or these attributes; as
        `reefcast.Client.clear_retained`."""
        work = self._client.clear_behind(topic, attributes)
        self._thread.run(work, timeout)

    def retained(self, filter: str = "TRUE", timeout: float | None = None) -> list[Event]:
        """Return the retained values that match; as `reefcast.Client.retained`."""
        return self._thread.run(self._client.retained(filter), timeout)
