"""What `Simulation` and the checkers ask of a simulated network, however it is simulated.

`World` simulates messages: the core's inputs and effects, with costs. `wire.world.WireWorld` runs
live brokers and clients on simulated connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

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
    """`now`: the simulated time, in seconds since the start. `published`: of each publication its
    script, itself, and its broker."""

    record: Recording
    nodes: Mapping[str, StageNode]
    clients: Mapping[str, ClientRecord]
    scripts: dict[int, Scripted]
    published: dict[PublicationId, tuple[int, Publication, str]]
    now: float
    _last_handle = 0

    def next_handle(self) -> int:
        """Number the scripts, in the order in which they were planned."""
        self._last_handle += 1
        return self._last_handle

    @abstractmethod
    def client(self, name: str, broker: str) -> ClientRecord:
        """Return the client, which is made if it is not there; it sits at one broker for ever."""

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
