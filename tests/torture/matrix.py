"""Every fault on every routing, and the page about the outcomes."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import uvloop

from .faults import FAULTS, NOTICED
from .network import SETUPS
from .run import Plan, Verdict, run

TOGETHER = ("partition+churn", "reset+replace", "kill+churn", "freeze+kill", "stop+slow")
"""The combinations that are played on every routing; `drawn` adds others."""
MIXED = [name for name in FAULTS if name != "none"]


def drawn(rng: random.Random, count: int) -> list[str]:
    """Return random combinations of two or three faults."""
    return ["+".join(sorted(rng.sample(MIXED, rng.choice((2, 2, 3))))) for _ in range(count)]


def plans(setups: Sequence[str], seed: int, *, scale: float, rate: float, mixed: int) -> list[Plan]:
    """Return, for each setup, a plan of all faults and of `mixed` random combinations."""
    return [
        Plan(
            setup,
            (*FAULTS, *TOGETHER, *drawn(random.Random(f"{seed} {setup}"), mixed)),
            seed,
            scale=scale,
            rate=rate,
        )
        for setup in setups
    ]


def play(plan: Plan) -> list[Verdict]:
    return uvloop.run(run(plan, lambda line: print(line, flush=True)))


def play_all(plans: Iterable[Plan], jobs: int) -> list[Verdict]:
    """Play the plans, `jobs` networks at a time, each in a process of its own."""
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        return [verdict for verdicts in pool.map(play, plans) for verdict in verdicts]


# --- the page -------------------------------------------------------------------------------------

HEAD = """\
# Faults: what is kept, what may be lost, how long a gap lasts

<!-- written by `python tools/torture.py --matrix docs/reference/faults.md`, tables and all; the
words are in tests/torture/page.md -->

"""


def page(verdicts: Sequence[Verdict], words: str, how: str) -> str:
    by = {(each.setup, each.fault): each for each in verdicts}
    setups = [name for name in SETUPS if any(each.setup == name for each in verdicts)]
    faults = [name for name in (*FAULTS, *TOGETHER) if any(name == each.fault for each in verdicts)]
    mixed = [each for each in verdicts if each.fault not in faults]
    parts = [
        words.rstrip(),
        f"The tables are of one such run: {how}. {_noticed(verdicts)}".rstrip(),
        "## By fault\n\n" + _by_fault(verdicts, faults, mixed),
        "## By fault and routing\n\n" + _by_routing(by, setups, faults, mixed),
    ]
    return HEAD + "\n\n".join(parts) + "\n"


def _noticed(verdicts: Sequence[Verdict]) -> str:
    """Say how soon brokers that stood still were noticed."""
    after_s = [each.facts[NOTICED] for each in verdicts if NOTICED in each.facts]
    if not after_s:
        return ""
    return (
        f"All neighbours of a broker that stood still had noticed after {min(after_s):.1f} to "
        f"{max(after_s):.1f} s."
    )


def _by_fault(verdicts: Sequence[Verdict], faults: Sequence[str], mixed: Sequence[Verdict]) -> str:
    lines = [
        "| fault | owed | lost | of these allowed | doubled | misdelivered | out of order "
        "| longest gap, s | whole again after, s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in faults:
        lines.append(_sums(_words(name), [each for each in verdicts if each.fault == name]))
    if mixed:
        lines.append(_sums(f"{len(mixed)} drawn mixtures of two or three", mixed))
    return "\n".join(lines)


def _words(name: str) -> str:
    if "+" not in name:
        return f"`{name}`: {FAULTS[name].says}"
    return f"`{name}`: both at once"


def _sums(words: str, of: Sequence[Verdict]) -> str:
    outcomes = [each.outcome for each in of]
    numbers = [
        f"{sum(each.owed for each in outcomes):,}".replace(",", " "),
        sum(each.missing for each in outcomes),
        sum(len(each.excused) for each in outcomes),
        sum(each.doubled for each in outcomes),
        sum(each.misdelivered for each in outcomes),
        sum(each.disordered for each in outcomes),
        f"{max(each.longest_s for each in outcomes):.1f}",
        f"{max(each.facts.get('healed after s', 0.0) for each in of):.1f}",
    ]
    return f"| {words} | " + " | ".join(map(str, numbers)) + " |"


def _by_routing(
    by: dict[tuple[str, str], Verdict],
    setups: Sequence[str],
    faults: Sequence[str],
    mixed: Sequence[Verdict],
) -> str:
    lines = [f"| | {' | '.join(setups)} |", "|---" * (len(setups) + 1) + "|"]
    for fault in faults:
        cells = [_cell([by[setup, fault]] if (setup, fault) in by else []) for setup in setups]
        lines.append(f"| `{fault}` | {' | '.join(cells)} |")
    if mixed:
        cells = [_cell([each for each in mixed if each.setup == setup]) for setup in setups]
        lines.append(f"| mixtures | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(of: Sequence[Verdict]) -> str:
    """Return the number of lost events and the longest gap; bold where more went wrong than may."""
    if not of:
        return ""
    missing = sum(each.outcome.missing for each in of)
    longest_s = max(each.outcome.longest_s for each in of)
    said = f"{missing} / {longest_s:.1f}"
    return said if all(each.fine for each in of) else f"**{said}**"


# --- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/torture.py", description=__doc__)
    parser.add_argument("setup", nargs="?", help=f"one of {', '.join(SETUPS)}; by default all")
    parser.add_argument("faults", nargs="*", help=f"of {', '.join(FAULTS)}; by default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the times of faults")
    parser.add_argument("--rate", type=float, default=300.0, help="events a second")
    parser.add_argument("--mixed", type=int, default=3, help="drawn mixtures for each setup")
    parser.add_argument("--matrix", type=Path, help="write the page here")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    asked = parser.parse_args()
    setups = [asked.setup] if asked.setup else list(SETUPS)
    wanted = plans(setups, asked.seed, scale=asked.scale, rate=asked.rate, mixed=asked.mixed)
    if asked.faults:
        wanted = [
            Plan(setup, tuple(asked.faults), asked.seed, scale=asked.scale, rate=asked.rate)
            for setup in setups
        ]
    verdicts = play_all(wanted, asked.jobs)
    if asked.matrix:
        how = f"--seed {asked.seed} --scale {asked.scale:g} --rate {asked.rate:g}"
        how += f" --mixed {asked.mixed} --jobs {asked.jobs}"
        how = f"`tools/torture.py --matrix docs/reference/faults.md {how}`"
        if asked.scale != 1.0:
            how += f", which makes the times of the faults {asked.scale:g} times as long"
        write_page(verdicts, asked.matrix, how)
    sys.exit(any(not each.fine for each in verdicts))


def write_page(verdicts: Sequence[Verdict], file: Path, how: str) -> None:
    words = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(verdicts, words, how), encoding="utf-8")
