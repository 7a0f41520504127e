"""A paper of two routings whose figures one can compute by heart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reefcast_lab.experiments.campaign import Campaign, Claim, Measure, Measured, Paper, Plot, Run

HELD_S = 120.0


def measure(delays: dict[str, float], broken: float | None) -> Callable[[Run], list[Measure]]:
    """delay = delays[routing] * (x + seed); the curve inside the run has two places.

    Made in a function, so that it travels to the tasks by value: they cannot import tests.
    """

    def measured(run: Run) -> list[Measure]:
        if run.x == broken:
            raise ValueError(f"no such size as {run.x:g}")
        delay = delays[run.routing] * (run.x + run.seed)
        return [Measure("delay", 0.0, delay), *(Measure("queue", at, at) for at in (1.0, 2.0))]

    return measured


def held(paper: Paper, gate: Path) -> Paper:
    """Return the paper with runs of x = 10 and seed 1 that wait for `gate`; every run that begins
    to measure leaves a line in a file beside it."""
    sizes, *others = paper.campaigns

    def measured(run: Run) -> list[Measure]:
        with gate.with_name("begun").open("a", encoding="utf-8") as begun:
            begun.write(f"{run.x:g} {run.routing} {run.seed}\n")
        until = time.monotonic() + HELD_S
        while (run.x, run.seed) == (10, 1) and not gate.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return sizes.measure(run)

    return replace(paper, campaigns=(replace(sizes, measure=measured), *others))


def toy_paper(folder: Path, broken: float | None = None) -> Paper:
    """Return the paper. Its parameters are a file in `folder`; runs of x = `broken` raise."""

    def runs(scale: str) -> list[Run]:
        sizes = (10, 20) if scale == "small" else (10, 20, 30)
        return [
            Run("toy", scale, "sizes", routing, size, "", seed)
            for size in sizes
            for routing in ("fast", "slow")
            for seed in (0, 1)
        ]

    def idle_runs(scale: str) -> list[Run]:
        return [Run("toy", scale, "idle", "fast", 5, "", 0)]

    kept = threading.Lock()  # cannot be sent to a task: what is said of results stays here

    def evidence(measured: Measured) -> list[str]:
        with kept:
            return [f"There are {len(measured.points)} points at scale {measured.scale}."]

    def outline() -> list[str]:
        with kept:
            return []

    folder.mkdir(parents=True, exist_ok=True)
    parameters = folder / "parameters.toml"
    if not parameters.exists():
        parameters.write_text("latency_ms = 1.0\n", encoding="utf-8")
    measured = measure({"fast": 2.0, "slow": 3.0}, broken)
    return Paper(
        "toy",
        "A toy",
        (Campaign("sizes", "brokers", runs, measured), Campaign("idle", "", idle_runs, measured)),
        (
            Claim(
                "toy/T1", "delay, slow over fast", "effect", "sizes", "delay", "slow", "fast", 0.4
            ),
            Claim(
                "toy/T2",
                "delay of fast | s",
                "level",
                "sizes",
                "delay",
                "fast",
                paper=100.0,
                note="far",
                source="Fig. 2",
            ),
            Claim("toy/T2", "delay of no one", "level", "sizes", "delay", "nobody", "", 1.0),
            Claim("toy/T3", "queue", "level", "idle", "queue", "fast"),
        ),
        (
            Plot("delay", "Delay", "sizes", "delay", "brokers", "s", "x", ("toy/T1", "toy/T2")),
            Plot("queue", "Queue", "sizes", "queue", "s", "messages", "at", ("toy/T3",)),
        ),
        parameters,
        "All runs are toys.",
        evidence,
        outline,
    )
