"""GET /v1/events as WebSocket (RFC 6455): see `reefcast.http.talk`.

Messages are handled in their order, but for publications that are to be confirmed: these are
published in their order, and answered when they are confirmed, at most `MOST_UNANSWERED` at a time.
A socket has a client of its own, with one queue for all of its subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from reefcast.client.durable import DurableSession
from reefcast.client.event import Event
from reefcast.client.handles import Subscription
from reefcast.errors import ReefcastError
from reefcast.http import talk
from reefcast.http.bodies import EventsQuery
from reefcast.http.content import Posted, event_of
from reefcast.http.problems import HttpError, Problem, error_of, refused
from reefcast.server.http.asking import Asked
from reefcast.server.http.filters import admitted, subscribed
from reefcast.server.http.inner import InnerClient
from reefcast.server.http.proving import SUBPROTOCOL
from reefcast.server.http.publishing import CONFIRM_S, outcomes
from reefcast.server.http.streaming import WAITING, Counted, events, owed_json, own_client
from reefcast.server.http.writing import STALLED_S, abort

HEARTBEAT_S = 20.0
MOST_UNANSWERED = 64
MOST_SUBSCRIPTIONS = 1_000
CLOSING_S = 2.0
MOST_REASON_BYTES = 123


async def events_or_socket(asked: Asked) -> web.StreamResponse:
    """Answer with a WebSocket, if the request asks for one, else with server-sent events."""
    if asked.request.headers.get("Upgrade", "").strip().lower() != "websocket":
        return await events(asked)
    query: EventsQuery = asked.query()
    async with own_client(asked, query) as (client, dropped):
        socket = web.WebSocketResponse(
            timeout=CLOSING_S,
            protocols=(SUBPROTOCOL,),
            compress=False,
            max_msg_size=asked.most_bytes,
            heartbeat=HEARTBEAT_S,
        )
        talking = Talking(asked, socket, client, dropped)
        await talking.begin(query)
        try:
            await socket.prepare(asked.request)
        except web.HTTPBadRequest as error:
            said = f"this is no handshake of WebSocket: {error.text}"
            raise refused(400, "unreadable", said) from None
        asked.visits.hold(asked.request.transport)
        try:
            await talking.serve()
        finally:
            await talking.close()
        return socket


class Talking:
    """One socket, with its client."""

    def __init__(
        self,
        asked: Asked,
        socket: web.WebSocketResponse,
        client: InnerClient,
        dropped: Counted,
    ) -> None:
        self._asked, self._front = asked, asked.front
        self._socket, self._client, self._dropped = socket, client, dropped
        self._subscriptions: dict[int, Subscription] = {}
        self._sessions: dict[str, DurableSession] = {}
        self._last = 0
        self._pumps: dict[object, asyncio.Task[None]] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._handlers: dict[type, Callable[[Any], Awaitable[talk.Told | None]]] = {
            talk.Publish: self._publish,
            talk.Subscribe: self._subscribe,
            talk.Replace: self._replace,
            talk.Unsubscribe: self._unsubscribe,
            talk.Attach: self._attach,
            talk.Acknowledge: self._acknowledge,
        }

    async def begin(self, query: EventsQuery) -> None:
        """Do what the query asks, before the socket is open. Raises what is wrong with it."""
        if query.format:
            said = "a WebSocket speaks plain JSON; streams of server-sent events bring CloudEvents"
            raise refused(400, "query", said, where="query parameter format")
        if query.session:
            filter = " OR ".join(f"({each})" for each in query.filter)
            attach = talk.Attach(session=query.session, prefetch=query.prefetch, filter=filter)
            await self._attach(attach)
            return
        for filter in query.filter:
            await self._subscribe(talk.Subscribe(filter=filter))

    async def serve(self) -> None:
        """Handle what comes, until the end."""
        self._ready.set()
        for number in self._subscriptions:
            await self._say(talk.Subscribed(subscription=number))
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                await self._end(None, "this socket speaks JSON, in text frames")
                return
            await self._handle(message.data)

    async def close(self) -> None:
        """End what runs for this socket."""
        tasks = [*self._pumps.values(), *self._waiting]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- what comes -------------------------------------------------------------------------------

    async def _handle(self, text: str) -> None:
        number = 0
        try:
            message = talk.said(text)
            number = message.id
            answer = await self._handlers[type(message)](message)
        except (ReefcastError, msgspec.DecodeError, TimeoutError, RecursionError) as error:
            known = error_of(error) or refused(
                400, "unreadable", "this message is nested too deeply"
            )
            answer = talk.Failed(id=number, problem=known.problem)
        if answer is not None:
            await self._say(answer)

    async def _publish(self, message: talk.Publish) -> talk.Told | None:
        read: list[Posted | Problem] = []
        for event in message.events:
            try:
                read.append(event_of(bytes(event), tuple(message.topics), message.expires_s))
            except HttpError as error:
                read.append(error.problem)
        client, confirm = self._client, message.confirm
        made = [each for each in read if not isinstance(each, Problem)]
        sent = await client.send_each(made, confirm=confirm, patience_s=CONFIRM_S)

        async def published() -> talk.PublishedEvents:
            fates = await client.confirmed(sent, CONFIRM_S)
            events = list(outcomes(read, fates, confirm))
            return talk.PublishedEvents(id=message.id, events=events)

        if not confirm:
            told = await published()
            refused = any(each.state == "refused" for each in told.events)
            return told if message.id or refused else None
        while len(self._waiting) >= MOST_UNANSWERED:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer_later(message.id, published()))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return None

    async def _answer_later(self, number: int, answer: Awaitable[talk.Told]) -> None:
        try:
            told: talk.Told = await answer
        except (ReefcastError, TimeoutError) as error:
            known = error_of(error)
            assert known is not None
            told = talk.Failed(id=number, problem=known.problem)
        with suppress(ConnectionError):
            await self._say(told)

    # --- subscriptions ----------------------------------------------------------------------------

    async def _subscribe(self, message: talk.Subscribe) -> talk.Told:
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise refused(403, "limit", f"a socket has {MOST_SUBSCRIPTIONS} subscriptions at most")
        self._last += 1
        number = self._last
        subscription = await subscribed(self._front, self._client, [message.filter], WAITING)
        self._subscriptions[number] = subscription
        self._pump(number, subscription.next_batch, self._front.encoded, subscription=number)
        return talk.Subscribed(id=message.id, subscription=number)

    async def _replace(self, message: talk.Replace) -> talk.Told:
        subscription = self._found(message.subscription)
        kept = admitted(self._front, [message.filter])
        (former,) = subscription.filters
        if former != message.filter:
            await subscription.replace(former, message.filter)
        del kept
        return talk.Done(id=message.id)

    async def _unsubscribe(self, message: talk.Unsubscribe) -> talk.Told:
        subscription = self._found(message.subscription)
        del self._subscriptions[message.subscription]
        await subscription.cancel()
        await asyncio.wait([self._pumps.pop(message.subscription)])
        return talk.Done(id=message.id)

    def _found(self, number: int) -> Subscription:
        if number not in self._subscriptions:
            raise refused(404, "gone", f"this socket has no subscription {number}")
        return self._subscriptions[number]

    # --- durable sessions -------------------------------------------------------------------------

    async def _attach(self, message: talk.Attach) -> talk.Told:
        name = message.session
        if name in self._sessions:
            raise refused(409, "attached", f"this socket consumes session {name!r} already")
        kept = admitted(self._front, [message.filter] if message.filter else [])
        durable = self._client.session(name, prefetch=message.prefetch, filter=message.filter)
        await durable.status()
        self._sessions[name] = durable
        self._pump(name, durable.next_batch, owed_json, session=name)
        del kept
        return talk.Done(id=message.id)

    async def _acknowledge(self, message: talk.Acknowledge) -> talk.Told:
        durable = self._sessions.get(message.session)
        if durable is None:
            raise refused(404, "gone", f"this socket does not consume session {message.session!r}")
        positions = dict.fromkeys(message.positions)
        in_hand = durable.in_hand
        if message.up_to is not None:
            at = in_hand.index(message.up_to) + 1 if message.up_to in in_hand else 0
            positions |= dict.fromkeys([*in_hand[:at], message.up_to])
        await durable.ack_positions(positions, wait=True)
        for each in message.reject:
            durable.reject_position(each.position, each.delay_s)
        return talk.Done(id=message.id, acknowledged=len(positions))

    # --- what goes --------------------------------------------------------------------------------

    def _pump(
        self,
        key: object,
        batch: Callable[[], Awaitable[Sequence[Any]]],
        encoded: Callable[[Any], bytes],
        **whose: Any,
    ) -> None:
        """Pass events on from now on."""
        running = self._pass_on(batch, encoded, whose)
        self._pumps[key] = asyncio.create_task(running)

    async def _pass_on(
        self,
        batch: Callable[[], Awaitable[Sequence[Event]]],
        encoded: Callable[[Any], bytes],
        whose: dict[str, Any],
    ) -> None:
        await self._ready.wait()
        try:
            with suppress(StopAsyncIteration):
                while True:
                    found = await batch()
                    if count := self._dropped.take():
                        await self._say(talk.DroppedEvents(count=count))
                    raw = [msgspec.Raw(encoded(event)) for event in found]
                    await self._say(talk.Events(events=raw, **whose))
        except ReefcastError as error:
            known = error_of(error)
            if known is not None and "session" in whose and self._client.ended is None:
                await self._session_ended(whose["session"], known.problem)
            else:
                await self._end(known.problem if known is not None else None, str(error))
        except ConnectionError:
            await self._socket.close()

    async def _session_ended(self, name: str, problem: Problem) -> None:
        """Say that there are no more events of a session; what else the socket does goes on."""
        del self._sessions[name], self._pumps[name]
        with suppress(ConnectionError):
            await self._say(talk.Failed(problem=problem))

    async def _say(self, told: talk.Told) -> None:
        """Say something. Raises `ConnectionError` if it is not read."""
        try:
            async with asyncio.timeout(STALLED_S):
                await self._socket.send_str(msgspec.json.encode(told).decode())
        except TimeoutError:
            abort(self._asked.request)
            raise ConnectionResetError("the reader of a WebSocket takes nothing") from None

    async def _end(self, problem: Problem | None, words: str) -> None:
        """Say why this is the end, and close."""
        with suppress(ConnectionError):
            if problem is not None:
                await self._say(talk.Failed(problem=problem))
            code = WSCloseCode.UNSUPPORTED_DATA if problem is None else WSCloseCode.GOING_AWAY
            await self._socket.close(code=code, message=close_reason(words))


def close_reason(words: str) -> bytes:
    """Return words as the reason of a close frame: at most 123 bytes, and still UTF-8 where they
    are cut (RFC 6455, section 5.5)."""
    return words.encode()[:MOST_REASON_BYTES].decode(errors="ignore").encode()
