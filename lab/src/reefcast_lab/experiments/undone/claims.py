"""The changes of covering's set-up, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.undone import counting, simulating
from reefcast_lab.experiments.undone.parameters import FILE, section
from reefcast_lab.experiments.undone.parameters import PAPER as NAME

FILES = PaperFiles(
    Path(__file__).parent,
    NAME,
    {"placements": section("counted").placements, "window": section("simulated").window},
)

PAPER = FILES.paper(campaigns=(counting.CAMPAIGN, simulating.CAMPAIGN), parameters_file=FILE)
