"""The papers' files of parameters."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.parameters import ParameterFile
from reefcast_lab.experiments.registry import papers


@pytest.mark.parametrize("name", sorted(papers()))
def test_every_entry_of_a_file_has_a_value_a_unit_and_a_source(name: str) -> None:
    path = papers()[name].parameters_file
    file = ParameterFile(path)
    for section in tomllib.loads(path.read_text(encoding="utf-8")):
        for scale in ("small", "paper"):
            file.section(section, scale)


def test_a_section_with_other_values(tmp_path: Path) -> None:
    path = tmp_path / "parameters.toml"
    text = '[link]\na = { value = 1, unit = "s", source = "s" }\n'
    path.write_text(text + 'b = { value = 2, unit = "s", source = "s" }\n', encoding="utf-8")
    section = ParameterFile(path).section("link")
    other = section.with_values(b=3)
    assert (other.a, other.b) == (1, 3) and section.b == 2
    with pytest.raises(ConfigurationError, match=r"no link\.c"):
        section.with_values(c=1)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('{ value = 1, source = "s" }', "link.latency_s has no unit"),
        ('{ value = 1, unit = "s" }', "link.latency_s has no source"),
        ('{ paper = 1, unit = "s", source = "s" }', "no value for the scale 'small'"),
    ],
)
def test_refuses_an_entry_that_does_not_say_all(tmp_path: Path, entry: str, reason: str) -> None:
    path = tmp_path / "parameters.toml"
    path.write_text(f"[link]\nlatency_s = {entry}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=reason):
        ParameterFile(path).section("link", "small")
