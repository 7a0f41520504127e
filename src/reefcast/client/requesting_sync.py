"""What the synchronous client does about requests and replies; the rules are in `requests`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from reefcast.client.backlog import BackloggedClient
from reefcast.client.event import Event as AsyncEvent
from reefcast.client.requests import TIMEOUT_S
from reefcast.client.thread import LoopThread
from reefcast.errors import LocalError
from reefcast.model.flat import Attributes
from reefcast.model.publication import PublicationId


class Event(AsyncEvent):
    """A publication as a subscriber of the synchronous client sees it: as `reefcast.Event`, but
    `reply` needs no `await`."""

    __slots__ = ()

    def reply(  # type: ignore[override]  # the same without await is what this client is for
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        **named: object,
    ) -> PublicationId:
        """Publish the reply to a request and return its id; arguments and errors as in
        `reefcast.Event.reply`."""
        sent: Any = self._by().publish_reply(self, attributes, named, payload, topics)
        return sent  # type: ignore[no-any-return]  # a synchronous client's


class Requesting:
    """The part of a synchronous client that asks and replies."""

    _thread: LoopThread
    _client: BackloggedClient

    @property
    def late_replies(self) -> int:
        """How many replies were dropped because nobody waited for them (any more)."""
        return self._client.late_replies

    def request(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        timeout_s: float | None = TIMEOUT_S,
        **named: object,
    ) -> AsyncEvent:
        """Publish a request, wait for the first reply, and return it; arguments and errors as in
        `reefcast.Client.request`."""
        work = self._client.request(
            attributes, payload=payload, topics=topics, timeout_s=timeout_s, **named
        )
        return self._thread.run(work)

    def request_many(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        timeout_s: float | None = TIMEOUT_S,
        replies: int = 0,
        **named: object,
    ) -> Iterator[AsyncEvent]:
        """Publish a request and iterate over its replies; arguments and errors as in
        `reefcast.Client.request_many`."""
        several = self._client.request_many(
            attributes,
            payload=payload,
            topics=topics,
            timeout_s=timeout_s,
            replies=replies,
            **named,
        )
        try:
            while (reply := self._thread.run(_next(several))) is not None:
                yield reply
        finally:
            with suppress(LocalError):  # the client was closed meanwhile
                self._thread.run(several.aclose())

    def publish_reply(
        self,
        request: AsyncEvent,
        attributes: Attributes | None,
        named: Mapping[str, object],
        payload: bytes,
        topics: Iterable[str],
    ) -> PublicationId:
        """Publish a reply; see `Event.reply`."""
        work = self._client.publish_reply(request, attributes, named, payload, topics)
        return self._thread.run(work)


async def _next(several: AsyncGenerator[AsyncEvent, None]) -> AsyncEvent | None:
    """Return the next reply; None at the end."""
    return await anext(several, None)
