"""The comparison of senders, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.octopia.parameters import STOCKS_VARIABLE, stocks_file
from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.sharing.bursts import CAMPAIGNS
from reefcast_lab.experiments.sharing.parameters import FILE
from reefcast_lab.experiments.sharing.parameters import PAPER as NAME

FILES = PaperFiles(Path(__file__).parent, NAME)

PAPER = FILES.paper(
    campaigns=CAMPAIGNS,
    parameters_file=FILE,
    data=stocks_file,
    data_variable=STOCKS_VARIABLE,
)
