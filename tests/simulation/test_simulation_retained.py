"""Last values in simulated time, on every routing with links: a client that subscribes while values
change gets the last ones and everything that follows, once, also while links break and primary
links move. In the end all brokers have the same values."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from simulation_wire_scenarios import ROUTINGS, nobody_reads_logs, on_links, wire_of, wire_setup

import reefcast
from reefcast.client import Client, Event
from reefcast.retaining.service import RetainingService
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.wire.world import WireWorld

TOPICS = ("x", "y", "z")
LAST_S, READ_S, END_S = 3.0, 40.0, 45.0
Program = Callable[[Client], Awaitable[None]]


@dataclass
class Run:
    """One run. `last`: the number of the last event, by topic; `got`: what each subscriber was
    given."""

    world: WireWorld
    rng: random.Random
    published: list[tuple[str, int]] = field(default_factory=list)
    got: dict[str, list[Event]] = field(default_factory=dict)

    def start(self, name: str, at_s: float, program: Program) -> None:
        loop, broker = self.world.loop, self.rng.choice(list(self.world.nodes))
        machine = SimulatedMachine(name, name, loop)
        host, port = self.world._network.address(broker)

        async def life() -> None:
            async with reefcast.connect(f"reefcast://{host}:{port}", silence_s=5.0) as client:
                await program(client)

        def begin() -> None:
            machine.tasks.append(machine.context.run(loop.create_task, life()))

        loop.call_at(at_s, begin)

    async def publish(self, client: Client) -> None:
        """Publish, now and then many events at once."""
        loop = self.world.loop
        while loop.time() < LAST_S:
            for _ in range(self.rng.choice((1, 1, 10))):
                number, topic = len(self.published) + 1, self.rng.choice(TOPICS)
                self.published.append((topic, number))
                await client.publish(n=number, topics=[topic], retain=True)
            await asyncio.sleep(self.rng.choice((0.0, 0.02, 0.1)))

    def subscriber(self, name: str) -> Program:
        got = self.got[name] = []

        async def read(client: Client) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(READ_S):
                    async for event in client.subscribe("n > 0", retained=True):
                        got.append(event)

        return read

    def check(self, name: str) -> None:
        got = self.got[name]
        numbers = [event["n"] for event in got]
        assert len(numbers) == len(set(numbers)), f"{name} was given something twice"
        for topic in TOPICS:
            made = [n for t, n in self.published if t == topic]
            its = [event["n"] for event in got if event.topics == (topic,)]
            assert max(its, default=0) == max(made, default=0), (
                f"{name} lacks the last value of {topic}"
            )
            retained = [e["n"] for e in got if e.topics == (topic,) and e.retained]
            first = min(retained) if retained else min(its, default=0)
            assert {n for n in made if n >= first} <= set(its), f"{name} lacks events of {topic}"

    def check_brokers(self) -> None:
        last = dict(self.published)
        for node in self.world.nodes.values():
            [service] = [s for s in node.core._services if isinstance(s, RetainingService)]
            values = [Event(entry.body) for entry in service.values if entry.body]
            assert {e.topics[0]: e["n"] for e in values} == last, node.name


def run(seed: int, routing: str, *, breaks: bool) -> None:
    rng = random.Random(seed)
    setup = wire_setup(rng, routing)
    faults = on_links(setup, {}, rng)[1] if breaks else []
    world = WireWorld(setup, wire_of(rng, faults))
    made = Run(world, rng)
    made.start("publisher", 1.0, made.publish)
    for number in range(4):
        name = f"s{number}"
        made.start(name, rng.uniform(1.0, LAST_S), made.subscriber(name))
    with nobody_reads_logs():
        world.run(END_S, 10**9, lambda now: None)
    assert made.published
    assert len(made.got) == 4
    for name in made.got:
        made.check(name)
    made.check_brokers()


@pytest.mark.parametrize(
    ("seed", "routing"),
    [
        (2, "acyclic"),
        (2, "idr-mesh"),
        (2, "tid-d"),
        (11, "mesh"),  # a broker is frozen for longer than subscriptions watch
    ],
)
def test_last_values_and_all_that_follows(seed: int, routing: str) -> None:
    """One routing of each kind: a tree, a cyclic overlay with links that move, trees of
    advertisements."""
    run(seed, routing, breaks=True)


@pytest.mark.soak
@pytest.mark.parametrize("routing", ROUTINGS)
def test_last_values_for_long(routing: str) -> None:
    for seed in range(10, 60):
        run(seed, routing, breaks=bool(seed % 2))
