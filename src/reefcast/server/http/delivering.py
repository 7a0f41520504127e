"""The delivery of one CloudEvents subscription: a consumer of its session that sends what it gets
to the sink, as `cloudevents.webhooks` says."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

import aiohttp

from reefcast.client.event import publication_of
from reefcast.client.owed import OwedEvent
from reefcast.cloudevents.filters import AllOf, SubscriptionError
from reefcast.cloudevents.sinks import AllowedSinks
from reefcast.cloudevents.subscriptions import Subscription, kept_subscription
from reefcast.cloudevents.translating import delivered_event
from reefcast.cloudevents.webhooks import (
    Permission,
    Request,
    Step,
    Verdict,
    Webhook,
    delivery_of,
    validation_of,
)
from reefcast.errors import ReefcastError, RefusedError
from reefcast.logs import part
from reefcast.model.messages import LinkName
from reefcast.protocol.principal import Principal
from reefcast.server.http.front import HttpFront
from reefcast.server.http.inner import InnerClient
from reefcast.server.http.noted import NotedSession
from reefcast.timing import MACHINE, Backoff, now_us

log = part("connections")

SUBSCRIPTION = "subscription"
"""The note that says what the subscription is."""
PREFETCH = 64
"""Events of a subscription in memory; with fewer, the disk of its home is waited for more often."""
FIRST_AGAIN_S, LONGEST_AGAIN_S = 0.5, 30.0
KEY_BYTES = 16
UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


class Answered(NamedTuple):
    """The answer of a sink. `headers`: by their names in small letters."""

    status: int
    headers: Mapping[str, str]


class Settings(Protocol):
    """What holds for all sinks (`deliveries.SinkSettings`)."""

    @property
    def allowed(self) -> AllowedSinks: ...

    @property
    def handshake(self) -> bool: ...

    @property
    def origin(self) -> str: ...

    @property
    def public_url(self) -> str: ...


class Sinks(Protocol):
    """All deliveries (`deliveries.Deliveries`)."""

    @property
    def settings(self) -> Settings: ...

    def principal_of(self, link: LinkName, owner: str) -> Principal | None: ...

    async def send(self, request: Request) -> Answered: ...


class Delivery:
    """See the module's docstring. `link`, `owner`, `name`: of the session; `id`: of the
    subscription; `key`: by which its sink may permit deliveries."""

    def __init__(
        self, sinks: Sinks, front: HttpFront, link: LinkName, owner: str, name: str, id: str
    ) -> None:
        self._sinks = sinks
        self._front = front
        self._link = link
        self.owner, self.name, self.id = owner, name, id
        self.key = MACHINE.get().token(KEY_BYTES)
        self._rng = MACHINE.get().generator()
        self._webhook: Webhook | None = None
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name=f"delivery {id}")

    # --- from outside -----------------------------------------------------------------------------

    def again(self) -> None:
        """Start the delivery again, with the subscription as it is by now."""
        former = self._task
        former.cancel()
        self._task = self._loop.create_task(self._run(former), name=f"delivery {self.id}")

    def permit(self, rate: str) -> None:
        """Begin to deliver, with at most `rate` requests a minute (`WebHook-Allowed-Rate`)."""
        if self._webhook is not None:
            self._webhook.called_back(rate)
            self._woken.set()

    def stop(self) -> None:
        """End the delivery; what the sink has not answered stays owed."""
        self._task.cancel()

    async def ended(self) -> None:
        """Wait until it has ended."""
        await asyncio.wait([self._task])

    # --- the task ---------------------------------------------------------------------------------

    async def _run(self, former: asyncio.Task[None] | None = None) -> None:
        if former is not None:
            await asyncio.wait([former])
        backoff = Backoff(FIRST_AGAIN_S, LONGEST_AGAIN_S, self._rng)
        while not self._front.node.stopping:
            try:
                if await self._delivered_all():
                    return
            except (SubscriptionError, ReefcastError) as error:
                self._note("the subscription cannot be served now: %s", error)
            except Exception:
                log.exception("delivery of subscription %s failed", self.id)
            await asyncio.sleep(backoff.pause_s())

    async def _delivered_all(self) -> bool:
        """Deliver as long as that is possible; return whether the subscription has ended."""
        principal = self._sinks.principal_of(self._link, self.owner)
        if principal is None:
            raise RefusedError(f"there is no user {self.owner!r} any more")
        client = await self._front.open_client(principal, _nothing_shown, name="webhook")
        try:
            return await self._serve(client)
        except StopAsyncIteration:
            return False
        finally:
            self._front.leave(client)

    async def _serve(self, client: InnerClient) -> bool:
        session = NotedSession(client, self.name, prefetch=PREFETCH)
        try:
            text = (await session.notes()).get(SUBSCRIPTION)
        except RefusedError as error:
            if error.gone:
                return True
            raise
        if text is None:
            raise SubscriptionError(self.name, "the session has no note that says what it is")
        settings = self._sinks.settings
        subscription = kept_subscription(text, self.id, settings.allowed)
        permission = None if settings.handshake else Permission(0)
        self._webhook = webhook = Webhook(settings.origin, permission, self._rng)
        sending = _Sending(self._sinks, session, subscription, webhook, self._loop)
        held: OwedEvent | None = None
        while True:
            step, until = webhook.step(self._loop.time())
            if step is Step.END:
                self._note("its sink is gone (410), and so is the subscription: %s", self.id)
                await session.close()
                return True
            if step is Step.WAIT:
                await self._sleep(until)
            elif step is Step.VALIDATE:
                await self._validate(subscription, webhook)
            else:
                event = await anext(session) if held is None else held
                held = await sending.send(event)

    async def _sleep(self, until: float) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until if until < math.inf else None):
                await self._woken.wait()

    async def _validate(self, subscription: Subscription, webhook: Webhook) -> None:
        settings = self._sinks.settings
        callback = ""
        if settings.public_url:
            where = f"{settings.public_url}/v1/subscriptions/{self.id}/permission"
            callback = f"{where}?key={self.key}"
        try:
            answer = await self._sinks.send(validation_of(subscription, settings.origin, callback))
        except UNREACHABLE as error:
            webhook.not_validated(self._loop.time())
            self._note("its sink does not answer: %r", error)
        else:
            if webhook.validated(answer.headers, self._loop.time()) is None:
                self._note("its sink does not permit deliveries (status %s)", answer.status)

    def _note(self, words: str, what: object) -> None:
        floods = self._front.node.host.journal.floods
        about = {"client": self.name}
        floods.log(log, logging.WARNING, "webhook", f"{self.name}: {words}", what, about=about)


class _Sending:
    """Sends events to the sink of one subscription, one at a time."""

    def __init__(
        self,
        sinks: Sinks,
        session: NotedSession,
        subscription: Subscription,
        webhook: Webhook,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._sinks, self._session, self._webhook = sinks, session, webhook
        self._subscription, self._loop = subscription, loop
        self._wanted: AllOf = subscription.wanted
        self._refused: set[int] = set()

    async def send(self, event: OwedEvent) -> OwedEvent | None:
        """Send an event, if it is wanted; return it if it is to be sent again."""
        made = delivered_event(publication_of(event))
        if made is None or not self._wanted.holds(made.context):
            await event.ack()
            return None
        if event.position in self._refused:
            await self._refuse(event)
            return None
        origin = self._sinks.settings.origin
        self._webhook.sending(self._loop.time())
        try:
            answer = await self._sinks.send(delivery_of(self._subscription, made, origin))
        except UNREACHABLE:
            verdict, pause_s = self._webhook.unanswered(self._loop.time())
        else:
            now, utc_s = self._loop.time(), now_us() / 1e6
            verdict, pause_s = self._webhook.answered(answer.status, answer.headers, now, utc_s)
        if verdict is Verdict.HELD:
            return event
        if verdict is Verdict.DELIVERED:
            await event.ack()
        elif verdict is Verdict.REFUSED:
            await self._refuse(event)
        elif verdict is Verdict.FAILED:
            await event.reject(delay_s=pause_s)
        return None

    async def _refuse(self, event: OwedEvent) -> None:
        """Give an event back until the session has it among its dead letters."""
        self._refused.add(event.position)
        if event.deliveries >= self._subscription.config.attempts:
            self._refused.discard(event.position)
        await event.reject()


def _nothing_shown(name: str) -> None:
    """Say that nothing is known of the connection of a request: there is none."""
