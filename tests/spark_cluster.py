"""A standalone Spark cluster on this machine: one master and some workers, on loopback only."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

READY_S = 90.0
"""How long a Java process may take to report that it is ready, on a busy machine."""
_UNTIL_WE_ARE_GONE = '"$0" "$@" < /dev/null & read _; kill -9 0'
"""A wrapper that kills the process and its executors when our end of the pipe is closed, even if we
are killed ourselves."""
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CONFIGURATION = f"""
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 512m
spark.driver.defaultJavaOptions {_SMALL_JVM}
spark.executor.memory 512m
spark.executor.cores 1
spark.executor.defaultJavaOptions {_SMALL_JVM}
spark.sql.shuffle.partitions 2
spark.ui.enabled false
"""


class Cluster(NamedTuple):
    """A running cluster. `environment`: for commands that take `master`. `work`: a folder for each
    worker, with one for each executor in it."""

    master: str
    environment: dict[str, str]
    work: list[Path]


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run workers of one core each; every process is gone at the end of the block."""
    from pyspark.find_spark_home import _find_spark_home

    work = [folder / f"worker-{number}" for number in range(workers)]
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "spark-defaults.conf").write_text(_CONFIGURATION, encoding="utf-8")
    environment = os.environ | {
        "SPARK_HOME": _find_spark_home(),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
    }
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_running(log, environment, "master.Master", *here))
        (master,) = _said(log, r"Starting Spark master at (spark://\S+)", 1)
        for each in work:
            options = (*here, "--cores", "1", "--memory", "1g", "--work-dir", str(each), master)
            worker_log = each.with_suffix(".log")
            stack.enter_context(_running(worker_log, environment, "worker.Worker", *options))
        _said(log, r"Registering worker (\S+)", workers)
        yield Cluster(master, environment, work)


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a server of Spark Connect with two cores; yield its address for `spark_session`."""
    from pyspark.find_spark_home import _find_spark_home

    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "spark-defaults.conf").write_text(_CONFIGURATION, encoding="utf-8")
    environment = os.environ | {
        "SPARK_HOME": _find_spark_home(),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    log, port = folder / "connect.log", free_port()
    options = (
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal"),
    )
    with _running(log, environment, "SparkSubmit", *options):
        _said(log, r"Spark Connect server started at", 1)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _running(log: Path, environment: dict[str, str], name: str, *options: str) -> Iterator[None]:
    program = str(Path(environment["SPARK_HOME"]) / "bin" / "spark-class")
    command = ("/bin/sh", "-c", _UNTIL_WE_ARE_GONE, program, f"org.apache.spark.deploy.{name}")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *options],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(READY_S)


def free_port() -> int:
    """Return a port that nobody listens on now; the server does not say which one it took."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def _said(log: Path, pattern: str, times: int) -> list[str]:
    """Return what the process wrote that matches, once there are so many matches."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        found = re.findall(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if len(found) >= times:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{log.name}: {log.read_text(encoding='utf-8')[-2000:]}")
