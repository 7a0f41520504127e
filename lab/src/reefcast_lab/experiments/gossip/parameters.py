"""What the file of parameters says."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.parameters import ParameterFile

FILE = Path(__file__).with_name("parameters.toml")
PAPER = "gossip"

section = ParameterFile(FILE).section
