"""The one place that makes a Spark session.

Every job of the pipeline runs with the same settings, so that a filter means in Spark what it means
in a broker: ANSI mode, case-sensitive names, names quoted by double quotes, UTC.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from reefcast.errors import LocalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
JAVA_NEEDED = 17

SEMANTICS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""What makes `df.filter(text)` mean the same as a filter of ours."""

_LOGGING = Path(__file__).with_name("log4j2.properties")
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # Our jobs are many expressions over few rows: generating one big method for each stage takes
    # longer than it saves, and the check's methods exceed what the JVM compiles (measured: 4 s
    # instead of 14 s for 1 000 filters over 50 000 events).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}


@contextlib.contextmanager
def spark_session(application: str, master: str = DEFAULT_MASTER) -> Iterator[SparkSession]:
    """A session for the jobs of one command; stopped, with its Java process, at the end.

    Raises `LocalError` where Java is missing, `ModuleNotFoundError` where PySpark is.
    """
    check_java()
    session = _start(application, master)
    try:
        yield session
    finally:
        session.stop()


def check_java() -> None:
    """Spark's own message about a missing or old Java is a page long; ours is a sentence."""
    java = _java_command()
    version = _java_version(java) if java else None
    if version is not None and version >= JAVA_NEEDED:
        return
    found = "no working Java was found" if version is None else f"Java {version} was found"
    raise LocalError(
        f"{found}, Spark needs Java {JAVA_NEEDED} or later: install it, for instance by "
        f"apt-get install openjdk-{JAVA_NEEDED}-jre-headless (Debian, Ubuntu) or "
        f"brew install openjdk@{JAVA_NEEDED} (macOS), or point JAVA_HOME to it"
    )


def _java_command() -> str | None:
    """The program that Spark's launcher would take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _start(application: str, master: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(application).master(master)
    for name, value in (_LOCAL | SEMANTICS).items():
        builder = builder.config(name, value)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's default is whatever python3 the path finds, which need not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as log, _java_stderr_to(log):
        try:
            return builder.getOrCreate()
        except PySparkException as error:
            raise LocalError(f"Spark did not start: {error}; it said: {_tail(log)}") from error


@contextlib.contextmanager
def _java_stderr_to(log: IO[bytes]) -> Iterator[None]:
    """The Java process inherits our stderr, and greets with warnings that no option turns off
    (about the incubator module that Spark asks for), in the midst of our progress bars."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return " / ".join(log.read().decode(errors="replace").split("\n")[-5:])
