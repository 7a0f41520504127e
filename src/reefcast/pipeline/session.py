"""The only module that makes a Spark session.

Every job of the pipeline runs with the same settings, so that a filter means in Spark what it means
in a broker: ANSI mode, case-sensitive names, names quoted by double quotes, UTC.

A master is Spark's own: `local[2]` for threads of this machine, `spark://host:7077` and others for
a cluster, `sc://host:15002` for Spark Connect. On a cluster, the settings that its operators decide
(memory, addresses, partitions) are left to its spark-defaults.conf."""

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

_JOBS = {
    # Our jobs are many expressions over few rows: generating one big method for each stage takes
    # longer than it saves, and the check's methods exceed what the JVM compiles (measured: 4 s
    # instead of 14 s for 1 000 filters over 50 000 events).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings for a session of any master."""

_LOGGING = Path(__file__).with_name("log4j2.properties")
_LOG_OPTION = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
_BRIEF_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn600m"
"""Compile quickly, collect garbage with one thread and seldom. Measured: starting takes 5.5 s of
processor time instead of 8.9 s."""

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
"""Settings for threads of this machine."""


def is_connect(master: str) -> bool:
    """Return whether a Spark Connect server runs the jobs, so that this process needs no Java."""
    return master.startswith("sc://")


def settings(master: str, *, brief: bool = False, classes: Path | None = None) -> dict[str, str]:
    """Return the settings for a kind of master; `brief` and `classes` as in `spark_session`."""
    ours = _JOBS | SEMANTICS
    if is_connect(master):  # which starts no Java process
        return ours
    java = " ".join((_LOG_OPTION, *_brief_options(brief), *_class_options(classes)))
    driver = {"spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": java}
    return ours | driver | (_LOCAL if master.startswith("local") else {})


def _brief_options(brief: bool) -> tuple[str, ...]:
    return (_BRIEF_OPTIONS,) if brief else ()


def _class_options(classes: Path | None) -> tuple[str, ...]:
    """Return options that share classes; a Java that they do not suit starts without them."""
    if classes is None or " " in str(classes):
        return ()
    option = "SharedArchiveFile" if classes.exists() else "ArchiveClassesAtExit"
    return ("-Xshare:auto", f"-XX:{option}={classes.absolute()}", "-Xlog:disable")


@contextlib.contextmanager
def spark_session(
    application: str,
    master: str = DEFAULT_MASTER,
    *,
    brief: bool = False,
    classes: Path | None = None,
) -> Iterator[SparkSession]:
    """Open a session for the jobs of one command; it is stopped, with its Java process, at the end,
    unless the program had one before. `brief`: for jobs of a few seconds, which take less of the
    processor where the Java process does not spend it on compiling itself well. `classes`: a file
    with Java's classes as they were loaded once, so that Java starts in half of the time (measured:
    4 s instead of 8 s); if there is none, this session's Java process writes it at its end (200
    MB).

    Raises `LocalError` where Java is missing or the master cannot be had, `ModuleNotFoundError`
    where PySpark is missing.
    """
    if not is_connect(master):
        check_java()
    had_one = not is_connect(master) and _has_session()
    session = _start(application, settings(master, brief=brief, classes=classes), master)
    try:
        yield session
    finally:
        if not had_one:
            session.stop()
            if classes is not None and not classes.exists():
                _end_java()


def _has_session() -> bool:
    """Tell whether this program has a session already: starting one gives that one again. (What is
    public tells the session of the calling thread only.)"""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


PARTITION_BYTES = 64 * 2**20
"""How much of a large input one task takes."""


@contextlib.contextmanager
def sized(spark: SparkSession, input_bytes: int) -> Iterator[None]:
    """Set the session for jobs over an input of this size: as many partitions after a shuffle as it
    needs, where that is more than the session has; and then methods generated for whole stages,
    which pay where rows are many."""
    settings = {}
    if input_bytes > PARTITION_BYTES * int(str(spark.conf.get("spark.sql.shuffle.partitions"))):
        partitions = str(1 + input_bytes // PARTITION_BYTES)
        settings = {
            "spark.sql.shuffle.partitions": partitions,
            "spark.sql.codegen.wholeStage": "true",
        }
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            spark.conf.set(name, former)


def check_java() -> None:
    """Raise an error about a missing or old Java in one sentence; Spark's own message is a page
    long."""
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
    """Return the program that Spark's launcher would run."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _start(application: str, configured: dict[str, str], master: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(application)
    builder = builder.remote(master) if is_connect(master) else builder.master(master)
    for name, value in configured.items():
        builder = builder.config(name, value)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's default is whatever python3 the path finds, which need not have this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as log:
        try:
            if not is_connect(master):
                _launch_java({"spark.master": master, **configured}, log)
            return builder.getOrCreate()
        except ImportError as error:
            if not is_connect(master):
                raise
            raise LocalError(
                f"{master} is Spark Connect, which needs more packages: "
                f"pip install 'pyspark[connect]' ({error})"
            ) from error
        except (PySparkException, Py4JError) as error:
            reason = str(error).split("\n", 1)[0]
            raise LocalError(
                f"Spark did not start with master {master}: {reason}; it said: {_tail(log)}"
            ) from error


def _launch_java(configured: dict[str, str], log: IO[bytes]) -> None:
    """Start the Java process, which says to `log` what it has to say: it greets with warnings that
    no option turns off (about the incubator module that Spark asks for)."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf().setAll(list(configured.items()))
        gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]  # PySpark has no types here
        SparkContext._ensure_initialized(gateway=gateway)


def _end_java() -> None:
    """End the Java process, which else ends some time after this program, and wait for it."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def _tail(log: IO[bytes]) -> str:
    """Return what Spark logged last, without the frames of its stacks."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return " / ".join([line for line in lines if line and not line.startswith("\t")][-3:])
