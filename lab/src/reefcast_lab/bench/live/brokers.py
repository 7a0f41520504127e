"""The broker processes: ours, mosquitto and nats-server, each fresh, on a port of loopback."""

from __future__ import annotations

import asyncio
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
from reefcast.network.file import load_network
from reefcast.server.supervisor import free_ports, not_up, overlay_status
from reefcast_lab.bench import profiling
from reefcast_lab.bench.live import granted as granting
from reefcast_lab.bench.live import scraped as scraping
from reefcast_lab.bench.live.points import DIRECT, TLS
from reefcast_lab.bench.live.tunnel import tunnel

START_S = 240.0
"""Ours compiles its index at the first start."""
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
"""
BROKER_TOML = """\
[[broker]]
name = "b{number}"
listen = "127.0.0.1:{port}"
"""
LINK_TOML = """\
[[link]]
between = ["b{number}", "b{next}"]
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
    """`ports`, `processes`: of the brokers of a chain, from the publisher's to the subscribers'."""

    ports: list[int]
    processes: list[subprocess.Popen[bytes]]


@contextlib.contextmanager
def running(
    name: str,
    profile: Path | None = None,
    count: int = 1,
    way: str = DIRECT,
    *,
    granted: bool = False,
    scraped: bool = False,
) -> Iterator[Running]:
    """Run fresh broker processes in the `with` block; of ours, `count` in a chain, whose links are
    up. `profile`: the file to which the first of ours writes where its time went
    (`profiling.broker`). `way`: see `Point`; `granted`: all clients have a role (`granted`);
    `scraped`: brokers have admin listeners, which are scraped (`scraped`)."""
    ports = free_ports(count)
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = _settings(name, Path(folder), ports)
        admin = _with_admin(file, ports) if scraped else []
        if way == TLS:
            _certify(file)
        try:
            for number, port in enumerate(ports, 1):
                command = _command(name, file, number, profile if number == 1 else None)
                if granted:
                    command = [sys.executable, "-m", granting.__name__, str(file), f"b{number}"]
                with Path(folder, f"errors-{number}").open("wb") as errors:
                    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
                processes.append(process)
                wait_until_open(name, port, process)
            if count > 1:
                _wait_until_up(file)
            with scraping.scraped(admin):  # it ends before they do
                yield Running(_reached(ports, way, file, stack), processes)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
        if profile is not None and not profile.is_file():
            said = Path(folder, "errors-1").read_text(errors="replace")[-2000:]
            raise PeerError(
                f"{name} ended with {processes[0].returncode}, without a profile: {said}"
            )


def _with_admin(file: Path, ports: list[int]) -> list[int]:
    """Give each broker of the network file an admin listener; return their ports."""
    admin = [port for port in free_ports(2 * len(ports)) if port not in ports][: len(ports)]
    text = file.read_text()
    for port, own in zip(ports, admin, strict=True):
        listen = f'listen = "127.0.0.1:{port}"\n'
        text = text.replace(listen, f'{listen}admin = "127.0.0.1:{own}"\n')
    file.write_text(text)
    return admin


def _certify(file: Path) -> None:
    """Have the brokers of the network file speak TLS."""
    from reefcast.network.certifying import Asked, certify, with_tls
    from reefcast.tls.making import now

    file.write_text(with_tls(file.read_text()))
    certify(load_network(file), Asked(), now())


def _reached(ports: list[int], way: str, file: Path, stack: contextlib.ExitStack) -> list[int]:
    """Return where the load reaches the brokers; a tunnel to them ends with the stack."""
    if way == DIRECT:
        return ports
    own = [port for port in free_ports(2 * len(ports)) if port not in ports][: len(ports)]
    authority = Path(load_network(file).tls.authority) if way == TLS else None
    stack.enter_context(tunnel(dict(zip(own, ports, strict=True)), authority))
    return own


def _settings(name: str, folder: Path, ports: list[int]) -> Path:
    """Write the file that the broker is started with."""
    if name == OURS:
        chain = range(1, len(ports))
        brokers = [BROKER_TOML.format(number=i, port=port) for i, port in enumerate(ports, 1)]
        links = [LINK_TOML.format(number=number, next=number + 1) for number in chain]
        file, text = folder / "net.toml", "".join([NET_TOML, *brokers, *links])
    else:
        file = folder / "broker.conf"
        text = (MQTT_CONF if name == "mosquitto" else NATS_CONF).format(port=ports[0])
    file.write_text(text)
    return file


def _command(name: str, file: Path, number: int, profile: Path | None) -> list[str]:
    if name != OURS:
        return [str(program(name)), "-c", str(file)]
    if profile is not None:
        return [sys.executable, "-m", profiling.__name__, str(file), f"b{number}", str(profile)]
    return [sys.executable, "-m", "reefcast", "broker", str(file), f"b{number}"]


def _wait_until_up(file: Path) -> None:
    """Wait until the links between our brokers are up."""
    network, deadline = load_network(file), time.monotonic() + START_S
    while missing := not_up(asyncio.run(overlay_status(network))):
        if time.monotonic() > deadline:
            raise PeerError(f"after {START_S:g} s these are not up: {', '.join(missing)}")
        time.sleep(0.02)


def wait_until_open(name: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until something listens at the port. Raises `PeerError`."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.02)
    raise PeerError(f"{name} did not start within {START_S:g} s")
