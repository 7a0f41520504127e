"""`reefcast-lab`: one command; a sub-command's module is imported when it is called for."""

from __future__ import annotations

import click

from reefcast.cli.command_line import LazyGroup, run
from reefcast.cli.exit_codes import EXPLAINED

SECTIONS = {
    "Show": {
        "demo": "Carry real events over a network of brokers, check the result with Spark, report.",
        "burst": "Let a broad subscription come and go over thousands of narrow ones, and report "
        "the delays.",
        "gossip": "Let peers find each other and share connections, kill some, and report who got "
        "what.",
    },
    "Test": {
        "torture": "Run random networks under kills, cuts and power failures, and check what is "
        "promised.",
    },
    "Measure": {
        "bench": "Measure the live broker, the simulator, and the indexes.",
        "experiment": "Run the papers' evaluations, and show them beside the papers' figures.",
    },
    "Make data": {
        "dataset": "Turn a public data set into tables of events and subscriptions, with Spark.",
        "workload": "Make events, subscriptions and advertisements of a given kind, with Spark.",
    },
}
"""The first sentence of each command's help (a test compares them): known without importing it."""


@click.group(
    cls=LazyGroup,
    package="reefcast_lab.cli",
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXPLAINED,
)
@click.version_option(package_name="reefcast-lab")
def group() -> None:
    """The laboratory of Reefcast, a publish/subscribe network that routes by content.

        reefcast-lab demo

    It repeats the papers' experiments, measures brokers and indexes beside others, makes data sets
    and workloads, and shows live networks at work.
    """


def main() -> None:
    """Run the command and exit."""
    run(group, "reefcast-lab")
