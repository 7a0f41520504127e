"""Ten times the papers' sizes, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.tenfold.growth import COMPUTED
from reefcast_lab.experiments.tenfold.parameters import FILE, NAME
from reefcast_lab.experiments.tenfold.simulated import CAMPAIGN as SIMULATED
from reefcast_lab.experiments.tenfold.structural import CAMPAIGN as STRUCTURAL

FILES = PaperFiles(Path(__file__).parent, NAME, computed=COMPUTED)

PAPER = FILES.paper(campaigns=(STRUCTURAL, SIMULATED), parameters_file=FILE)
