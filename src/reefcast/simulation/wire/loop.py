"""An asyncio event loop in simulated time. What runs on it waits for nothing, and a run is a
function of its inputs: callbacks run in the order in which they are due, those of one instant as
they came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

from reefcast.simulation.wire.connections import Connections, Server
from reefcast.simulation.world import NoProgressError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Clock:
    """Stands where loops have their selector: to wait is to pass the time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> Sequence[object]:
        if timeout_s is None:
            raise NoProgressError(f"at {self.now_s} s all wait, and nothing is due any more")
        self.now_s += timeout_s
        return ()

    def close(self) -> None:
        """A loop closes its selector."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module's docstring. `connections`: those that are made on it."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._selector = _Clock()
        self._clock_resolution = 1e-9
        self.connections = connections

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._selector.now_s

    def _process_events(self, events: Sequence[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Does the work at once: it takes no time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        return Server(self.connections, protocol_factory, (host, port))

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        return await self.connections.connect(protocol_factory, (host, port))
