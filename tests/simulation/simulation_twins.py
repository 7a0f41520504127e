"""The two kernels side by side: both must have done the same, and written the same trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plain_kernel import PlainKernel

from reefcast.simulation.kernel import Kernel
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.world import World
from reefcast.traces.vocabulary import KINDS

Rows = dict[tuple[str, str], list[tuple[object, ...]]]


def to_the_microsecond(result: Result) -> Result:
    """Round to microseconds, as the trace does. The twins add up the seconds of a transmission with
    changes of bandwidth in different orders, so that the last bits may differ."""
    claims = [
        replace(
            claim,
            requested_s=round(claim.requested_s, 6),
            settled_s=round(claim.settled_s, 6),
            ended_s=round(claim.ended_s, 6),
        )
        for claim in result.claims
    ]
    return replace(result, claims=claims, duration_s=round(result.duration_s, 6))


def check_twins(run: Callable[[type[World]], Simulation]) -> None:
    """Compare the two kernels. `run`: runs a fresh scenario until it is quiet, with a trace that is
    never flushed."""
    (fast, fast_rows), (plain, plain_rows) = (_outcome(run(kernel)) for kernel in KERNELS)
    for key, rows in plain_rows.items():
        assert fast_rows[key] == rows, key
    assert to_the_microsecond(fast) == to_the_microsecond(plain)


KERNELS: tuple[type[World], ...] = (Kernel, PlainKernel)


def _outcome(simulation: Simulation) -> tuple[Result, Rows]:
    rows = {
        (broker, kind): sorted(zip(*recorder.columns(kind), strict=True), key=repr)
        for broker, recorder in simulation.world.record.recorders.items()
        for kind in KINDS
    }
    return simulation.result(), rows
