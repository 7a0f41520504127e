"""What the file of parameters says of the former set-up."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

PAPER = "undone"
FILE = Path(__file__).with_name("parameters.toml")

section = ParameterFile(FILE).section
