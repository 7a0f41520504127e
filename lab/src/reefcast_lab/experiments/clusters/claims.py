"""Covering inside clusters, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.clusters.covered import CAMPAIGNS
from reefcast_lab.experiments.clusters.parameters import FILE, NAME
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(Path(__file__).parent, NAME)

PAPER = FILES.paper(campaigns=CAMPAIGNS, parameters_file=FILE)
