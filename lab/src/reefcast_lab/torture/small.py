"""Small networks in which each broker is killed at each step: what random runs may miss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from reefcast_lab.torture.judging import judge
from reefcast_lab.torture.links import Directed
from reefcast_lab.torture.network import Network

LINE: Sequence[Directed] = (("a", "b"), ("b", "c"))
TRIANGLE: Sequence[Directed] = (*LINE, ("a", "c"))
ROW: Sequence[Directed] = (*LINE, ("c", "d"))
PUBLICATIONS = 2
AT_THE_END = -1


def kill_everywhere(
    edges: Sequence[Directed] = LINE,
    routing: str = "acyclic",
    seed: int = 0,
    *,
    later: Sequence[int] = (3, AT_THE_END),
) -> Iterator[tuple[str, list[str]]]:
    """Yield what was wrong, and where, for each broker killed at each step of confirmed
    publications from `a` to a durable session at `c`: by the death of its process and by a power
    failure, and started again after so many steps as `later` says. `seed`: the order of steps."""
    step, goes_on = 0, True
    while goes_on:
        for name in "abc":
            for power in (False, True):
                for pause in later:
                    network = _network(edges, routing, seed)
                    goes_on = _kill(network, name, step, power, pause)
                    where = f"{name} at step {step}, power={power}, pause={pause}, seed={seed}"
                    yield where, _judged(network)
        step += 1


def _network(edges: Sequence[Directed], routing: str, seed: int) -> Network:
    """Return a network with a settled session, and publications on their way."""
    network = Network(edges, seed, routing)
    network.want("s0", "c", "x >= 0")
    network.settle()
    network.rng = random.Random(seed)
    publisher = network.publisher("p0", "a", "x >= 0")
    for x in range(PUBLICATIONS):
        publisher.publish({"x": x}, confirm=True)
    return network


def _kill(network: Network, name: str, step: int, power: bool, pause: int) -> bool:
    """Kill a broker at this step; return whether the run had so many steps."""
    for _ in range(step):
        enabled = list(network.steps())
        if not enabled:
            return False
        network.step(*network.rng.choice(enabled))
    network.kill(name, power=power)
    if pause != AT_THE_END:
        network.run(pause)
    else:
        network.run(1000)
        network.pass_time(6.0)
        network.run(1000)
    network.start(name)
    return True


def settle_everywhere(routing: str = "acyclic", seed: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Yield what was wrong, and where, if all brokers but the first one of a row of four are killed
    at each step of the settling of a durable subscription at the last one. That one stays away
    until the others go on without it; they are killed in both ways, and once or twice. The first
    one publishes meanwhile."""
    step, goes_on = 0, True
    while goes_on:
        for powers in ((False,), (True,), (False, True)):
            network = Network(ROW, seed, routing)
            network.publisher("p0", "a", "x >= 0")
            network.pass_by("d", "x >= 0")
            network.settle()
            network.rng = random.Random(seed)
            network.want("s0", "d", "x >= 0")
            goes_on = _let_settle(network, step, powers)
            yield f"step {step}, power={powers}, seed={seed}", _judged(network)
        step += 1


def _let_settle(network: Network, step: int, powers: Sequence[bool]) -> bool:
    for _ in range(step):
        enabled = list(network.steps())
        if not enabled:
            return False
        network.step(*network.rng.choice(enabled))
    network.kill("d", power=True)
    for power in powers:
        for name in "bc":
            network.kill(name, power=power)
        for name in "bc":
            network.start(name)
    network.run(1000)
    network.pass_time(6.0)
    network.run(1000)
    for x in range(PUBLICATIONS):
        network.publishers["p0"].publish({"x": x}, confirm=True)
    network.run(1000)
    network.start("d")
    return True


def _judged(network: Network) -> list[str]:
    problems = judge(network)
    publisher = network.publishers["p0"]
    if len(publisher.confirmed) < publisher.seq:
        problems.append(f"P4: only {sorted(publisher.confirmed)} are confirmed")
    return problems
