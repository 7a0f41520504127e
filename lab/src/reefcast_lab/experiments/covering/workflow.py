"""Business processes that run on publish/subscribe: the paper's workflow scenario (VI-G).

A process is a graph of activities; each activity is deployed to an engine. Engines advertise what
their activities will say, and the engine of the first activity subscribes to the process's
*triggers*. A trigger starts an instance: for its time, the engine of each activity subscribes to
the completion of those before it, by the number of the instance, and when an activity is done its
engine publishes so. A share of the processes is monitored, by a client that subscribes to all
completions of the process; and a few clients subscribe to all triggers for one minute in ten.
These broad subscriptions cover the narrow ones, and when they go, those come.

The paper gives sizes, and says that processes "contain combinations of parallel and sequential
control flows, as well as loops"; shapes, durations and rates are ours. The messages follow those of
the paper's reference [1]. The script is open-loop: activities take the time that they take,
whatever the network does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from reefcast.model.publication import Value
from reefcast_lab.experiments.covering.topology import Topology
from reefcast_lab.experiments.script import Claim, Event, Script, quoted

MONITORED_SHARE = 0.3
SAMPLERS = 4
"""Clients that subscribe to all triggers, one minute in ten."""
SAMPLED_S, SAMPLING_PERIOD_S = 60.0, 600.0

PARALLEL_SHARE, LOOP_SHARE = 0.3, 0.15
"""Shares of the compositions of a process; the others are sequences."""
AGAIN = 0.3
"""Probability that a loop goes round once more; three times at most."""
ROUNDS = 3


class Reach(Enum):
    """Where the activities of a process are deployed."""

    ENGINE = "one engine"
    DOMAIN = "the engines of one domain"
    ANYWHERE = "all engines"


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of processes: how many, of how many activities."""

    processes: int
    activities: int
    reach: Reach


KINDS = (
    Kind(80, 3, Reach.ENGINE),
    Kind(80, 10, Reach.DOMAIN),
    Kind(40, 26, Reach.ANYWHERE),
)
"""The paper's."""


# --- control flow ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flow:
    """A block of activities (numbers). `kind`: "activity", "sequence", "parallel" or "loop".

    `first`: those that start it, `last`: those that end it; `after`: pairs of an activity and one
    that comes right before it.
    """

    kind: str
    parts: tuple[Flow, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    after: tuple[tuple[int, int], ...]

    def run(self, at_s: float, mean_s: float, rng: random.Random) -> Iterator[tuple[float, int]]:
        """Yield (when it is done, activity) of one execution that starts at `at_s`, in no
        particular order; an activity takes an exponential time of this mean."""
        if self.kind == "activity":
            yield at_s + rng.expovariate(1 / mean_s), self.first[0]
        elif self.kind == "parallel":
            for part in self.parts:
                yield from part.run(at_s, mean_s, rng)
        else:
            for part in self._in_turn(rng):
                done = list(part.run(at_s, mean_s, rng))
                at_s = max(done)[0]
                yield from done

    def _in_turn(self, rng: random.Random) -> list[Flow]:
        rounds = 1
        while self.kind == "loop" and rounds < ROUNDS and rng.random() < AGAIN:
            rounds += 1
        return [*self.parts] * rounds


def flow(activities: Sequence[int], rng: random.Random) -> Flow:
    """Make a random composition of these activities, at least one."""
    if len(activities) == 1:
        return Flow("activity", (), tuple(activities), tuple(activities), ())
    cut = rng.randrange(1, len(activities))
    parts = flow(activities[:cut], rng), flow(activities[cut:], rng)
    drawn = rng.random()
    if drawn < PARALLEL_SHARE:
        return _parallel(*parts)
    joined = _sequence(*parts)
    return joined if drawn < 1 - LOOP_SHARE else _loop(joined)


def _parallel(one: Flow, other: Flow) -> Flow:
    return Flow(
        "parallel",
        (one, other),
        one.first + other.first,
        one.last + other.last,
        one.after + other.after,
    )


def _sequence(one: Flow, other: Flow) -> Flow:
    between = tuple((later, earlier) for later in other.first for earlier in one.last)
    return Flow("sequence", (one, other), one.first, other.last, one.after + between + other.after)


def _loop(body: Flow) -> Flow:
    back = tuple((first, last) for first in body.first for last in body.last)
    return Flow("loop", (body,), body.first, body.last, tuple(dict.fromkeys(body.after + back)))


# --- processes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """`engines`: the broker of each activity's engine."""

    name: str
    flow: Flow
    engines: tuple[str, ...]

    def deploy(self) -> Iterator[Claim]:
        """Yield the claims that its engines make once."""
        for number, broker in enumerate(self.engines):
            what = f"{completions(self.name)} AND activity = {quoted(activity(number))}"
            yield Claim(engine(broker), broker, what, 0.0, advertises=True)
        for number in self.flow.first:
            broker = self.engines[number]
            yield Claim(engine(broker), broker, triggers(self.name), 0.0)

    def instance(
        self, number: int, at_s: float, mean_s: float, rng: random.Random
    ) -> tuple[list[Claim], list[Event]]:
        """Make an execution that is triggered at `at_s`."""
        done = sorted(self.flow.run(at_s + mean_s, mean_s, rng))
        until_s = done[-1][0] + mean_s
        claims = []
        for later, earlier in self.flow.after:
            broker = self.engines[later]
            what = (
                f"{completions(self.name)} AND activity = {quoted(activity(earlier))} "
                f"AND instance = {number}"
            )
            claims.append(Claim(engine(broker), broker, what, at_s, until_s))
        events = [
            Event(
                engine(self.engines[one]),
                self.engines[one],
                completed(self.name, number, activity(one)),
                done_s,
            )
            for done_s, one in done
        ]
        return claims, events


def processes(topology: Topology, kinds: Sequence[Kind], seed: int) -> list[Process]:
    """Make random processes of these kinds, deployed to engines at the bottom of the domains."""
    rng = random.Random(f"{seed}/covering/processes")
    made: list[Process] = []
    for kind in kinds:
        for _ in range(kind.processes):
            found = _engines(topology, kind.reach, rng)
            deployed = tuple(rng.choice(found) for _ in range(kind.activities))
            control = flow(range(kind.activities), rng)
            made.append(Process(f"process-{len(made):03d}", control, deployed))
    return made


def _engines(topology: Topology, reach: Reach, rng: random.Random) -> list[str]:
    engines = list(topology.publishers)
    if reach is Reach.ENGINE:
        return [rng.choice(engines)]
    if reach is Reach.DOMAIN:
        domain = rng.choice(topology.regions)
        return [broker for broker in engines if broker in domain]
    return engines


# --- what is said ---------------------------------------------------------------------------------


def engine(broker: str) -> str:
    return f"engine-{broker}"


def activity(number: int) -> str:
    return f"activity-{number:02d}"


def triggers(process: str = "") -> str:
    """Return the filter of the triggers of a process, or of all."""
    return f"class = 'trigger' AND process = {quoted(process)}" if process else "class = 'trigger'"


def completions(process: str) -> str:
    """Return the filter of the control-flow messages of a process."""
    return f"class = 'completed' AND process = {quoted(process)}"


def triggered(process: str, instance: int) -> dict[str, Value]:
    return {"class": "trigger", "process": process, "instance": instance}


def completed(process: str, instance: int, activity: str) -> dict[str, Value]:
    return {
        "class": "completed",
        "process": process,
        "instance": instance,
        "activity": activity,
    }


# --- scripts --------------------------------------------------------------------------------------


def workflow_script(
    topology: Topology,
    *,
    kinds: Sequence[Kind],
    duration_s: float,
    deploy_s: float,
    period_s: float,
    activity_s: float,
    seed: int,
) -> Script:
    """Make the script: processes of these kinds run for `duration_s`, each triggered every
    `period_s` (at a phase of its own); an activity takes `activity_s`, mean. In the first
    `deploy_s` engines and monitors make themselves known, evenly in time."""
    rng = random.Random(f"{seed}/covering/workflow")
    made = processes(topology, kinds, seed)
    client, home = "client", rng.choice(topology.subscribers)
    claims = [Claim(client, home, triggers(), 0.0, advertises=True)]
    claims += [claim for process in made for claim in process.deploy()]
    claims += monitors([process.name for process in made], topology, rng)
    script = Script(spread(claims, deploy_s))
    script.claims.extend(samplers(topology, deploy_s, duration_s, rng))
    for process in made:
        at_s, number = deploy_s + rng.uniform(0.0, period_s), 0
        while at_s < duration_s:
            number += 1
            begun, events = process.instance(number, at_s, activity_s, rng)
            script.claims.extend(begun)
            script.events.append(Event(client, home, triggered(process.name, number), at_s))
            script.events.extend(events)
            at_s += period_s
    return script


def monitors(names: Sequence[str], topology: Topology, rng: random.Random) -> list[Claim]:
    """Make a client for each monitored process, at a broker drawn evenly."""
    chosen = sorted(rng.sample(names, round(MONITORED_SHARE * len(names))))
    return [
        Claim(f"monitor-{name}", rng.choice(topology.subscribers), completions(name), 0.0)
        for name in chosen
    ]


def samplers(
    topology: Topology, from_s: float, until_s: float, rng: random.Random
) -> Iterator[Claim]:
    """Yield clients that want all triggers for one minute in ten, evenly apart from each other."""
    for number in range(SAMPLERS):
        client, broker = f"sampler-{number}", rng.choice(topology.subscribers)
        at_s = from_s + (number + 1) * SAMPLING_PERIOD_S / SAMPLERS
        while at_s < until_s:
            yield Claim(client, broker, triggers(), at_s, at_s + SAMPLED_S)
            at_s += SAMPLING_PERIOD_S


def spread(claims: Sequence[Claim], over_s: float) -> list[Claim]:
    """Spread the claims over this time, one after the other, advertisements first."""
    ordered = sorted(claims, key=lambda claim: not claim.advertises)
    gap_s = over_s / max(len(ordered), 1)
    return [
        Claim(one.client, one.broker, one.filter, i * gap_s, one.until_s, one.advertises)
        for i, one in enumerate(ordered)
    ]
