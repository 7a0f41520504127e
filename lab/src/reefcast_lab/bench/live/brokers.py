"""The broker processes: ours, mosquitto and nats-server, each fresh, on a port of loopback."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reefcast.errors import PeerError
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench import profiling

START_S = 60.0
OURS = "reefcast"
PROGRAMS = {"mosquitto": "mosquitto", "nats": "nats-server"}
"""The programs of the baselines."""
MQTT_CONF = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
"""
NATS_CONF = """\
listen: "127.0.0.1:{port}"
max_payload: 8MB
max_pending: 1GB
write_deadline: "60s"
"""
NET_TOML = """\
[network]
name = "bench"
[[broker]]
name = "b1"
listen = "127.0.0.1:{port}"
"""


def program(name: str) -> str | None:
    """Find a baseline's program; Debian puts it where ordinary users do not look."""
    file = PROGRAMS[name]
    return shutil.which(file) or shutil.which(file, path="/usr/sbin:/usr/local/sbin")


def installed() -> list[str]:
    """Return the brokers that can be measured: baselines first, ours last."""
    return [name for name in PROGRAMS if program(name)] + [OURS]


def missing() -> list[str]:
    """Return the baselines that are not installed."""
    return [name for name in PROGRAMS if not program(name)]


class Running(NamedTuple):
    port: int
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def running(name: str, profile: Path | None = None) -> Iterator[Running]:
    """Run a fresh broker process in the `with` block. `profile`: the file to which ours writes
    where its time went (`profiling.broker`)."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            _command(name, Path(folder), port, profile),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_open(name, port, process)
            yield Running(port, process)
        finally:
            process.terminate()
            process.wait()


def _command(name: str, folder: Path, port: int, profile: Path | None) -> list[str]:
    if name == OURS:
        file = folder / "net.toml"
        file.write_text(NET_TOML.format(port=port))
        if profile is not None:
            return [sys.executable, "-m", profiling.__name__, str(file), "b1", str(profile)]
        return [sys.executable, "-m", "reefcast", "broker", str(file), "b1"]
    file = folder / "broker.conf"
    file.write_text((MQTT_CONF if name == "mosquitto" else NATS_CONF).format(port=port))
    return [str(program(name)), "-c", str(file)]


def _wait_until_open(name: str, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.02)
    raise PeerError(f"{name} did not start within {START_S:g} s")
