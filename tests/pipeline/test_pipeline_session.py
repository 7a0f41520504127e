"""Java is looked for before Spark starts; one sentence says that it is missing."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from reefcast.errors import LocalError
from reefcast.pipeline.session import SEMANTICS, check_java, settings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pretend_java(folder, version):
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)


@pytest.fixture
def only_this_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_no_java(only_this_path):
    with pytest.raises(
        LocalError, match=r"^no working Java was found, Spark needs Java 17.*install"
    ):
        check_java()


@pytest.mark.live
def test_old_java(only_this_path):
    pretend_java(only_this_path, "11.0.2")
    with pytest.raises(LocalError, match=r"^Java 11 was found"):
        check_java()


@pytest.mark.live
def test_new_java(only_this_path):
    pretend_java(only_this_path, "21.0.1")
    check_java()


@pytest.mark.live
def test_java_home_comes_first(only_this_path, monkeypatch, tmp_path):
    pretend_java(only_this_path, "11.0.2")
    (tmp_path / "home" / "bin").mkdir(parents=True)
    pretend_java(tmp_path / "home" / "bin", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    check_java()


@pytest.mark.spark
def test_a_session_of_another_thread_is_not_stopped(spark: SparkSession) -> None:
    def borrow() -> None:
        with spark_session("borrowed") as session:
            assert session.range(2).count() == 2

    with ThreadPoolExecutor(1) as threads:
        threads.submit(borrow).result()
    assert spark.range(3).count() == 3


def test_of_a_cluster_nothing_is_set_that_its_keepers_decide():
    theirs = ("spark.driver.host", "spark.driver.memory", "spark.sql.shuffle", "spark.ui.enabled")
    for master in ("spark://h:7077", "yarn", "sc://h"):
        assert not [name for name in settings(master) if name.startswith(theirs)]
        assert SEMANTICS.items() <= settings(master).items()
    assert settings("local[2]")["spark.driver.host"] == "127.0.0.1"


def test_of_spark_connect_only_what_a_session_may_set():
    assert [name for name in settings("sc://h") if not name.startswith("spark.sql.")] == []


WITHOUT_GRPC = """
import sys
sys.modules["grpc"] = None
from reefcast.pipeline.session import spark_session
with spark_session("connect", "sc://127.0.0.1:1"):
    pass
"""


def test_spark_connect_needs_packages_but_no_java(only_this_path, tmp_path):
    script = tmp_path / "connect.py"
    script.write_text(WITHOUT_GRPC)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert "LocalError: sc://127.0.0.1:1 is Spark Connect, which needs more packages" in last
    assert "pip install 'pyspark[connect]'" in last


@pytest.mark.spark
def test_a_session_that_was_there_before_goes_on(spark: SparkSession) -> None:
    with spark_session("a command in a program that has a session") as session:
        assert session.range(3).count() == 3
    assert spark.range(3).count() == 3


def test_java_shares_classes_or_writes_them(tmp_path):
    classes = tmp_path / "classes.jsa"
    java = settings("local[2]", classes=classes)["spark.driver.extraJavaOptions"]
    assert f"-XX:ArchiveClassesAtExit={classes}" in java.split()
    classes.write_bytes(b"")
    java = settings("local[2]", classes=classes)["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile={classes}" in java.split()
    assert "-Xshare" not in settings("local[2]")["spark.driver.extraJavaOptions"]
    spaced = settings("local[2]", classes=tmp_path / "my classes.jsa")
    assert "-XX:" not in spaced["spark.driver.extraJavaOptions"]
