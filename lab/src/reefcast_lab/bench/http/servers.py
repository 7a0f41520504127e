"""The server processes, each fresh, on a port of loopback."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reefcast.server.supervisor import free_ports
from reefcast_lab.bench.live.brokers import OURS, wait_until_open
from reefcast_lab.bench.mqtt.brokers import Running

BARE = "aiohttp"
SERVERS = (BARE, OURS)
"""The baseline first."""
NET_TOML = """\
[[broker]]
name = "b1"
listen = "127.0.0.1:{own}"
[[listener]]
broker = "b1"
protocol = "http"
listen = "127.0.0.1:{port}"
[sessions]
directory = "{folder}/sessions"
[limits]
queue_policy = "block"
"""


@contextmanager
def running(name: str) -> Iterator[Running]:
    """Run a fresh server in the `with` block."""
    own, port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="reefcast-bench-") as folder:
        command = [sys.executable, "-m", "reefcast_lab.bench.http.bare", str(port)]
        if name == OURS:
            file = Path(folder) / "net.toml"
            file.write_text(NET_TOML.format(own=own, port=port, folder=folder))
            command = [sys.executable, "-m", "reefcast", "broker", str(file), "b1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_open(name, port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()
            process.wait()
