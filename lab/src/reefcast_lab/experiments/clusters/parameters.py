"""What the file of parameters says of covering inside clusters."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

NAME = "clusters"
FILE = Path(__file__).with_name("parameters.toml")

section = ParameterFile(FILE).section
