"""The interface of a simulated network, however it is simulated, for `Simulation` and the checkers.

`World` simulates messages: the core's inputs and effects, with costs. `wire.world.WireWorld` runs
live brokers and clients on simulated connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from reefcast.errors import ConfigurationError
from reefcast.model.messages import LinkName
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.broker import Broker
from reefcast.simulation.clients import ClientRecord, Scripted
from reefcast.simulation.recording import Recording


class StageNode(Protocol):
    """One broker. `neighbours`: those of the overlay now; `linked`: those that it can talk to."""

    @property
    def up(self) -> bool: ...
    @property
    def neighbours(self) -> tuple[LinkName, ...]: ...
    @property
    def linked(self) -> Collection[LinkName]: ...
    @property
    def core(self) -> Broker: ...


class Stage(ABC):
    """`now`: the simulated time, in seconds since the start. `published`: for each publication its
    script, itself, and its broker."""

    record: Recording
    nodes: Mapping[str, StageNode]
    clients: Mapping[str, ClientRecord]
    scripts: dict[int, Scripted]
    published: dict[PublicationId, tuple[int, Publication, str]]
    now: float
    _last_handle = 0

    def next_handle(self) -> int:
        """Return the next number of a script, in the order in which scripts were planned."""
        self._last_handle += 1
        return self._last_handle

    def client(self, name: str, broker: str) -> ClientRecord:
        """Return the client, which is made if it is not there; it sits at one broker for ever.
        Raises `ConfigurationError` where it cannot be."""
        client = self.clients.get(name)
        if client is None:
            if broker not in self.nodes:
                raise ConfigurationError(f"client {name}: there is no broker named {broker!r}")
            if name in self.nodes:
                raise ConfigurationError(f"client {name!r} has the name of a broker")
            client = self._new_client(name, broker)
        if client.broker != broker:
            raise ConfigurationError(f"client {name} sits at {client.broker}, not at {broker}")
        return client

    @abstractmethod
    def _new_client(self, name: str, broker: str) -> ClientRecord:
        """Make a client, and put it among `clients`."""

    @abstractmethod
    def schedule(self, handle: int, at: float) -> None:
        """Have the script `handle` act at `at`."""

    @abstractmethod
    def run(self, until: float, limit: int, progress: Callable[[float], None]) -> bool:
        """Run until nothing is under way (True), or all that happens before `until` (False).

        Raises `NoProgressError` if there is no end of it; `limit`: messages between brokers.
        """

    @abstractmethod
    def unseed(self) -> int:
        """Return 64 bits that differ where two runs differ in what they drew."""
