"""What the file of parameters says of large networks."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

NAME = "tenfold"
FILE = Path(__file__).with_name("parameters.toml")

section = ParameterFile(FILE).section
