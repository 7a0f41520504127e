"""What the bare installation leaves out, and what is said where it is missed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reefcast.cli.main import COMMANDS, EXTRA_OF
from reefcast.errors import LocalError
from reefcast.extras import EXTRAS, extra_for

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {Requirement(each).name for each in requirements} - {"reefcast"}


def test_the_extras_are_those_of_the_project() -> None:
    said = {
        name: extra
        for extra, requirements in PROJECT["optional-dependencies"].items()
        for name in names(requirements)
    }
    assert said == EXTRAS
    assert not EXTRAS.keys() & names(PROJECT["dependencies"])
    assert EXTRA_OF.keys() <= COMMANDS.keys()
    assert set(EXTRA_OF.values()) <= set(EXTRAS.values())


def test_all_of_them_are_locked() -> None:
    locked = {
        line.partition("==")[0]
        for line in (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    assert EXTRAS.keys() | names(PROJECT["dependencies"]) <= locked


def missed(package: str, extra: str | None = None) -> str:
    with pytest.raises(LocalError) as error, extra_for("the command swim", extra):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return str(error.value)


def test_a_package_of_an_extra_is_told_with_what_brings_it() -> None:
    assert missed("pyarrow.parquet") == (
        "the command swim needs more packages (pyarrow is not installed): "
        "pip install 'reefcast[broker]'"
    )


def test_who_needs_more_than_the_package_is_told_so_at_once() -> None:
    assert missed("numpy", "spark").endswith("pip install 'reefcast[spark]'")


@pytest.mark.parametrize("name", ["simpy", "reefcast.nothing", None])
def test_other_packages_are_no_business_of_ours(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError), extra_for("the command swim"):
        raise ModuleNotFoundError("gone", name=name)
