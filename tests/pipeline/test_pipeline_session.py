"""Java is looked for before Spark is started, and its absence said in one sentence."""

from __future__ import annotations

import pytest

from reefcast.errors import LocalError
from reefcast.pipeline.session import check_java


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


def test_old_java(only_this_path):
    pretend_java(only_this_path, "11.0.2")
    with pytest.raises(LocalError, match=r"^Java 11 was found"):
        check_java()


def test_new_java(only_this_path):
    pretend_java(only_this_path, "21.0.1")
    check_java()


def test_java_home_comes_first(only_this_path, monkeypatch, tmp_path):
    pretend_java(only_this_path, "11.0.2")
    (tmp_path / "home" / "bin").mkdir(parents=True)
    pretend_java(tmp_path / "home" / "bin", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    check_java()
