"""`reefcast broker`: one broker, alone or of a network file."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast import logs
from reefcast.cli.exit_codes import AGAIN
from reefcast.cli.options import DIRECTORY, INPUT_FILE, Whole, json_option, log_options
from reefcast.client.address import DEFAULT_PORT, Address
from reefcast.directories import make_directory, state_directory
from reefcast.errors import ConfigurationError
from reefcast.matching import telling_of_compiling
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import BrokerEntry, SessionsSection

if TYPE_CHECKING:
    from reefcast.server.node import Node

ALONE, LOOPBACK = "b1", "127.0.0.1"
"""The name of a broker that is in no network file, and the host on which it listens."""

HISTORY_S, HISTORY_EVENTS = 7 * 86_400.0, 1_000_000
"""What the history of a broker alone keeps: events of so many seconds, and so many, the newest."""

KEPT = "it keeps durable sessions, retained values and history"

FIRST_STEPS = """\
broker {name} listens on {listen}, for programs on this machine only (Ctrl-C ends it)
{kept}

To see the events that match a filter, type in a second terminal:
    reefcast subscribe {url} "price < 100"

To publish an event, type in a third one:
    reefcast publish {url} symbol=IBM price=99"""
TO_LOOK = """

To look at it, open in a browser:
    http://{admin}/"""

FOR_MQTT = """

MQTT clients are served on {listen}; in two more terminals:
    mosquitto_sub -h {host} -p {port} -t 'stock/#' -v
    mosquitto_pub -h {host} -p {port} -t stock/IBM -m '{{"price": 99}}'"""
FOR_PAGES = """

MQTT over WebSocket is served on ws://{listen}/mqtt"""
FOR_HTTP = """

HTTP clients are served on {listen}; in two more terminals:
    curl -N 'http://{listen}/v1/events?filter=price<100'
    curl -d '{{"topic": "stock/IBM", "price": 99}}' -H 'Content-Type: application/json' \\
        http://{listen}/v1/events"""


@click.command(epilog="Exit codes: 6 an operator asked for a restart.")
@click.argument("network", type=INPUT_FILE, required=False)
@click.argument("name", required=False)
@click.option(
    "--port",
    type=Whole(0, 65535),
    help=f"Without NETWORK, listen on this port; by default {DEFAULT_PORT}; 0: any free port.",
)
@click.option(
    "--directory",
    "data",
    type=DIRECTORY,
    help="Without NETWORK, keep durable sessions, retained values and history here; by default in "
    "a directory for the port, where programs of this user keep their state.",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Without NETWORK, keep nothing beyond the end of the broker, as with --port 0.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default="",
    help="Without NETWORK, answer operators over HTTP on this address, such as 127.0.0.1:9464.",
)
@click.option(
    "--mqtt",
    metavar="HOST:PORT",
    default="",
    help="Without NETWORK, serve MQTT clients, too, on this address, such as 127.0.0.1:1883.",
)
@click.option(
    "--mqtt-websocket",
    metavar="HOST:PORT",
    default="",
    help="Without NETWORK, serve MQTT over WebSocket, too, on this address, with the path /mqtt.",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    default="",
    help="Without NETWORK, serve HTTP clients, too, on this address, such as 127.0.0.1:8080.",
)
@click.option("--follows", type=INPUT_FILE, hidden=True, help="NETWORK is a copy of this file.")
@log_options
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
@json_option("a line when it is ready")
def command(
    *,
    network: Path | None,
    name: str | None,
    port: int | None,
    data: Path | None,
    memory: bool,
    admin: str,
    mqtt: str,
    mqtt_websocket: str,
    http: str,
    follows: Path | None,
    log_format: str | None,
    log_levels: tuple[str, ...],
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run one broker: alone, or one of a network file.

        reefcast broker

    Alone it serves programs on this machine, with the defaults of a network file, and prints how to
    subscribe and publish. It has a storage of its own: its durable sessions, retained values and
    the history of all topics (the last million events, for seven days) are there again after a
    restart.

        reefcast broker net.toml north

    NAME is the name of the broker in the network file NETWORK. The broker prints one line when it
    is ready.

    Either runs until SIGTERM or SIGINT; then it drains its queues, closes its clients' connections,
    and ends. SIGHUP has it read NETWORK again (`reefcast network apply`).
    """
    listener = [*_for_devices(mqtt, mqtt_websocket), *_for_programs(http)]
    _check(network, name, port, data, memory, admin, listener)
    described = NetworkFile() if network is None else load_network(network)
    logs.set_up(described.log.settings.changed(log_format, log_levels), broker=name or ALONE)
    with telling_of_compiling(_tell):
        if network is not None and name is not None:
            follows, levels = follows or network, log_levels
            _run(described, follows, name, levels, until_eof=until_eof, as_json=as_json)
        else:
            _run_alone(port, data, admin, listener, memory, until_eof=until_eof, as_json=as_json)


def _for_programs(http: str) -> list[ListenerEntry]:
    """Return the listeners of a broker alone for HTTP: one, or none."""
    return [ListenerEntry(broker=ALONE, protocol="http", listen=http)] if http else []


def _for_devices(mqtt: str, websocket: str) -> list[ListenerEntry]:
    """Return the listeners of a broker alone for MQTT: one, or none. It reads JSON without being
    told that it is some, as what a newcomer publishes says nothing of itself."""
    if not (mqtt or websocket):
        return []
    entry = ListenerEntry(broker=ALONE, protocol="mqtt", listen=mqtt, websocket=websocket)
    entry.content = "json"
    return [entry]


def _check(
    network: Path | None,
    name: str | None,
    port: int | None,
    data: Path | None,
    memory: bool,
    admin: str,
    listener: list[ListenerEntry],
) -> None:
    """Raise `UsageError` for a part of what only makes sense together."""
    if network is not None and name is None:
        raise click.UsageError(
            f"give the NAME of a broker in {network}, or give neither, for a broker alone"
        )
    if network is not None and port is not None:
        raise click.UsageError(
            f"--port is for a broker alone; {network} says where broker {name} listens"
        )
    if network is not None and (data is not None or memory):
        raise click.UsageError(
            f"--directory and --memory are for a broker alone; for broker {name} say so in "
            f"{network}: directory in [sessions], and a [[storage]]"
        )
    if network is not None and admin:
        raise click.UsageError(
            f"--admin is for a broker alone; for broker {name} say so in {network}: admin in its "
            "[[broker]]"
        )
    if network is not None and listener:
        raise click.UsageError(
            "--mqtt, --mqtt-websocket and --http are for a broker alone; for broker "
            f"{name} say so in {network}: listen and websocket in a [[listener]]"
        )
    if data is not None and memory:
        raise click.UsageError("give --directory or --memory, not both")


def _run(
    network: NetworkFile,
    file: Path,
    name: str,
    levels: Sequence[str],
    *,
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run one broker of a network, which follows `file`."""
    from reefcast.server.process import run_broker

    entry = network.entry(name)
    text = f"broker {name} listens on {entry.listen}"
    ready = partial(_say, entry, text, as_json)
    if run_broker(network, name, lambda _: ready(), file=file, levels=levels, until_eof=until_eof):
        sys.exit(AGAIN)


def _run_alone(
    port: int | None,
    data: Path | None,
    admin: str,
    listener: list[ListenerEntry],
    memory: bool,
    *,
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run a broker that is in no network file; see the options.

    Raises `ConfigurationError` if it cannot listen there, or use the directory."""
    from reefcast.server.supervisor import free_ports

    found = DEFAULT_PORT if port is None else port or free_ports(1)[0]
    if data is None and not memory and port != 0:
        data = state_directory() / f"broker-{found}"
    entry = BrokerEntry(ALONE, f"{LOOPBACK}:{found}", admin=admin)
    _network_alone(entry, listener, Path()).validate()
    with nullcontext(data) if data else tempfile.TemporaryDirectory(prefix="reefcast-") as folder:
        try:
            make_directory(Path(folder), "sessions and history")
            network = _network_alone(entry, listener, Path(folder))
            _serve_alone(network, Path(folder), data, until_eof=until_eof, as_json=as_json)
        except ConfigurationError as error:
            # All but the address and the directory is as by default.
            raise ConfigurationError(f"{error}; {_instead(error, listener)}") from error


def _instead(error: ConfigurationError, listener: list[ListenerEntry]) -> str:
    others = [f"{host}:{port}" for each in listener for host, port in each.addresses]
    if any(f" {each}: " in str(error) for each in others):
        return "choose another address with --mqtt, --mqtt-websocket or --http"
    if isinstance(error.__cause__, OSError):  # of the socket
        return "choose another port with --port, or --port 0 for any that is free"
    return "choose another directory with --directory, or keep nothing with --memory"


def _network_alone(entry: BrokerEntry, listener: list[ListenerEntry], folder: Path) -> NetworkFile:
    """Return the network of a broker that keeps everything in `folder`."""
    sessions = SessionsSection(directory=str(folder / "sessions"))
    return NetworkFile(broker=[entry], listener=listener, sessions=sessions)


def _serve_alone(
    network: NetworkFile, folder: Path, data: Path | None, *, until_eof: bool, as_json: bool
) -> None:
    """Run the broker of a network, which keeps everything in `folder`; `data`: the same, unless it
    is removed at the end."""
    from reefcast.history.limits import Limits
    from reefcast.server.process import run_broker
    from reefcast.storage_node.beside import StorageBeside
    from reefcast.storage_node.process import Keeping

    (entry,) = network.broker
    limits = Limits(rows=HISTORY_EVENTS, lifetimes_s={"#": HISTORY_S})
    url = str(Address(*entry.address))

    async def store(node: Node) -> None:
        keeping = Keeping(directory=folder / "history", limits=limits)
        await StorageBeside(node, url, keeping).start()

    def ready(node: Node) -> None:
        more = {"data": str(data) if data else None}
        kept = f"in {data}" if data else "until it ends: give it a directory with --directory"
        text = FIRST_STEPS.format(
            name=entry.name, listen=entry.listen, url=url, kept=f"{KEPT} {kept}"
        )
        text += TO_LOOK.format(admin=entry.admin) if entry.admin else ""
        for listener in network.listener:
            if listener.protocol == "http":
                text += FOR_HTTP.format(listen=listener.listen)
                more |= {"http": listener.listen}
                continue
            text += _for_mqtt(listener)
            more |= {"mqtt": listener.listen, "mqtt_websocket": listener.websocket}
        _say(entry, text, as_json, **more)

    if run_broker(network, ALONE, ready, until_eof=until_eof, beside=store):
        sys.exit(AGAIN)


def _for_mqtt(listener: ListenerEntry) -> str:
    """Return what is printed about a listener."""
    words = ""
    if listener.address is not None:
        host, port = listener.address
        words = FOR_MQTT.format(listen=listener.listen, host=host, port=port)
    return words + (FOR_PAGES.format(listen=listener.websocket) if listener.websocket else "")


def _tell(sentence: str) -> None:
    if not logs.tell(sentence):
        click.echo(sentence, err=True)


def _say(entry: BrokerEntry, text: str, as_json: bool, **more: str | None) -> None:
    told = {"broker": entry.name, "listen": entry.listen, **more}
    click.echo(json.dumps(told) if as_json else text)
