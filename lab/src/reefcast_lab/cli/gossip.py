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
from reefcast.cli.options import DIRECTORY, Number, Whole, json_option, seed_option
from reefcast_lab.cli.demo_output import print_report
from reefcast_lab.cli.options import rate_option

if TYPE_CHECKING:
    from reefcast_lab.demos.gossip_figures import Figures


@click.command(
    epilog="Exit codes: 0 every peer that lives got every event, once; 1 something was lost, "
    "duplicated or unexpected, or a topic is in pieces."
)
@click.option("--peers", type=Whole(2), default=100, show_default=True, help="Peers, in all.")
@click.option(
    "--processes",
    type=Whole(1),
    default=4,
    show_default=True,
    help="Processes among which they are shared out.",
)
@click.option("--topics", type=Whole(1), default=20, show_default=True, help="Topics, in all.")
@click.option(
    "--interests",
    type=Whole(1),
    default=6,
    show_default=True,
    help="Topics that a peer wants, on average.",
)
@click.option(
    "--kill",
    type=Whole(0),
    default=20,
    show_default=True,
    help="Peers that are killed, all of one process.",
)
@click.option(
    "--rounds",
    type=Whole(1),
    default=10,
    show_default=True,
    help="Rounds before the kill, and as many after it.",
)
@click.option(
    "--round",
    "round_s",
    type=Number(0, min_open=True),
    default=4.0,
    show_default=True,
    help="Seconds of a round.",
)
@rate_option(10.0)
@seed_option
@click.option(
    "--out",
    type=DIRECTORY,
    default="out/gossip",
    show_default=True,
    help="Write the report into this directory.",
)
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
    """For machines."""
    from reefcast_lab.demos.gossip_report import conclusions

    return {
        "passed": found.passed,
        **asdict(found),
        "conclusions": conclusions(found),
        "report": str(report),
    }


def print_figures(found: Figures, report: Path) -> None:
    """A table and a few sentences, for people."""
    from reefcast_lab.demos.gossip_report import COLUMNS, conclusions, table

    print_report(COLUMNS, table(found), conclusions(found), report)
