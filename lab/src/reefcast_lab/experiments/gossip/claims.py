"""StAN's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.gossip import (
    alignment,
    comparison,
    dissemination,
    growth,
    interests,
    lastfm,
    starting_degrees,
)
from reefcast_lab.experiments.gossip.measures import EARLY, LIKE
from reefcast_lab.experiments.gossip.parameters import FILE
from reefcast_lab.experiments.gossip.parameters import PAPER as NAME
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(
    Path(__file__).parent,
    NAME,
    {"early": EARLY, "like": f"{100 * LIKE:.0f}", "variable": lastfm.VARIABLE},
)

PAPER = FILES.paper(
    campaigns=(
        interests.CAMPAIGN,
        *alignment.CAMPAIGNS,
        starting_degrees.CAMPAIGN,
        growth.CAMPAIGN,
        lastfm.CAMPAIGN,
        dissemination.LOSS,
        dissemination.CRASH,
        dissemination.FAILURE,
        dissemination.SEVERAL,
        comparison.CAMPAIGN,
    ),
    parameters_file=FILE,
    data=lastfm.listeners_file,
    data_variable=lastfm.VARIABLE,
)
