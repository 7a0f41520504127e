"""OctopiA's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.campaign import Paper
from reefcast_lab.experiments.octopia import burst, delivery, publishers, selection, subscribers
from reefcast_lab.experiments.octopia.evidence import COMPUTED
from reefcast_lab.experiments.octopia.grid import PAPER as NAME
from reefcast_lab.experiments.octopia.parameters import FILE, STOCKS_VARIABLE, stocks_file
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(Path(__file__).parent, NAME, computed=COMPUTED)

PAPER = Paper(
    name=NAME,
    title="OctopiA",
    campaigns=(
        publishers.CAMPAIGN,
        subscribers.CAMPAIGN,
        delivery.CAMPAIGN,
        selection.CAMPAIGN,
        burst.CAMPAIGN,
    ),
    claims=FILES.claims(),
    plots=FILES.plots(),
    parameters_file=FILE,
    setting=FILES.text("setting"),
    evidence=FILES.evidence,
    data=stocks_file,
    data_variable=STOCKS_VARIABLE,
)
