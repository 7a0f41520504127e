"""What the bare installation leaves out, and the message where it is needed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.requirements import Requirement

from reefcast.errors import LocalError
from reefcast.extras import EXTRAS, extra_for

ROOT = Path(__file__).parents[1]


def project(file: str) -> dict[str, Any]:
    content = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))
    return cast(dict[str, Any], content["project"])


PROJECT, LABORATORY = project("pyproject.toml"), project("lab/pyproject.toml")


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


def test_all_of_them_are_locked() -> None:
    locked = {
        line.partition("==")[0]
        for line in (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    laboratory = (LABORATORY["dependencies"], *LABORATORY["optional-dependencies"].values())
    needed = set[str]().union(*map(names, (PROJECT["dependencies"], *laboratory)))
    assert EXTRAS.keys() | needed <= locked


def test_the_laboratory_is_of_the_same_version_and_needs_all_of_the_product() -> None:
    assert LABORATORY["version"] == PROJECT["version"]
    [product] = [each for each in LABORATORY["dependencies"] if each.startswith("reefcast")]
    assert product == f"reefcast[plan,security,spark]=={PROJECT['version']}"
    brought = {"plan", "security", "spark", "broker"}  # the last by the others
    assert set(PROJECT["optional-dependencies"]) == brought


def missed(package: str) -> str:
    with pytest.raises(LocalError) as error, extra_for("the command swim"):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return str(error.value)


def test_a_package_of_an_extra_is_told_with_what_brings_it() -> None:
    assert missed("pyarrow.parquet") == (
        "the command swim needs more packages (pyarrow is not installed): "
        "pip install 'reefcast[broker]'"
    )
    assert "(argon2-cffi is not installed): pip install 'reefcast[security]'" in missed("argon2")


@pytest.mark.parametrize("name", ["simpy", "reefcast.nothing", None])
def test_other_packages_are_no_business_of_ours(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError), extra_for("the command swim"):
        raise ModuleNotFoundError("gone", name=name)
