"""Where compiled kernels are kept when the usual directories are not writable. Root may write
anywhere, so here files stand in the place of the directories."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reefcast
from reefcast.matching import warm_up
from reefcast.matching.native.directories import lasting

PACKAGE = Path(reefcast.__file__).parent
INDEX = """
from reefcast.matching import new_index
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
index = new_index()
index.add("key", parse_filter("x > 5"))
print(list(index.match(Publication("p", 1, 0, {"x": 6}))))
"""
WHERE = "from numba import config; import reefcast.matching.kernel_cache; print(config.CACHE_DIR)"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package whose folders can keep nothing."""
    folder = tmp_path_factory.mktemp("read-only")
    shutil.copytree(PACKAGE, folder / "reefcast", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "reefcast").rglob("*.py"):
        (path.parent / "__pycache__").touch()
    return folder


def run(package: Path, temporary: Path, program: str, **variables: object) -> tuple[str, str, int]:
    """Run a program without a home; return its output, errors and exit code."""
    temporary.mkdir(exist_ok=True)
    usual = {key: value for key, value in os.environ.items() if "CACHE" not in key}
    homeless = {"HOME": "/dev/null", "PYTHONPATH": package, "TMPDIR": temporary}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**usual, **{key: str(value) for key, value in (homeless | variables).items()}},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


def seed(directory: Path) -> None:
    """Copy this process's kernels to the directory: to compile them again would take long, and test
    no more."""
    warm_up()
    directory.mkdir(parents=True, exist_ok=True)
    for kept in lasting():
        for file in kept.glob("*.kernels"):
            shutil.copy(file, directory)


def test_a_read_only_package_and_home(package: Path, tmp_path: Path) -> None:
    directory = tmp_path / f"reefcast-{os.getuid()}"
    directory.mkdir(mode=0o700)
    seed(directory)
    output, errors, code = run(package, tmp_path, INDEX)
    assert (output, code) == ("['key']\n", 0), errors
    assert re.fullmatch(
        rf"compiled kernels are kept in {directory}: .*REEFCAST_CACHE_DIR names another one\n",
        errors,
    )


def test_the_directory_that_is_named(package: Path, tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    seed(directory)
    output, errors, code = run(package, tmp_path, INDEX, REEFCAST_CACHE_DIR=directory)
    assert (output, errors, code) == ("['key']\n", "", 0)
    relative = os.path.relpath(tmp_path / "new")
    output, _, _ = run(package, tmp_path, WHERE, REEFCAST_CACHE_DIR=relative)
    assert Path(output.strip()).samefile(tmp_path / "new")
    assert Path(output.strip()).is_absolute()


def test_a_named_directory_that_cannot_be_written_to(package: Path, tmp_path: Path) -> None:
    program = "import sys; from reefcast.cli.main import main; sys.argv[1:] = ARGUMENTS; main()"
    program = program.replace("ARGUMENTS", "['explain', '--plan', 'x > 5']")
    _, errors, code = run(package, tmp_path, program, REEFCAST_CACHE_DIR="/dev/null/kernels")
    assert "REEFCAST_CACHE_DIR is '/dev/null/kernels', where nothing can be written" in errors
    assert "Traceback" not in errors
    assert code == 2


def test_numbas_own_choice_stands(package: Path, tmp_path: Path) -> None:
    output, errors, _ = run(package, tmp_path, WHERE, NUMBA_CACHE_DIR=tmp_path / "numba")
    assert (output.strip(), errors) == (str(tmp_path / "numba"), "")
    output, errors, _ = run(package, tmp_path, WHERE, HOME=tmp_path)
    assert (output.strip(), errors) == ("", "")


@pytest.mark.parametrize("foreign", ["link", "shared", "file"])
def test_kernels_are_never_taken_from_where_others_may_put_them(
    package: Path, tmp_path: Path, foreign: str
) -> None:
    directory = tmp_path / f"reefcast-{os.getuid()}"
    if foreign == "link":
        (tmp_path / "theirs").mkdir()
        directory.symlink_to(tmp_path / "theirs")
    elif foreign == "shared":
        directory.mkdir()
        directory.chmod(0o777)
    else:
        directory.touch()
    output, errors, code = run(package, tmp_path, WHERE)
    assert code == 0, errors
    assert Path(output.strip()).parent == tmp_path
    assert Path(output.strip()) != directory
    assert output.strip() in errors


def test_kernels_take_njit_from_where_the_directory_is_settled() -> None:
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(from numba import .*\bnjit\b|import numba\b)", path.read_text(), re.M)
    ]
    keeps_nothing = "matching/native/definitions.py"
    assert sorted(found) == ["matching/kernel_cache.py", keeps_nothing]
