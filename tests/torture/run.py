"""One network, some faults one after the other, and a verdict for each; a seed determines
everything random."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from reefcast.errors import ReefcastError
from reefcast.matching import warm_up
from reefcast.routing.registry import routing_named

from .faults import Stage, play
from .ledger import Excuse, Ledger, Outcome
from .network import Broken, LiveNetwork, eventually, make_file
from .workload import Workload

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """A plan of faults. `rate`: events per second; `scale`: factor for the times of faults;
    `within_s`: how long to wait for what should come soon; `quiet_s`: after how long without a new
    event all have come."""

    setup: str
    faults: tuple[str, ...]
    seed: int
    rate: float = 300.0
    scale: float = 1.0
    subscribers: int = 30
    publishers: int = 8
    within_s: float = 60.0
    quiet_s: float = 2.0
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def traced(self) -> bool:
        """Whether brokers write traces: only a broker that writes notices that a disk is full."""
        return any("disk" in fault.split("+") for fault in self.faults)

    def shortened(self) -> Plan:
        """Return the plan for `make test`: fewer events, shorter faults, and patience with a busy
        machine, on which a killed broker may take minutes to start."""
        return replace(
            self,
            rate=120.0,
            scale=0.05,
            subscribers=14,
            within_s=240.0,
            quiet_s=5.0,
            limits={"silence_s": 1.0, "link_patience_s": 600.0},
        )


class Verdict(NamedTuple):
    """The verdict on one fault. `facts`: what was observed, in seconds."""

    setup: str
    fault: str
    seed: int
    outcome: Outcome
    facts: dict[str, float]

    @property
    def fine(self) -> bool:
        return self.outcome.fine


async def run(plan: Plan, say: Say = print) -> list[Verdict]:
    """Play the faults. If more went wrong than may, the next fault gets a new network: what is
    wrong with this one may last."""
    verdicts: list[Verdict] = []
    left = plan.faults
    with quiet():
        while left:
            played = await _with_one_network(plan, left, say)
            verdicts += played
            left = left[len(played) :]
    return verdicts


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of broken connections, and of drawn filters that match nothing: nobody reads
    them here."""
    loggers = [logging.getLogger(name) for name in ("asyncio", "reefcast.client")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


async def _with_one_network(plan: Plan, faults: Sequence[str], say: Say) -> list[Verdict]:
    warm_up()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        file = make_file(plan.setup, Path(folder), traced=plan.traced, **plan.limits)
        ledger = Ledger(keeps_order=routing_named(file.network.routing).keeps_order)
        rng = random.Random(f"{plan.seed} {plan.setup} {faults[0]}")
        async with LiveNetwork(file, Path(folder)) as network:
            by_topic = file.network.routing == "gossip"
            workload = Workload(network, ledger, rng, by_topic=by_topic)
            try:
                await network.whole(plan.within_s)
                await workload.start(plan.subscribers, plan.publishers, plan.rate)
                for name in faults:
                    rng = random.Random(f"{plan.seed} {plan.setup} {name}")
                    verdict = await Play(plan, network, workload, rng).of(name)
                    say(said(verdict))
                    verdicts.append(verdict)
                    if not verdict.fine:
                        break
            finally:
                await workload.stop()
    return verdicts


def said(verdict: Verdict) -> str:
    """Return the verdict in a line that is enough to repeat the fault."""
    state = "fine  " if verdict.fine else "FAILED"
    facts = ", ".join(f"{name} {value:.2f}" for name, value in verdict.facts.items())
    words = verdict.outcome.words(verdict.facts.get("began s", 0.0))
    return f"{state} {verdict.setup} {verdict.fault} seed {verdict.seed}: {words} [{facts}]"


class Play:
    """One fault in one network."""

    def __init__(
        self, plan: Plan, network: LiveNetwork, workload: Workload, rng: random.Random
    ) -> None:
        self._plan, self._network, self._workload = plan, network, workload
        self._ledger = workload.ledger
        self._stage = Stage(network, workload, rng, scale=plan.scale, within_s=plan.within_s)

    async def of(self, name: str) -> Verdict:
        stage, workload, plan = self._stage, self._workload, self._plan
        disconnects = self._disconnects()
        workload.may_publish.set()
        trouble = await self._published(50)
        stage.facts["began s"] = workload.clock()
        if not trouble:
            trouble += await self._tried(play(name, stage))
        over_s = workload.clock()
        trouble += await self._published(50)
        workload.may_publish.clear()
        trouble += await self._tried(self._network.whole(plan.within_s))
        stage.facts["healed after s"] = workload.clock() - over_s
        trouble += await workload.flush(plan.within_s)
        outcome = await self._all_come(stage.excuses)
        trouble += self._unplanned(disconnects)
        self._ledger.close()
        return Verdict(plan.setup, name, plan.seed, replace(outcome, trouble=trouble), stage.facts)

    async def _published(self, more: int) -> list[str]:
        """Wait until so many more events have been published."""
        wanted = self._ledger.count + more
        if await eventually(lambda: self._ledger.count >= wanted, self._plan.within_s):
            return []
        return [f"publishers have published {self._ledger.count} events, and go on no more"]

    async def _tried(self, what: Any) -> list[str]:
        try:
            await what
        except (Broken, ReefcastError, AssertionError, OSError) as error:
            return [f"{type(error).__name__}: {error}"]
        return []

    async def _all_come(self, excuses: Sequence[Excuse]) -> Outcome:
        """Wait until nothing is missing, or nothing has come for a while although nothing waits on
        any link."""
        looked = False
        while True:
            before = self._came()
            outcome = await self._ledger.outcome(excuses)
            if not outcome.missing:
                return outcome
            if await eventually(lambda b=before: self._came() > b, self._quiet_s):
                looked = False
                await asyncio.sleep(0.1)
            elif looked:
                return outcome
            else:
                await self._tried(self._network.whole(self._plan.within_s))
                looked = True

    @property
    def _quiet_s(self) -> float:
        """After how many seconds without an event all have come. Where brokers repair in rounds,
        some rounds may find nothing."""
        round_s = self._network.file.routing.get("round_s", 0.0)
        repairs = "repair" in self._network.file.routing
        return max(self._plan.quiet_s, 6 * round_s * repairs)

    def _came(self) -> int:
        return sum(len(account.came) for account in self._ledger.accounts)

    def _disconnects(self) -> dict[str, int]:
        return {each.account.name: each.disconnects for each in self._workload.subscribers}

    def _unplanned(self, before: dict[str, int]) -> list[str]:
        lost = {
            f"{each.account.name}@{each.account.broker}"
            for each in self._workload.subscribers
            if each.disconnects > before[each.account.name]
            and each.account.broker not in self._stage.victims
        }
        return [f"subscribers lost their connection: {sorted(lost)}"] if lost else []
