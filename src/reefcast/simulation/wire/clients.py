"""A live client in simulated time: it acts by scripts, and records the outcome.

Its claims are those of its sessions: a session that the broker kept across a cut continues with its
claims; if the broker no longer knows the session, the claims end when the connection may have been
lost, and the client makes them again under new numbers."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from reefcast.client.address import Address
from reefcast.client.client import Client, session_of
from reefcast.client.handles import Advertisement, Subscription
from reefcast.client.history import History
from reefcast.client.session import Session
from reefcast.client.settings import complete
from reefcast.client.signal import Signal
from reefcast.errors import ConnectionLostError, ReefcastError, RefusedError
from reefcast.model.publication import Publication, PublicationId
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.registrations import State
from reefcast.simulation.clients import Asked, Claim, ClientRecord, Scripted
from reefcast.simulation.past import Requesting, Storing
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.wire.storages import Disk, WireStorage

FOR_EVER_S = 1e6
"""Longer than any run: a client does not give up."""
AGAIN = "'"
"""Behind a name, once for each life: ids of clients are unique for ever."""
Delivered = Callable[[str, int, Publication], None]
Handed = Callable[[Scripted, Publication, str], None]


class WireClient(ClientRecord):
    """`harmed_since(t)`: when its link was harmed at `t` or later. `delivered(client, number,
    publication)` and `published(script, publication, broker)` are told what happens.

    `calm`: no fault happens. Only then is it certain that an advertisement that its broker made for
    it, of which the client hears nothing, settled before publications had waited for long enough.

    `resumed`, `anew`: connections after the first, by what became of the session: `anew` says when
    the former one may have been lost, and when there was another. `got`: handle and id of each
    event that the application read. `storage`: while it is one."""

    def __init__(
        self,
        name: str,
        broker: str,
        machine: SimulatedMachine,
        address: tuple[str, int],
        silence_s: float,
        harmed_since: Callable[[float], float],
        delivered: Delivered,
        published: Handed,
        disk: Disk,
        calm: bool,
    ) -> None:
        super().__init__(name, broker)
        self.machine = machine
        self.live: Client | None = None
        self.resumed = 0
        self.anew: list[tuple[float, float]] = []
        self.got: list[tuple[int, PublicationId]] = []
        self.storage: WireStorage | None = None
        self._address = Address(*address)
        self._settings = complete(
            {
                "connect_timeout_s": FOR_EVER_S,
                "reconnect_timeout_s": FOR_EVER_S,
                "silence_s": silence_s,
                "on_refused": lambda id, reason: self.refused.add(id),
                "on_disconnect": self._disconnected,
            }
        )
        self._harmed_since = harmed_since
        self._delivered = delivered
        self._published = published
        self._disk = disk
        self._calm = calm
        self._wanted: dict[int, Scripted] = {}
        self._handles: dict[int, Advertisement | Subscription] = {}
        self._numbers: dict[int, int] = {}
        self._to_publish: deque[Scripted] = deque()
        self._more = Signal()
        self._endings = 0
        self._looks_up = self._life = 0
        self._stored: Storing | None = None
        self._advertised = False
        self._met = False
        self._since_s = 0.0
        self._lost_s = math.inf

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def idle(self) -> bool:
        """Whether all that it asked for has been answered, and all it published taken over."""
        if self.live is None:
            return True
        waits = self._to_publish or self._endings or self.live.unacknowledged or self._looks_up
        if self.storage is not None and self.storage.is_catching_up:
            return False
        registered = session_of(self.live).registrations.by_number.values()
        return self.live.connected and not waits and not any(e.unanswered for e in registered)

    # --- scripts ----------------------------------------------------------------------------------

    def act(self, script: Scripted) -> None:
        """Do what the script says, on the client's own machine, if its program is not dead."""
        if not self.machine.dead:
            self.machine.context.run(self._act, script)
        elif script.kind == "withdraw":
            self._stored = None

    def _act(self, script: Scripted) -> None:
        if self.live is None:
            self._connect()
        if script.kind == "publish":
            self._to_publish.append(script)
            self._more.fire()
        elif isinstance(script, Requesting):
            _spawn(self._look_up(script))
        elif isinstance(script, Storing):
            _spawn(self._store(script))
        elif self.storage is not None and script.handle == self.storage.handle:
            self.storage.end()
        elif script.kind == "withdraw":
            self._withdraw(script.handle)
        else:
            self._ask(script)

    def _connect(self) -> None:
        identity = Identity(self.name + self._life * AGAIN)
        self.live = Client([self._address], self._settings, identity)
        self._listen(session_of(self.live))
        _spawn(self._publish(self.live))

    def _listen(self, session: Session) -> None:
        established = session.established

        def listening(hello: Any) -> None:
            established(hello)
            self._established(session, resumed=hello.resumed)

        session.established = listening  # type: ignore[method-assign]  # to know it at that instant

    def _ask(self, script: Scripted) -> None:
        assert self.live is not None
        handle, live = script.handle, self.live
        self._wanted[handle] = script
        if script.kind == "subscribe":
            subscription = live.subscribe(script.filter, order_s=script.order_s)
            self._handles[handle] = subscription
            _spawn(self._read(handle, subscription))
        else:
            self._handles[handle] = live.advertise(script.filter)
        if live.connected:
            self._claim(handle)

    def _claim(self, handle: int) -> None:
        """Note the number under which the broker knows a claim now."""
        script, holding = self._wanted[handle], self._handles[handle]._holding
        number = holding.registrations[0].number
        subscription = script.kind == "subscribe"
        claim = Claim(handle, self.name, self.broker, subscription, script.filter, number, self.now)
        self.claims.append(claim)
        self.current[handle] = claim
        self._numbers[handle] = number
        if not subscription:
            self._advertised = True
            self.forget_implicit(self.now)
        _spawn(self._settle(handle))

    async def _settle(self, handle: int) -> None:
        reason = ""
        try:
            await self._handles[handle].settled()
        except RefusedError as error:
            reason = str(error)
        except ReefcastError:
            return
        claim = self.current.get(handle)
        if claim is None:
            return
        if reason:
            claim.refused = reason
            self._wanted.pop(handle, None)
        else:
            claim.settled_s = min(claim.settled_s, self.now)

    def _withdraw(self, handle: int) -> None:
        claim, live = self.current.pop(handle, None), self._handles.get(handle)
        if self._wanted.pop(handle, None) is None or live is None:
            return
        if claim is not None:
            claim.ended_s = self.now
        self._endings += 1
        _spawn(self._end(live))

    async def _end(self, live: Advertisement | Subscription) -> None:
        if isinstance(live, Subscription):
            await live.cancel()
        else:
            await live.withdraw()
        self._endings -= 1

    async def _publish(self, live: Client) -> None:
        while True:
            while not self._to_publish:
                await self._more.wait()
            script = self._to_publish[0]
            attributes, topics, payload = script.attributes, script.topics, script.payload
            publisher, seq = await live.publish(attributes, topics=topics, payload=payload)
            self._to_publish.popleft()
            if not self._advertised:
                self._advertises_all(seq)
            time_us = self.machine.now_us()
            publication = Publication(publisher, seq, time_us, attributes, topics, payload)
            self._published(script, publication, self.broker)

    def _advertises_all(self, seq: int) -> None:
        self._advertised = True
        self.implicit = -seq
        if self._calm:
            self.implicit_until_s = math.inf

    async def _read(self, handle: int, subscription: Subscription) -> None:
        async for event in subscription:
            self.got.append((handle, event.id))
            self._delivered(self.name, self._numbers[handle], event._publication)

    def standing(self) -> Iterable[Claim]:
        """Return the claims that hold, also those made as a storage."""
        return [*self.current.values(), *self._of_storage()]

    def _of_storage(self) -> Iterator[Claim]:
        """Yield the claims of registrations that the script did not make; `Claim.client` is the
        program's id."""
        if self.live is None or self.storage is None:
            return
        scripted = set(self._numbers.values())
        for number, entry in session_of(self.live).registrations.by_number.items():
            if number not in scripted and entry.state in (State.PENDING, State.SETTLED):
                settled_s = 0.0 if entry.state is State.SETTLED else math.inf
                who = (self.storage.handle, self.live.id, self.broker, True, entry.filter, number)
                yield Claim(*who, requested_s=0.0, settled_s=settled_s)

    # --- history ----------------------------------------------------------------------------------

    def will_store(self) -> None:
        """Prepare the client to connect as the process of a storage does, before it does
        anything."""
        self._settings = complete({**self._settings, "queue_policy": "block"})

    async def _store(self, script: Storing) -> None:
        """Run a storage until it is withdrawn, which ends the program."""
        live = self.live
        assert live is not None
        self.storage, self._stored = WireStorage(live, self._disk, script), script
        await self.storage.run()
        self._forget()
        await live.close()

    def _forget(self) -> None:
        self.storage = self.live = self._stored = None
        self._met = False
        self._life += 1

    def die(self) -> None:
        """Kill the process of a storage; what it has stored stays on the disk."""
        stored = self._stored
        self._disk.close(self.name)
        self._forget()
        self._stored = stored

    def start_again(self) -> None:
        """Start the storage that died again, on another machine."""
        if self._stored is not None:
            self.act(self._stored)

    async def _look_up(self, script: Requesting) -> None:
        assert self.live is not None
        question = script.question
        asked = Asked(script.handle, self.name, self.broker, question, self.now)
        history = History(session_of(self.live), question, script.patience_s)
        self.asked.append(asked)
        self._looks_up += 1
        try:
            async for event in history:
                asked.found.append(event.id)
        except (RefusedError, ConnectionLostError) as error:
            asked.error = str(error)
        asked.ended_s = self.now
        asked.hops = {
            storage.rstrip(AGAIN): len(brokers) - 1 for storage, brokers in history.answered.items()
        }
        self._looks_up -= 1

    # --- sessions ---------------------------------------------------------------------------------

    def _disconnected(self) -> None:
        self._lost_s = min(self._lost_s, self.now)

    def _established(self, session: Session, *, resumed: bool) -> None:
        if resumed:
            self.resumed += 1
        else:
            self._begin_anew(session)
        for handle in sorted(self._wanted.keys() - self.current.keys()):
            self._claim(handle)
        if not self._advertised and self.live is not None and self.live.unacknowledged:
            self._advertises_all(session.outbox.acknowledged_seq + 1)
        self._since_s, self._lost_s, self._met = self.now, math.inf, True

    def _begin_anew(self, session: Session) -> None:
        """Note that the broker knows of no session, or of none any more."""
        lost_s = min(self._lost_s, self._harmed_since(self._since_s), self.now)
        if self._met:
            self.anew.append((lost_s, self.now))
        for claim in self.current.values():
            claim.ended_s = lost_s
        self.current.clear()
        self.forget_implicit(-math.inf)
        self._advertised = False
        outbox = session.outbox
        unacknowledged = range(outbox.acknowledged_seq + 1, outbox.seq + 1)
        self.resent.update(dict.fromkeys(unacknowledged, self.now))


def _spawn(work: Coroutine[Any, Any, None]) -> None:
    """Start a task; the machine keeps it. The run ends with what it raises."""
    asyncio.get_running_loop().create_task(work).add_done_callback(_tell)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        message = f"a task of a client failed: {error!r}"
        task.get_loop().call_exception_handler({"message": message, "exception": error})
