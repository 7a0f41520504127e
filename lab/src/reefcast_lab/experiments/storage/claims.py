"""The storage paper's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.storage import advertising, readings, real, trees
from reefcast_lab.experiments.storage.parameters import FILE
from reefcast_lab.experiments.storage.parameters import PAPER as NAME

FILES = PaperFiles(Path(__file__).parent, NAME, {"variable": real.VARIABLE})

PAPER = FILES.paper(
    campaigns=(
        trees.OVER_BROKERS,
        trees.OVER_CAPACITY,
        trees.OVER_COPIES,
        trees.POPULAR_OVER_BROKERS,
        trees.POPULAR_OVER_CAPACITY,
        readings.CAMPAIGN,
        advertising.CAMPAIGN,
        real.CAMPAIGN,
    ),
    parameters_file=FILE,
    data=real.topology_file,
    data_variable=real.VARIABLE,
)
