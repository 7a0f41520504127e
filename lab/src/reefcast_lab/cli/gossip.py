"""`reefcast-lab gossip`: peers find each other and share connections, live; some are killed."""

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
    from reefcast_lab.demos.gossip_figures import Figures


@click.command(
    epilog="Exit codes: 0 every peer that lives got every event, once; 1 something was lost, "
    "duplicated or unexpected, or a topic is in pieces."
)
@whole_option("--peers", 100, "Peers, in all.", least=2)
@whole_option("--processes", 4, "Processes among which they are shared out.")
@whole_option("--topics", 20, "Topics, in all.")
@whole_option("--interests", 6, "Topics that a peer wants, on average.")
@whole_option("--kill", 20, "Peers that are killed, all of one process.", least=0)
@whole_option("--rounds", 10, "Rounds before the kill, and as many after it.")
@positive_option("--round", 4.0, "Seconds of a round.", name="round_s")
@rate_option(10.0)
@seed_option
@out_option("out/gossip", "Write the report into this directory.")
@json_option("the figures, and what they show")
def command(
    *,
    peers: int,
    processes: int,
    topics: int,
    interests: int,
    kill: int,
    rounds: int,
    round_s: float,
    rate: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Let peers find each other and share connections, kill some, and report who got what.

        reefcast-lab gossip --peers 100 --kill 20

    Peers of routing gossip run on this machine, several in a process. Each wants
    some topics, and neighbours have many in common; they publish all the time. When they are
    aligned, one process is killed. A round of 100 peers takes about half a second of a core.
    """
    from reefcast_lab.demos.gossip import run_gossip
    from reefcast_lab.demos.gossip_script import GossipPlan

    plan = GossipPlan(peers, processes, topics, interests, kill, rounds, round_s, rate, seed, out)
    found = run_gossip(plan, partial(click.echo, err=True))
    if as_json:
        click.echo(json.dumps(as_dict(found, plan.report)))
    else:
        print_figures(found, plan.report)
    sys.exit(DONE if found.passed else NO)


def as_dict(found: Figures, report: Path) -> dict[str, Any]:
    """Return the figures for programs."""
    from reefcast_lab.demos.gossip_report import conclusions

    return {
        "passed": found.passed,
        **asdict(found),
        "conclusions": conclusions(found),
        "report": str(report),
    }


def print_figures(found: Figures, report: Path) -> None:
    """Print a table and a few sentences, for people."""
    from reefcast_lab.demos.gossip_report import COLUMNS, conclusions, table

    print_report(COLUMNS, table(found), conclusions(found), report)
