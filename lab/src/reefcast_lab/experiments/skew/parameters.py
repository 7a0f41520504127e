"""What the file of parameters says of skewed and moving interests."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

NAME = "skew"
FILE = Path(__file__).with_name("parameters.toml")

section = ParameterFile(FILE).section
