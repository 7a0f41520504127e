"""Skewed and moving interests, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.skew.moving import CAMPAIGN as MOVING
from reefcast_lab.experiments.skew.parameters import FILE, NAME
from reefcast_lab.experiments.skew.skewed import CAMPAIGN as SKEWED

FILES = PaperFiles(Path(__file__).parent, NAME)

PAPER = FILES.paper(campaigns=(SKEWED, MOVING), parameters_file=FILE)
