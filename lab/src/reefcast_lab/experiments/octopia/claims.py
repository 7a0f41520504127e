"""OctopiA's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.octopia import burst, delivery, publishers, selection, subscribers
from reefcast_lab.experiments.octopia.evidence import COMPUTED
from reefcast_lab.experiments.octopia.grid import PAPER as NAME
from reefcast_lab.experiments.octopia.parameters import FILE, STOCKS_VARIABLE, stocks_file
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(Path(__file__).parent, NAME, computed=COMPUTED)

PAPER = FILES.paper(
    campaigns=(
        publishers.CAMPAIGN,
        subscribers.CAMPAIGN,
        delivery.CAMPAIGN,
        selection.CAMPAIGN,
        burst.CAMPAIGN,
    ),
    parameters_file=FILE,
    data=stocks_file,
    data_variable=STOCKS_VARIABLE,
)
