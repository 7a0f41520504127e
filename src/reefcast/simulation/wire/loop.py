"""An asyncio event loop in simulated time. Its callbacks never wait, and a run is a function of its
inputs: callbacks run in the order in which they are due."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from reefcast.simulation.wire.connections import Connections, Server
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.world import NoProgressError
from reefcast.timing import MACHINE

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MOST_TURNS = 200_000
"""Turns of the loop at one instant; with more, some callback calls itself for ever."""


class _Clock:
    """Takes the place of a loop's selector: waiting lets the time pass."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._turns = 0

    def select(self, timeout_s: float | None) -> Sequence[object]:
        if timeout_s is None:
            raise NoProgressError(f"at {self.now_s} s all wait, and nothing is due any more")
        self._turns = 0 if timeout_s else self._turns + 1
        if self._turns > MOST_TURNS:
            raise NoProgressError(f"at {self.now_s} s something goes on for ever without a pause")
        self.now_s += timeout_s
        return ()

    def close(self) -> None:
        """Do nothing: a loop closes its selector."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module's docstring. `connections`: those that are made on it."""

    # What every loop with a selector has (`asyncio.base_events`).
    _scheduled: list[asyncio.TimerHandle]
    _ready: Sequence[asyncio.Handle]

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._selector = _Clock()
        self._clock_resolution = 1e-9
        self.connections = connections
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._selector.now_s

    def __del__(self) -> None:
        """Do nothing: there is nothing to close, and pending tasks may end in any order."""

    def _process_events(self, events: Sequence[object]) -> None:
        """Do nothing: there are no events of a selector."""

    def _write_to_self(self) -> None:
        """Do nothing: nothing sleeps that would have to be woken."""

    # --- machines ---------------------------------------------------------------------------------

    def freeze(self, machine: SimulatedMachine, until_s: float) -> None:
        """Freeze a machine's program until then. What it has begun at this instant it ends."""
        machine.frozen_until_s = until_s
        for handle in self._scheduled:
            if _runs_on(handle, machine):
                handle._when = max(handle._when, until_s)  # type: ignore[attr-defined]  # the heap's
        heapq.heapify(self._scheduled)

    def kill(self, machine: SimulatedMachine) -> None:
        """Kill a machine's program: nothing of it runs again."""
        machine.frozen_until_s = math.inf
        self.connections.kill(machine)
        for handle in [*self._ready, *self._scheduled]:
            if _runs_on(handle, machine):
                handle.cancel()

    # --- what programs ask of a loop --------------------------------------------------------------

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Do the work at once: it takes no time."""
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


def _runs_on(handle: asyncio.Handle, machine: SimulatedMachine) -> bool:
    context: Context = handle._context  # type: ignore[attr-defined]  # `get_context` is of 3.12
    return context.get(MACHINE) is machine


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    context: Context | None = None,
    **options: Any,
) -> asyncio.Task[Any]:
    """Make a task that does not complain when its program is killed."""
    task = asyncio.Task(coro, loop=loop, context=context, **options)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio does with its own
    machine = MACHINE.get() if context is None else context.get(MACHINE)
    if isinstance(machine, SimulatedMachine):
        machine.tasks.append(task)
    return task
