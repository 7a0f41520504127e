"""A network of live brokers, a storage and clients in simulated time, whose users have roles; and
SQLite, which judges what they may see."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reefcast.client.address import Address
from reefcast.client.client import Client
from reefcast.client.settings import complete
from reefcast.history.store import HistoryStore
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry, LinkEntry, NetworkSection, RoleEntry
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.principal import ALL_ROLES, Principal, UserRole
from reefcast.server.greeting import LOCAL, Authenticator, Greeting
from reefcast.server.node import Node
from reefcast.simulation.wire.connections import Connections
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.storage_node.node import StorageNode
from reefcast_lab.torture.stores import SimulatedKeeper, SimulatedStore

T = TypeVar("T")
FIRST_PORT = 7301
TOPICS = ("t0", "t1")
WHOLE = "free"
"""Who may do everything."""


class User(NamedTuple):
    """A user with these roles, and claims of a token."""

    roles: tuple[str, ...] = ()
    claims: Mapping[str, Any] = {}


class ByName(Authenticator):
    """A client's user is the first part of its id."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self.users = dict(users)

    def prove(self, greeting: Greeting) -> Principal:
        name = greeting.hello.name.partition("-")[0]
        if name not in self.users:
            return LOCAL
        user = self.users[name]
        roles = ALL_ROLES if name == WHOLE else frozenset({UserRole.CLIENT})
        return Principal(name, roles, "test", user.roles, user.claims)


class Granted:
    """Brokers a - b - c with these roles, and users by the names of their clients."""

    def __init__(
        self,
        roles: Sequence[RoleEntry],
        users: Mapping[str, User],
        *,
        routing: str = "acyclic",
        names: Sequence[str] = ("a", "b", "c"),
    ) -> None:
        listen = [f"127.0.0.1:{FIRST_PORT + at}" for at in range(len(names))]
        self.network = NetworkFile(
            network=NetworkSection(routing=routing),
            broker=[BrokerEntry(each, where) for each, where in zip(names, listen, strict=True)],
            link=[LinkEntry(between=pair) for pair in pairwise(names)],
            role=list(roles),
        ).validate()
        self.authenticator = ByName(users)
        addresses = {self.network.address(name): name for name in names}
        self.loop = SimulatedLoop(Connections(addresses))
        self.machines: dict[str, SimulatedMachine] = {}
        self.nodes: dict[str, Node] = {}
        self.disks = {name: SimulatedStore() for name in names}
        self.folder = tempfile.TemporaryDirectory()
        self.store: HistoryStore | None = None

    def run(self, scenario: Callable[[Granted], Awaitable[T]]) -> T:
        """Run a scenario until it is over."""
        errors: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: errors.append(context))
        asyncio.set_event_loop(self.loop)
        try:
            context = self._machine("main").context
            whole = self.loop.create_task(self._whole(scenario), context=context)
            found = self.loop.run_until_complete(whole)
        finally:
            asyncio.set_event_loop(None)
            if self.store is not None:
                self.store.close()
            self.folder.cleanup()
        assert not errors, errors
        for node in self.nodes.values():
            assert not node.host.journal.counters["failures"]
        return found

    async def _whole(self, scenario: Callable[[Granted], Awaitable[T]]) -> T:
        for name in self.network.names:
            await self.on(name, self._start(name))
        await asyncio.sleep(1.0)
        return await scenario(self)

    async def on(self, machine: str, work: Any) -> Any:
        """Run something on a machine of this name, and wait for it."""
        return await self.loop.create_task(work, context=self._machine(machine).context)

    def _machine(self, name: str) -> SimulatedMachine:
        if name not in self.machines:
            self.machines[name] = SimulatedMachine(name, name, self.loop)
        return self.machines[name]

    def sever(self, id: str, broker: str) -> None:
        """Break the connection of a client."""
        for pair in self.loop.connections.pairs(id, broker):
            pair.reset()

    async def _start(self, name: str) -> None:
        keeper = SimulatedKeeper(self.disks[name], random.Random(name))
        node = Node(self.network, name, authenticator=self.authenticator, keeper=keeper)
        self.nodes[name] = node
        await node.start()

    async def client(self, id: str, broker: str, **options: Any) -> Client:
        address = Address(*self.network.address(broker))

        async def connected() -> Client:
            return await Client([address], complete(options), Identity(id))._open()

        client: Client = await self.on(id, connected())
        return client

    async def storage(self, broker: str, topics: Sequence[str] = TOPICS) -> None:
        """Start a storage that may see everything."""
        client = await self.client(f"{WHOLE}-storage", broker)
        self.store = HistoryStore(Path(self.folder.name), lambda error: None)

        async def begin() -> StorageNode:
            assert self.store is not None
            node = StorageNode(client, self.store, topics)
            asyncio.get_running_loop().create_task(node.run())
            return node

        node: StorageNode = await self.on(client.id, begin())
        while set(node.answers) != set(topics):  # noqa: ASYNC110 (a condition without an event)
            await asyncio.sleep(0.1)

    def regrant(self, roles: Sequence[RoleEntry]) -> None:
        """Let all brokers know other roles."""
        for name, node in self.nodes.items():
            self.machines[name].context.run(node.regrant, roles)


class Judge:
    """Events in SQLite, a row for each of their topics, and the filters as WHERE clauses; `${user}`
    and claims are parameters of SQLite."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = tuple(columns)
        self.database = sqlite3.connect(":memory:")
        self.database.execute("PRAGMA case_sensitive_like = ON")
        self.database.execute(f"CREATE TABLE event (id, topic, {', '.join(self.columns)})")

    def add(self, id: int, topics: Sequence[str], event: Mapping[str, Any]) -> None:
        marks = ", ".join("?" * (2 + len(self.columns)))
        values = [event.get(name) for name in self.columns]
        for topic in topics or (None,):
            self.database.execute(f"INSERT INTO event VALUES ({marks})", (id, topic, *values))

    def within(self, filter: str, grant: str = "TRUE", **values: Any) -> set[int]:
        """Return the events of which some topic satisfies both."""
        query = f"SELECT DISTINCT id FROM event WHERE ({filter}) AND ({as_sql(grant)})"
        return {id for (id,) in self.database.execute(query, values)}

    def publishable(self, grant: str, **values: Any) -> set[int]:
        """Return the events all topics of which satisfy the grant."""
        query = f"SELECT id FROM event GROUP BY id HAVING min(coalesce(({as_sql(grant)}), 0))"
        return {id for (id,) in self.database.execute(query, values)}


def as_sql(grant: str) -> str:
    return grant.replace("${user}", ":user").replace("${claims.desk}", ":desk")


def grant_of(texts: Iterable[str | None], user: User) -> str:
    """Return the grant of some roles as a text for the judge: what lacks a claim grants nothing."""
    some = [
        text
        for text in texts
        if text is not None and not ("${claims.desk}" in text and "desk" not in user.claims)
    ]
    return " OR ".join(f"({text})" for text in some) or "FALSE"
