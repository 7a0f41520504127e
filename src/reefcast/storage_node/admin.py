"""The HTTP listener of a storage for operators: the same as that of a broker, but for the
dashboard. It is there for the whole life of the process, also while the history is opened or
repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from reefcast.extras import extra_for
from reefcast.model.grants import Grants
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.network.roles import grants_of
from reefcast.network.sections import StorageEntry
from reefcast.server.following import follow_users
from reefcast.server.greeting import Current
from reefcast.server.member import audit_of, authenticator_of, credentials_of, renew
from reefcast.server.metrics import definitions as common
from reefcast.server.metrics.collecting import of_counters
from reefcast.server.metrics.observed import Figure, figure
from reefcast.server.metrics.sampling import TICK_S
from reefcast.server.status import certificate_status, process_status
from reefcast.server.tracing import Journal
from reefcast.storage_node.metric_definitions import OF_LISTENER
from reefcast.storage_node.observed import Observed
from reefcast.timing import MACHINE


class StorageAdmin:
    """The HTTP listener of the storage `entry` of a network, in the running event loop. `observed`:
    what it shows. Raises `ConfigurationError` for files that are not there, or wrong."""

    kind: ClassVar[str] = "storage"

    def __init__(self, network: NetworkFile, entry: StorageEntry, host: str, port: int) -> None:
        with extra_for("an admin listener"):
            from reefcast.server.web.door import Door  # loads aiohttp and prometheus_client
            from reefcast.server.web.operated import Operated
        self.network = network
        self.name = entry.name
        self.observed = Observed(entry, network.network.name)
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._session = MACHINE.get().token(8)
        self._journal = Journal(entry.name, None, self.kind)
        self._tls = credentials_of(network, entry.name, self.kind)
        self._current = Current(authenticator_of(network, entry.name, self._journal, self._tls))
        self._audit = audit_of(network, entry.name, self.kind)
        self._grants: Grants = grants_of(network.role)
        me = Operated(
            kind=self.kind,
            name=entry.name,
            network=network,
            session=self._session,
            tls=self._tls,
            journal=self._journal,
            audit=self._audit,
            authenticator=self._current,
            grants=lambda: self._grants,
            not_ready=self.observed.not_ready,
            figures=self._figures,
            status=self._status,
        )
        self.door = Door(me, host, port)

    @asynccontextmanager
    async def running(self, file: Path | None = None) -> AsyncIterator[Observed]:
        """Listen during the `with` block. `file`: where the network was read; its users and roles
        are followed. Raises `ConfigurationError` if it cannot listen."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self.door.open()
            tasks.append(asyncio.create_task(self._tick()))
            if file is not None:
                tasks.append(asyncio.create_task(follow_users(self, file)))
            yield self.observed
        finally:
            for task in tasks:
                task.cancel()
            await self.door.close()
            self._current.close()
            self._audit.close()
            self._journal.floods.sum_up()

    def become(self, network: NetworkFile) -> None:
        """Have users prove who they are, and do what they may, as this network file says. Raises
        `ConfigurationError`, and changes nothing, for what is wrong there."""
        grants = grants_of(network.role)
        self._current.become(network)
        self.network, self._grants = network, grants

    def reload(self) -> None:
        """Read the certificate and the key again (`member.renew`)."""
        self._renew(again=True)

    def _renew(self, *, again: bool) -> None:
        if self._tls is not None:
            renew(self._tls, self.name, self.kind, again=again)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            self.door.tick(now)
            self._journal.floods.tick(now)
            self._audit.tick(now)
            self._current.look()  # each request is proved anew
            self._renew(again=False)

    # --- what it answers --------------------------------------------------------------------------

    async def _figures(self, visitors: int) -> list[Figure]:
        found = [*await self.observed.figures(), figure(common.CONNECTIONS, visitors, "http")]
        if self._tls is not None:
            found.append(figure(common.CERTIFICATE, self._tls.value.ends_s))
        return [*found, *of_counters(self._journal.counters, OF_LISTENER)]

    def _status(self, request: StatusRequest) -> dict[str, object]:
        """Return the status; it has no tables of which rows could be asked for."""
        return {
            "network": self.network.network.name,
            "session": self._session,
            **self.observed.status(),
            **process_status(),
            "uptime_s": round(self._loop.time() - self._began_s, 3),
            "certificate": None if self._tls is None else certificate_status(self._tls.value),
            "listener": dict(self._journal.counters),
        }
