"""The live broker measured: one broker process, one publisher, a process of receivers.

Each scenario runs against Reefcast and, where it is installed, against mosquitto, which carries the
same events to the same connections, every one receiving everything and filtering at its own end.
First as fast as it goes, then at half of that rate for the delays. All on one machine: on two
cores the broker shares them with publisher and receivers, on both sides of the comparison.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any

from reefcast.errors import PeerError
from reefcast.matching import warm_up
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench import profiling, publishers, quotes, receivers
from reefcast_lab.bench.receivers import DELIVERIES, LAST_NS

OTHERS = 10_000
OTHER_CONNECTIONS = 10
QUIET_S = 0.5
START_S = 60.0
MQTT_CONF = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
"""
NET_TOML = """\
[network]
name = "bench"
[[broker]]
name = "b1"
listen = "127.0.0.1:{port}"
"""


@dataclass(frozen=True)
class Scenario:
    """`fanout`: connections that want everything; `others`: narrow subscriptions beside them, which
    share `OTHER_CONNECTIONS` connections; `count`: publications of the run at full speed."""

    fanout: int
    others: int
    count: int

    @property
    def connections(self) -> list[list[str]]:
        wide = [[quotes.EVERYTHING] for _ in range(self.fanout)]
        narrow = quotes.narrow_filters(self.others)
        return wide + [narrow[i::OTHER_CONNECTIONS] for i in range(OTHER_CONNECTIONS) if narrow]


def scenarios(count: int) -> list[Scenario]:
    return [
        Scenario(1, 0, count),
        Scenario(1, OTHERS, count),
        Scenario(5, 0, count // 2),
        Scenario(10, 0, count // 4),
        Scenario(50, 0, count // 10),
    ]


def _command(broker: str, folder: Path, port: int, profile: Path | None) -> list[str]:
    if broker == "reefcast":
        file = folder / "net.toml"
        file.write_text(NET_TOML.format(port=port))
        if profile is not None:
            return [sys.executable, "-m", profiling.__name__, str(file), "b1", str(profile)]
        return [sys.executable, "-m", "reefcast", "broker", str(file), "b1"]
    file = folder / "mosquitto.conf"
    file.write_text(MQTT_CONF.format(port=port))
    return [str(mosquitto()), "-c", str(file)]


def mosquitto() -> str | None:
    """Where mosquitto is; Debian puts it where ordinary users do not look."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def _broker(
    broker: str, profile: Path | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A fresh broker process; yields its port, and itself. `profile`: the file where ours writes
    where its time went (`profiling.broker`)."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            _command(broker, Path(folder), port, profile),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_open(broker, port, process)
            yield port, process
        finally:
            process.terminate()
            process.wait()


def _wait_until_open(broker: str, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.02)
    raise PeerError(f"{broker} did not start within {START_S:g} s")


def _run(
    broker: str,
    port: int,
    scenario: Scenario,
    count: int,
    rate_per_s: float,
    settled: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """One run against a running broker: rates from the first publication to the last delivery.
    `settled` is called when the subscribers are there, before anything is published."""
    spawn = multiprocessing.get_context("spawn")
    shared: SynchronizedArray[int] = spawn.Array("q", 2)
    ours, theirs = spawn.Pipe()
    job = receivers.Job(broker, port, scenario.connections, theirs, shared)
    receiving = spawn.Process(target=receivers.run, args=(job,))
    receiving.start()
    _expect(ours, START_S * 4, f"the receivers of {broker}")
    settled()
    outcome, given = spawn.Pipe()
    publishing = spawn.Process(target=publishers.run, args=(broker, port, count, rate_per_s, given))
    publishing.start()
    start_ns, _ = _expect(outcome, 300.0, f"the publisher of {broker}")
    publishing.join()
    _wait_until_quiet(shared)
    deliveries, last_ns = shared[DELIVERIES], shared[LAST_NS]
    ours.send("end")
    delays_us = sorted(_expect(ours, START_S, f"the receivers of {broker}"))
    receiving.join()
    seconds = max((last_ns - start_ns) / 1e9, 1e-9)
    return {
        "publications_per_s": round(count / seconds),
        "deliveries": deliveries,
        "deliveries_per_s": round(deliveries / seconds),
        "delay_p50_us": _percentile(delays_us, 0.50),
        "delay_p99_us": _percentile(delays_us, 0.99),
    }


def _expect(pipe: Any, timeout_s: float, who: str) -> Any:
    if not pipe.poll(timeout_s):
        raise PeerError(f"{who} did not answer within {timeout_s:g} s")
    return pipe.recv()


def _wait_until_quiet(shared: SynchronizedArray[int]) -> None:
    """Returns when nothing was delivered for a while."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        if shared[DELIVERIES] != before:
            before, since = shared[DELIVERIES], time.monotonic()
        time.sleep(0.02)


def _percentile(values: list[int], share: float) -> int | None:
    return values[min(int(len(values) * share), len(values) - 1)] if values else None


def _row(broker: str, scenario: Scenario) -> dict[str, Any]:
    with _broker(broker) as (port, _):
        full = _run(broker, port, scenario, scenario.count, 0)
    rate_per_s = full["publications_per_s"] / 2
    with _broker(broker) as (port, _):
        half = _run(broker, port, scenario, int(min(scenario.count, rate_per_s * 3)), rate_per_s)
    return {
        "broker": broker,
        "subscriptions": scenario.fanout + scenario.others,
        "fanout": scenario.fanout,
        "publications_per_s": full["publications_per_s"],
        "deliveries_per_s": full["deliveries_per_s"],
        "deliveries_per_publication": round(full["deliveries"] / scenario.count, 2),
        "delay_p50_us": half["delay_p50_us"],
        "delay_p99_us": half["delay_p99_us"],
    }


def measure(count: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per scenario and broker; `ratio` is publications per second against mosquitto's."""
    warm_up()  # compiled once, here; the brokers load the result from the cache
    rows = []
    brokers = ("mosquitto", "reefcast") if mosquitto() else ("reefcast",)
    for scenario in scenarios(count):
        baseline = None
        for broker in brokers:
            progress(f"{broker}: fan-out {scenario.fanout}, {scenario.others} other subscriptions")
            row = _row(broker, scenario)
            baseline = baseline or row["publications_per_s"]
            row["ratio"] = round(row["publications_per_s"] / baseline, 3)
            rows.append(row)
    return rows


def profile(count: int, progress: Callable[[str], None]) -> list[profiling.Cost]:
    """The largest costs of the broker process, for each scenario at full speed."""
    warm_up()
    costs = []
    for scenario in scenarios(count):
        case = f"fan-out {scenario.fanout}, {scenario.others} other subscriptions"
        progress(case)
        costs += profiling.largest(case, _functions(scenario), scenario.count)
    return costs


def _functions(scenario: Scenario) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        with _broker("reefcast", file) as (port, process):

            def look() -> None:
                process.send_signal(signal.SIGUSR1)

            _run("reefcast", port, scenario, scenario.count, 0, look)
        functions: dict[str, float] = json.loads(file.read_text())
        return functions
