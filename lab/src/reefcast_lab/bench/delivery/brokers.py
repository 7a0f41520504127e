"""The brokers, each a fresh process with a directory of its own, on ports of loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from reefcast.errors import PeerError
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench.delivery.amqp import RabbitMq
from reefcast_lab.bench.delivery.mqtt import Mosquitto
from reefcast_lab.bench.delivery.nats import Nats
from reefcast_lab.bench.delivery.ours import Reefcast
from reefcast_lab.bench.delivery.wires import Wire
from reefcast_lab.bench.live.brokers import wait_until_open

STOP_S = 30.0
OUTPUT, OUTPUT_CHARS = "output", 1000
PLACES = "/usr/lib/rabbitmq/bin:/usr/lib/erlang/bin:/usr/sbin:/usr/local/sbin"
"""Where Debian puts what ordinary users do not look for. RabbitMQ's own script is behind the one
that changes the user."""
NATS = """\
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/js"{sync} }}
"""
REEFCAST = """\
[[broker]]
name = "b1"
listen = "127.0.0.1:{port}"
[sessions]
directory = "{folder}/sessions"
"""
MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
user root
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
"""
RABBIT_MQ = """\
log.console = false
log.file = false
loopback_users = none
"""


class Broker(NamedTuple):
    """`syncs`: what is on disk when it confirms. `programs`: what must be installed, with what the
    package is called."""

    wire: type[Wire]
    syncs: str
    programs: tuple[str, ...] = ()
    package: str = ""


BROKERS = {
    "nats": Broker(
        Nats, "nothing: JetStream syncs every two minutes", ("nats-server",), "nats-server"
    ),
    "nats, sync always": Broker(Nats, "each publication", ("nats-server",), "nats-server"),
    "rabbitmq": Broker(
        RabbitMq, "batches of publications", ("rabbitmq-server", "epmd"), "rabbitmq-server"
    ),
    "mosquitto": Broker(
        Mosquitto, "nothing: it writes its file at times", ("mosquitto",), "mosquitto"
    ),
    "reefcast": Broker(Reefcast, "batches of publications"),
}
"""Baselines first, ours last."""


def program(name: str) -> str | None:
    """Return where a program is; None if it is not installed."""
    return shutil.which(name, path=PLACES) or shutil.which(name)


def missing(name: str) -> str:
    """Return why a broker cannot be measured here, "" if it can."""
    broker = BROKERS[name]
    if not all(map(program, broker.programs)):
        return f"{broker.programs[0]} is not installed: apt-get install {broker.package}"
    if name == "nats, sync always" and not _knows_sync():
        return "this nats-server has no option sync_interval (2.10 and later have it)"
    return ""


def _knows_sync() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        file = _nats_file(Path(folder), 4222, always=True)
        tested = subprocess.run(
            [str(program("nats-server")), "-t", "-c", str(file)], capture_output=True, check=False
        )
        return tested.returncode == 0


def _nats_file(folder: Path, port: int, *, always: bool) -> Path:
    file = folder / "nats.conf"
    sync = ", sync_interval: always" if always else ""
    file.write_text(NATS.format(port=port, folder=folder, sync=sync))
    return file


class Running(NamedTuple):
    """`pid`: of the process that does the work."""

    port: int
    pid: int

    def memory_mb(self) -> float:
        """Return how much memory the process has, in megabytes."""
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.pid)], capture_output=True, text=True, check=True
        )
        return round(int(told.stdout) / 1024, 1)


@contextmanager
def running(name: str) -> Iterator[Running]:
    """Start a broker with a new directory; in the end it is stopped, and the directory removed.
    Raises `PeerError` if it does not start."""
    with tempfile.TemporaryDirectory(prefix="reefcast-bench-") as directory:
        folder = Path(directory)
        start = _rabbitmq if name == "rabbitmq" else _single
        try:
            with start(name, folder) as broker:
                yield broker
        except PeerError as error:
            said = (folder / OUTPUT).read_text(errors="replace")[-OUTPUT_CHARS:]
            raise PeerError(f"{name}: {error}; the last that it said: {said}") from error


@contextmanager
def _single(name: str, folder: Path) -> Iterator[Running]:
    """Run a broker that is one process."""
    (port,) = free_ports(1)
    if name == "mosquitto":
        file = folder / "mosquitto.conf"
        file.write_text(MOSQUITTO.format(port=port, folder=folder))
        command = [str(program("mosquitto")), "-c", str(file)]
    elif name == "reefcast":
        file = folder / "net.toml"
        file.write_text(REEFCAST.format(port=port, folder=folder))
        command = [sys.executable, "-m", "reefcast", "broker", str(file), "b1"]
    else:
        file = _nats_file(folder, port, always=name == "nats, sync always")
        command = [str(program("nats-server")), "-c", str(file)]
    with _process(command, folder) as process:
        wait_until_open(name, port, process)
        yield Running(port, process.pid)


@contextmanager
def _rabbitmq(name: str, folder: Path) -> Iterator[Running]:
    """Run a node of its own: another name, ports, directories and port mapper than a node that may
    run on this machine."""
    port, distribution, mapper = free_ports(3)
    own = folder / "rabbitmq"
    for part in ("mnesia", "log", "generated", "schema"):
        (own / part).mkdir(parents=True)
    (own / "plugins").write_text("[].\n")
    (own / "rabbitmq.conf").write_text(RABBIT_MQ)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("RABBITMQ_")},
        "HOME": str(own),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONFIG_FILE": str(own / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(own / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": str(own / "environment"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(own / "mnesia"),
        "RABBITMQ_LOG_BASE": str(own / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_GENERATED_CONFIG_DIR": str(own / "generated"),
        "RABBITMQ_SCHEMA_DIR": str(own / "schema"),
        "RABBITMQ_PID_FILE": str(own / "pid"),
    }
    epmd = [str(program("epmd")), "-port", str(mapper), "-address", "127.0.0.1"]
    with (
        _process(epmd, folder, environment) as mapping,
        _process([str(program("rabbitmq-server"))], folder, environment) as process,
    ):
        wait_until_open("epmd", mapper, mapping)
        wait_until_open(name, port, process)
        pid = _pid_in(own / "pid", process)
        try:
            yield Running(port, pid)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _pid_in(file: Path, process: subprocess.Popen[bytes]) -> int:
    """Return the pid that a node writes to `file`, perhaps after it has opened its port. Raises
    `PeerError` if the node ends before."""
    while not (file.exists() and file.read_text().strip()):
        if process.poll() is not None:
            raise PeerError(f"rabbitmq exited with code {process.returncode} before it was ready")
        time.sleep(0.05)
    return int(file.read_text())


@contextmanager
def _process(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; in the end, stop it and all that it started."""
    with (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
