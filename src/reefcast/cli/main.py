"""`reefcast`: one command; a sub-command's module is imported when it is called for."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import NoReturn

import click

from reefcast.cli.exit_codes import EXPLAINED, INTERRUPTED, OUR_FAULT, YOUR_FAULT, code_of
from reefcast.errors import ReefcastError
from reefcast.extras import extra_for

COMMANDS = {
    "analyze": "Turn a trace into tables and an HTML report, with Spark.",
    "bench": "Measure the live broker, the simulator, and the indexes.",
    "broker": "Run one broker: alone, or one of a network file.",
    "burst": "Let a broad subscription come and go over thousands of narrow ones, and report the "
    "delays.",
    "dataset": "Turn a public data set into tables of events and subscriptions, with Spark.",
    "demo": "Carry real events over a network of brokers, check the result with Spark, report.",
    "experiment": "Run the papers' evaluations, and show them beside the papers' figures.",
    "explain": "Say why a filter matches an event, or why not.",
    "gossip": "Let peers find each other and share connections, kill some, and report who got "
    "what.",
    "history": "Print past events that match a filter, oldest first.",
    "network": "Check, run and ask a whole network of brokers.",
    "peer": "Run a peer: a broker of routing gossip that is in no network file.",
    "plan": "Plan a network: its storages, clusters, soft links and covering.",
    "publish": "Publish events from the command line, a file or standard input.",
    "simulate": "Run a network file in the simulator, and check what came of it.",
    "storage": "Run one storage of a network file.",
    "store": "Keep what is published under some topics, and answer for it.",
    "subscribe": "Print the events that match filters.",
    "topology": "Design an overlay: classify it, draw it, write its network file.",
    "workload": "Make events, subscriptions and advertisements of a given kind, with Spark.",
}
"""The first sentence of each command's help (a test compares them): known without importing it."""

EXTRA_OF = {"burst": "spark", "demo": "demo", "gossip": "spark"}
"""What these need in all, where the first package that they miss may be one of less."""


class LazyGroup(click.Group):
    """Sub-commands live in `reefcast.cli.<name>` as `command`; help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"reefcast.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXPLAINED
)
@click.version_option(package_name="reefcast")
def group() -> None:
    """A publish/subscribe network that routes by content.

    Publishers send attributed events; subscribers state a filter, such as
    "dest = 'SFO' AND dep_delay > 30"; a network of brokers carries each event
    only where someone wants it.
    """


def main() -> None:
    """Runs the command and exits; what went wrong is a sentence on standard error, and the exit
    code says whose fault it was (see `exit_codes`)."""
    try:
        name = "".join(sys.argv[1:2])
        with extra_for(f"the command {name}", EXTRA_OF.get(name)):
            sys.exit(group(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail("interrupted", INTERRUPTED)
    except ReefcastError as error:
        _fail(str(error), code_of(error))
    except OSError as error:
        # A file that cannot be read or written; what the network does wrong is a PeerError.
        _fail(": ".join(filter(None, (error.filename, error.strerror or str(error)))))
    except Exception:
        _fail_unexpectedly()


def _fail_unexpectedly() -> NoReturn:
    traceback.print_exc()
    _fail("this is a fault of reefcast: please report it, with the lines above", OUR_FAULT)


def _fail(sentence: str, code: int = YOUR_FAULT) -> NoReturn:
    click.echo(f"reefcast: {sentence}", err=True)
    sys.exit(code)
