"""What happens in the demonstration of covering: who wants what, where, and what is published.

The administrator of the covering paper's introduction: engines of a distributed workflow system,
each interested in the events of a few instances of one process, and a monitor that wants all
events, for a while. Who must get what is told by comparing numbers, without any code that routes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile
from reefcast.network.sections import (
    BrokerEntry,
    LinkEntry,
    NetworkSection,
    StatisticsSection,
    TraceSection,
)
from reefcast.server.supervisor import free_ports

LINKS = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b4", "b6"), ("b3", "b7"))
PUBLISHER, MONITOR, ENGINES = "b1", "b5", ("b5", "b6", "b7")
"""A chain with branches; what the monitor covers crosses all links between it and the publisher."""

PROCESSES = ("claim", "loan", "order", "shipment", "travel")
EVERYTHING = "instance >= 0"
INSTANCES = 8
"""Instances that an engine wants; neighbouring ones."""
SHARED = 4
"""Narrow subscriptions that an event matches, on average: where the monitor goes, most of what it
got is wanted by others, too, as the paper's incremental pruning supposes."""

MOST_SUBSCRIPTIONS = 100_000
STRATEGIES = ("active", "incremental")
TRACE_FLUSH_S = 3600.0
"""At the end only: no file is written while delays are measured."""


@dataclass(frozen=True, slots=True)
class BurstOptions:
    """`subscriptions`: the narrow ones, in all. `rate_per_s`: publications per second. `visits`:
    how often the monitor comes; `stay_s`: seconds that it stays, and stays away."""

    subscriptions: int = 4000
    rate_per_s: float = 200.0
    visits: int = 3
    stay_s: float = 5.0
    seed: int = 0
    out: Path = Path("out/burst")

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    def validate(self) -> BurstOptions:
        """Check the values, and return itself. Raises `ConfigurationError` for one that is out of
        range."""
        if not len(PROCESSES) <= self.subscriptions <= MOST_SUBSCRIPTIONS:
            raise ConfigurationError(
                f"subscriptions must be between {len(PROCESSES)} and {MOST_SUBSCRIPTIONS}"
            )
        if self.visits < 1 or self.rate_per_s <= 0 or self.stay_s <= 0:
            raise ConfigurationError(
                "visits must be at least 1, the rate and the time of a visit above 0"
            )
        return self


@dataclass(frozen=True, slots=True)
class Narrow:
    """An engine's, at a broker: it wants `INSTANCES` instances of a process, from `first` on."""

    process: str
    first: int
    broker: str

    @property
    def filter(self) -> str:
        last = self.first + INSTANCES - 1
        return f"process = '{self.process}' AND instance BETWEEN {self.first} AND {last}"


@dataclass(frozen=True, slots=True)
class Step:
    """What is published: an instance of a process did something."""

    process: str
    instance: int


class Script:
    """The narrow subscriptions, and the publications one after the other; the same for all runs."""

    def __init__(self, options: BurstOptions) -> None:
        self._seed = options.seed
        rng = random.Random(f"subscriptions {options.seed}")
        each = -(-options.subscriptions // len(PROCESSES))
        self._known = each * INSTANCES // SHARED
        """How many instances each process has."""
        firsts = {name: rng.sample(range(self._known), each) for name in PROCESSES}
        self.narrow = [
            Narrow(name, firsts[name].pop(), rng.choice(ENGINES))
            for name in (PROCESSES[i % len(PROCESSES)] for i in range(options.subscriptions))
        ]

    def steps(self) -> Iterator[Step]:
        """Yield the steps, without end."""
        rng = random.Random(f"steps {self._seed}")
        while True:
            yield Step(rng.choice(PROCESSES), rng.randrange(self._known))

    def wanted(self, steps: Sequence[Step]) -> list[set[int]]:
        """Return, for each step, the narrow subscriptions (their places in `narrow`) that must get
        it."""
        at: dict[Step, set[int]] = {}
        for number, narrow in enumerate(self.narrow):
            for instance in range(narrow.first, narrow.first + INSTANCES):
                at.setdefault(Step(narrow.process, instance), set()).add(number)
        return [at.get(step, set()) for step in steps]


def make_network(options: BurstOptions, covering: str) -> NetworkFile:
    """Make the tree, on free ports of loopback; its traces contain only control messages."""
    names = sorted({name for link in LINKS for name in link})
    ports = free_ports(len(names))
    return NetworkFile(
        network=NetworkSection(name="burst", routing="acyclic"),
        routing={"covering": covering},
        trace=TraceSection(
            level="sampled",
            sample=0.0,
            directory=str(options.out / covering / "trace"),
            flush_s=TRACE_FLUSH_S,
        ),
        statistics=StatisticsSection(directory=str(options.out / covering / "statistics")),
        broker=[
            BrokerEntry(name=name, listen=f"127.0.0.1:{port}")
            for name, port in zip(names, ports, strict=True)
        ],
        link=[LinkEntry(between=link) for link in LINKS],
    ).validate()
