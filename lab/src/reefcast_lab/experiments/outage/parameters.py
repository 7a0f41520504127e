"""What the file of parameters says of networks, their traffic and the death of a broker."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

NAME = "outage"
FILE = Path(__file__).with_name("parameters.toml")

section = ParameterFile(FILE).section
