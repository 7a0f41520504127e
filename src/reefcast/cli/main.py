"""`reefcast`: one command; a sub-command's module is imported when it is called for."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from reefcast.errors import ReefcastError

FAILED, INTERRUPTED = 2, 130
"""Exit codes."""

COMMANDS = {
    "analyze": "turn a trace into tables and an HTML report, with Spark",
    "bench": "measure: the live broker, the simulator, matching, covering",
    "broker": "run one broker of a network file",
    "demo": "carry flights over twelve brokers, check the result with Spark, write a report",
    "experiment": "run the papers' evaluations, and report them beside the papers' figures",
    "explain": "say why a filter matches an event, or why not, and how an index would match it",
    "network": "run, plan or ask a whole overlay",
    "publish": "publish events from the command line, a file or standard input",
    "simulate": "run a network file in the simulator",
    "subscribe": "print the events that match filters",
    "topology": "design a structured overlay: classify it, draw it, write its network file",
}


EXTRAS = dict.fromkeys(("pyspark", "pandas", "matplotlib", "jinja2"), "spark")
"""Packages that the bare installation does not bring, and the extra that does."""


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


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reefcast")
def group() -> None:
    """A publish/subscribe network that routes by content.

    Publishers send attributed events; subscribers state a filter, such as
    "dest = 'SFO' AND dep_delay > 30"; a network of brokers carries each event
    only where someone wants it.
    """


def main() -> None:
    """Runs the command and exits.

    2 with a sentence on standard error is an error of the caller's or of the other side's; 130 is
    Ctrl-C where that is not the usual end of a command.
    """
    try:
        sys.exit(group(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail("interrupted", INTERRUPTED)
    except ReefcastError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRAS:
            raise
        extra = EXTRAS[error.name.partition(".")[0]]
        _fail(f"this needs {error.name}, which is not installed: pip install 'reefcast[{extra}]'")
    except OSError as error:
        # A file that cannot be read or written; what the network does wrong is a PeerError.
        _fail(": ".join(filter(None, (error.filename, error.strerror or str(error)))))


def _fail(sentence: str, code: int = FAILED) -> NoReturn:
    click.echo(f"reefcast: {sentence}", err=True)
    sys.exit(code)
