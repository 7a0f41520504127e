"""The machines of a simulated network: each runs one program, and gives it its time and its
randomness.

A broker that restarts runs on a machine of its own, under the same name."""

from __future__ import annotations

import asyncio
import math
import random
from contextvars import Context, copy_context

from reefcast.timing import MACHINE, Machine

WORK_S = 1.0
"""How long slow work takes: more than any program gives to one connection."""


class SimulatedMachine(Machine):
    """`context`: in which its program runs. `frozen_until_s`: it does nothing before; inf for one
    that is dead. `slow`: the share of looks at the stopwatch that find much time passed. `tasks`:
    those of its program; a program that is dead must not come to an end by being collected."""

    def __init__(self, name: str, seed: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.frozen_until_s = 0.0
        self.slow = 0.0
        self.tasks: list[asyncio.Task[object]] = []
        self._loop = loop
        self._rng = random.Random(seed)
        self._worked_s = 0.0
        self.context: Context = copy_context()
        self.context.run(MACHINE.set, self)

    @property
    def dead(self) -> bool:
        return self.frozen_until_s == math.inf

    def now_us(self) -> int:
        return int(self._loop.time() * 1e6 + 0.5)

    def stopwatch_s(self) -> float:
        if self.slow and self._rng.random() < self.slow:
            self._worked_s += WORK_S
        return self._loop.time() + self._worked_s

    def token(self, size: int) -> str:
        return self._rng.randbytes(size).hex()

    def generator(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))


def current() -> SimulatedMachine:
    """Return the machine on which the caller runs."""
    machine = MACHINE.get()
    assert isinstance(machine, SimulatedMachine), "nothing runs beside the simulated machines"
    return machine
