"""`reefcast-lab burst`: a broad monitor comes and goes over a live network; its delays reported."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import json_option, seed_option
from reefcast_lab.cli.demo_output import print_report
from reefcast_lab.cli.options import out_option, positive_option, rate_option, whole_option

if TYPE_CHECKING:
    from reefcast_lab.demos.burst_figures import Figures


@click.command(
    epilog="Exit codes: 0 every event came exactly once; 1 something was lost, duplicated or "
    "unexpected."
)
@whole_option("--subscriptions", 4000, "Narrow subscriptions, in all.")
@rate_option(200.0)
@whole_option("--visits", 3, "How often the monitor comes and goes.")
@positive_option("--stay", 5.0, "Seconds that the monitor stays each time, and stays away.")
@seed_option
@out_option("out/burst", "Write traces, statistics and the report into this directory.")
@json_option("the table, and what it shows")
def command(
    subscriptions: int,
    rate: float,
    visits: int,
    stay: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Let a broad subscription come and go over thousands of narrow ones, and report the delays.

        reefcast-lab burst --subscriptions 20000

    Seven brokers run on this machine, each a process, once with covering
    "active" and once with "incremental". A monitor that wants everything comes
    and goes; the report shows how long events to the others take meanwhile.
    """
    from reefcast_lab.demos.burst import run_burst
    from reefcast_lab.demos.burst_script import BurstOptions

    options = BurstOptions(subscriptions, rate, visits, stay, seed, out)
    found = run_burst(options, partial(click.echo, err=True))
    if as_json:
        click.echo(json.dumps(as_dict(found, options.report)))
    else:
        print_figures(found, options.report)
    sys.exit(DONE if all(each.verdict.passed for each in found) else NO)


def as_dict(found: list[Figures], report: Path) -> dict[str, Any]:
    """Return the figures for programs."""
    from reefcast_lab.demos.burst_report import conclusions

    return {
        "passed": all(each.verdict.passed for each in found),
        "runs": [
            {
                **asdict(each),
                "control": each.control,
                "nrs": each.nrs,
                "prt_with": each.prt_with,
                "prt_without": each.prt_without,
            }
            for each in found
        ],
        "conclusions": conclusions(*found),
        "report": str(report),
    }


def print_figures(found: list[Figures], report: Path) -> None:
    """Print a table and a few sentences, for people."""
    from reefcast_lab.demos.burst_report import conclusions, table

    columns = [each.covering for each in found]
    print_report(columns, table(found), conclusions(*found), report)
