"""Each module of commands imports what it needs. Where commands are forked, all modules are there
already, and a forgotten import would not be noticed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ALONE = """
import importlib, os, pkgutil, sys
import aiohttp, click, lark, msgspec, networkx, numpy, pyarrow, rich.table
package = importlib.import_module(sys.argv[1])
failed = []
for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            importlib.import_module(found.name)
            code = 0
        except BaseException as error:
            print(found.name, repr(error), flush=True)
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        failed.append(found.name)
    print("tried", found.name, flush=True)
sys.exit(bool(failed))
"""
"""Imports each module of a package by itself, in a fork that has none of our modules but those of
the packages above it."""


@pytest.mark.parametrize("package", ["reefcast.cli", "reefcast_lab.cli"])
def test_each_module_of_commands_can_be_imported_alone(package: str) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", ALONE, package]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("tried ") > 5


@pytest.mark.usefixtures("started_anew")
@pytest.mark.parametrize("package", ["reefcast", "reefcast_lab"])
def test_a_command_that_is_started_anew(package: str) -> None:
    command = [sys.executable, "-m", package, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: " in done.stdout
