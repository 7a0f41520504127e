"""`reefcast`: one command; a sub-command's module is imported when it is called for."""

from __future__ import annotations

import click

from reefcast.cli.command_line import LazyGroup, run
from reefcast.cli.exit_codes import EXPLAINED

SECTIONS = {
    "Run a network": {
        "broker": "Run one broker: alone, or one of a network file.",
        "network": "Check, run and inspect a whole network of brokers.",
        "certificates": "Make certificates for a network of brokers, from an authority of its own.",
        "peer": "Run a peer: a broker of routing gossip that is in no network file.",
        "user": "Add, remove and list the users of a network.",
        "storage": "Run a storage, which stores the events of some topics, and serves them later.",
    },
    "Use it": {
        "publish": "Publish events from the command line, a file or standard input.",
        "outbox": "Show what a publisher's outbox file holds.",
        "subscribe": "Print the events that match filters.",
        "request": "Publish a request, and print the replies.",
        "reply": "Answer the requests that match a filter, and print them.",
        "session": "List, show, drain and close durable sessions.",
        "retained": "Print the retained values, or those that match a filter.",
        "history": "Print past events that match a filter, oldest first.",
        "dataset": "Look at the events that storages keep as a table.",
        "explain": "Explain why a filter matches an event, or not.",
        "cesql": "Evaluate an expression of CESQL, the language of CloudEvents, for events.",
    },
    "Look at it": {
        "top": "Show a running network live: brokers, links, and clients that do not keep up.",
        "follow": "Follow publications through a running network, broker by broker.",
        "analyze": "Turn a trace into tables and an HTML report, with Spark.",
    },
    "Plan": {
        "plan": "Plan a network: its storages, clusters, soft links and covering.",
        "topology": "Design an overlay: classify it, draw it, write its network file.",
    },
    "Simulate": {
        "simulate": "Run a network file in the simulator, and check every delivery.",
    },
}
"""The first sentence of each command's help (a test compares them): known without importing it."""

OF_THE_LABORATORY = ("bench", "burst", "demo", "experiment", "gossip", "torture", "workload")


@click.group(
    cls=LazyGroup,
    package="reefcast.cli",
    sections=SECTIONS,
    elsewhere=dict.fromkeys(OF_THE_LABORATORY, "reefcast-lab"),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXPLAINED,
)
@click.version_option(package_name="reefcast")
def group() -> None:
    """A publish/subscribe network that routes by content.

        reefcast broker

    Publishers send events with attributes; subscribers state a filter, such as "dest = 'SFO' AND
    dep_delay > 30"; a network of brokers carries each event only to where a filter matches.
    """


def main() -> None:
    """Run the command and exit."""
    run(group, "reefcast")
