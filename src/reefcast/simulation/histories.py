"""History in a simulated network: which clients take part (`history`), and when they hear of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from reefcast.model.messages import Deliver, Input, ServiceMessage
from reefcast.simulation.clients import Claim, Scripted, SimClient
from reefcast.simulation.history import PastClient
from reefcast.simulation.node import Node


class HasClients(Protocol):
    """What is needed of a `World`."""

    clients: dict[str, SimClient]
    scripts: dict[int, Scripted]

    def client(self, name: str, broker: str) -> SimClient: ...
    def next_handle(self) -> int: ...
    def schedule(self, handle: int, at: float) -> None: ...
    def when(self, node: Node, at: float, action: Callable[[], None]) -> None: ...


class Histories:
    """See the module's docstring. `at`: when a broker's service ends, that causes it."""

    def __init__(self, world: HasClients) -> None:
        self._world = world

    def of(self, name: str, broker: str) -> PastClient:
        """The client's part that is about history."""
        client = self._world.client(name, broker)
        if client.past is None:
            client.past = PastClient(name, broker, partial(self._wake, name))
        return client.past

    def _wake(self, name: str, at_s: float) -> int:
        handle = self._world.next_handle()
        self._world.scripts[handle] = Scripted(at_s, handle, name, "wake")
        self._world.schedule(handle, at_s)
        return handle

    def delivered(self, node: Node, deliver: Deliver, at: float) -> None:
        """To storages, among others."""
        for name, storage in node.storages.items():
            if name in deliver.to:
                keep = partial(storage.keep, deliver.publish.publication)
                self._does(node, self._world.clients[name], keep, at)

    def told(self, node: Node, client: SimClient, message: ServiceMessage, at: float) -> None:
        """By its broker."""
        self._does(node, client, lambda: client.hear(message, at), at)

    def settled(self, node: Node, client: SimClient, claim: Claim | None, at: float) -> None:
        """Maybe the subscription of a storage."""
        if claim is not None and client.past is not None:
            self._does(node, client, lambda: client.settled(claim, at), at)

    def _does(
        self, node: Node, client: SimClient, action: Callable[[], Sequence[Input]], at: float
    ) -> None:
        """The client does something, and says what follows to its broker."""

        def act() -> None:
            node.queue.extend((at, client.name, item, 0) for item in action() if client.connected)

        self._world.when(node, at, act)
