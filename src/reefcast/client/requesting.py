"""What the asyncio client does about requests and replies; the rules are in `requests`."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

from reefcast.client.encoding import merge_attributes
from reefcast.client.event import Event
from reefcast.client.requests import TIMEOUT_S, Requests, check_timeout, no_reply, not_left
from reefcast.client.retaining import Retain
from reefcast.model.flat import Attributes
from reefcast.model.publication import PublicationId


class Requesting:
    """The part of a client that asks and replies; `_requests` is set by the client."""

    _requests: Requests

    @property
    def late_replies(self) -> int:
        """How many replies were dropped because nobody waited for them (any more)."""
        return self._requests.late

    @abstractmethod
    async def publish(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        confirm: bool = False,
        retain: Retain = False,
        **named: object,
    ) -> PublicationId:
        """Publish one event and return its id, (publisher, seq)."""

    async def request(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        timeout_s: float | None = TIMEOUT_S,
        **named: object,
    ) -> Event:
        """Publish a request, wait for the first reply, and return it.

        Who gets the request answers with `Event.reply`. `attributes`, `payload`, `topics`: as for
        `publish`; the event carries two more attributes, `reply.to` and `reply.number`.
        `timeout_s`: for how many seconds to wait in all; None: for ever. Further replies are
        dropped; for several of them see `request_many`.

        A request is never repeated by itself: where its receiver dies, it is lost. Raises
        `NoReplyError` (a `TimeoutError`) when the time is over, `RefusedError` if the broker
        refuses the request, and what `publish` raises.
        """
        several = self.request_many(
            attributes, payload=payload, topics=topics, timeout_s=timeout_s, replies=1, **named
        )
        async with aclosing(several) as found:
            async for reply in found:
                return reply
        raise no_reply(timeout_s)

    async def request_many(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        timeout_s: float | None = TIMEOUT_S,
        replies: int = 0,
        **named: object,
    ) -> AsyncGenerator[Event, None]:
        """Publish a request and iterate over its replies, as they come from all who answer.

            async for reply in client.request_many(kind="ping", timeout_s=1.0):
                print(reply["name"])

        Ends after `replies` of them (0: no limit), and when `timeout_s` seconds are over since the
        iteration began, however many have come. Raises `NoReplyError` only if the request could not
        even leave within that time; the other arguments and errors are those of `request`.
        """
        requests, values = self._requests, merge_attributes(attributes, named)
        wait_s = check_timeout(timeout_s)
        deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
        with requests.open() as waiting:
            content = requests.attributes_of(waiting, values)
            try:
                async with asyncio.timeout_at(deadline):
                    await requests.until_settled()
                    identity = await self.publish(content, payload=payload, topics=topics)
            except TimeoutError:
                raise not_left(timeout_s) from None
            requests.left(waiting, identity[1])
            while replies <= 0 or waiting.taken < replies:
                try:
                    async with asyncio.timeout_at(deadline):
                        reply = await requests.next_reply(waiting)
                except TimeoutError:
                    return
                yield reply

    async def publish_reply(
        self,
        request: Event,
        attributes: Attributes | None,
        named: Mapping[str, object],
        payload: bytes,
        topics: Iterable[str],
    ) -> PublicationId:
        """Publish a reply; see `Event.reply`."""
        content = self._requests.answer(request, merge_attributes(attributes, named))
        self._requests.allow_replies()
        return await self.publish(content, payload=payload, topics=topics)
