"""The broker processes, each fresh, with a listener for MQTT on a port of loopback."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from reefcast.errors import PeerError
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench.live import cpu
from reefcast_lab.bench.live.brokers import MQTT_CONF, OURS, program, wait_until_open

MOSQUITTO = "mosquitto"
NET_TOML = """\
[[broker]]
name = "b1"
listen = "127.0.0.1:{own}"
[[listener]]
broker = "b1"
protocol = "mqtt"
listen = "127.0.0.1:{port}"
content = "{content}"
[sessions]
directory = "{folder}/sessions"
[limits]
queue_policy = "block"
max_clients = 20000
max_subscriptions = 1000000
"""


def installed() -> list[str]:
    """Return the brokers that can be measured: the baseline first, ours last."""
    return [MOSQUITTO, OURS] if program(MOSQUITTO) else [OURS]


class Running(NamedTuple):
    """`port`: for MQTT."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return the CPU time of all threads so far. Raises `PeerError` if the system does not tell
        it."""
        used_s = cpu.used_s(self.pid)
        if used_s is None:
            raise PeerError("this system does not tell the CPU time of another process")
        return used_s

    def memory_bytes(self) -> int:
        """Return how much memory is resident."""
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.pid)], capture_output=True, text=True, check=True
        )
        return int(told.stdout) * 1024


@contextmanager
def running(name: str, *, reads_json: bool = False) -> Iterator[Running]:
    """Run a fresh broker in the `with` block; `reads_json`: ours makes attributes of payloads."""
    own, port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="reefcast-bench-") as directory:
        folder = Path(directory)
        if name == OURS:
            file = folder / "net.toml"
            content = "json" if reads_json else "none"
            file.write_text(NET_TOML.format(own=own, port=port, content=content, folder=folder))
            command = [sys.executable, "-m", "reefcast", "broker", str(file), "b1"]
        else:
            file = folder / "broker.conf"
            file.write_text(MQTT_CONF.format(port=port))
            command = [str(program(name)), "-c", str(file)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_open(name, port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()
            process.wait()
