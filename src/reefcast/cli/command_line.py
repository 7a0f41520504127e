"""The shared part of the commands `reefcast` and `reefcast-lab`: sub-commands that are imported
when they are called, and the messages for people who do something wrong."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from reefcast.cli.exit_codes import INTERRUPTED, OUR_FAULT, YOUR_FAULT, code_of
from reefcast.errors import ReefcastError
from reefcast.extras import extra_for
from reefcast.logs import tell


class Group(click.Group):
    """Sub-commands of which help shows the whole first sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(each.name or "", each.get_short_help_str(1000)) for each in commands if each]
            )


class LazyGroup(click.Group):
    """Sub-commands live in modules of `package`, each as `command`; help needs none of them.

    `sections`: what help lists: heading, then the first sentence of each sub-command's help, by
    name. `elsewhere`: the command that has a sub-command of this name, which people may look for
    here.
    """

    def __init__(
        self,
        *arguments: Any,
        package: str,
        sections: Mapping[str, Mapping[str, str]],
        elsewhere: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._package = package
        self._sections = sections
        self._elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in self._sections.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self._elsewhere:
            ctx.fail(f"No such command {args[0]!r}: it is a command of {self._elsewhere[args[0]]}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for heading, sentences in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(n.ljust(width), said) for n, said in sentences.items()])


def run(group: click.Group, program: str) -> NoReturn:
    """Run the command and exit; what went wrong is a sentence on standard error, and the exit code
    says whose fault it was (see `exit_codes`)."""
    try:
        with extra_for(f"the command {''.join(sys.argv[1:2])}"):
            sys.exit(group(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail(program, "interrupted", INTERRUPTED)
    except ReefcastError as error:
        _fail(program, str(error), code_of(error))
    except OSError as error:
        # A file that cannot be read or written; what the network does wrong is a PeerError.
        _fail(program, ": ".join(filter(None, (error.filename, error.strerror or str(error)))))
    except Exception:
        if not tell(traceback.format_exc(), logging.ERROR):
            traceback.print_exc()
        sentence = "this is a fault of reefcast: please report it, with the lines above"
        _fail(program, sentence, OUR_FAULT)


def _fail(program: str, sentence: str, code: int = YOUR_FAULT) -> NoReturn:
    if not tell(sentence, logging.ERROR):
        click.echo(f"{program}: {sentence}", err=True)
    sys.exit(code)
