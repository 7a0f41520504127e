"""The covering paper's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.covering import (
    moving,
    own,
    processing,
    slow,
    structure,
    unsubscribing,
    workflows,
)
from reefcast_lab.experiments.covering.evidence import COMPUTED, watched_s
from reefcast_lab.experiments.covering.parameters import FILE, section
from reefcast_lab.experiments.covering.parameters import PAPER as NAME
from reefcast_lab.experiments.numerals import short
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(
    Path(__file__).parent,
    NAME,
    {
        "slow_rate": short(section("own").slow_rate),
        "fast_rate": short(section("own").fast_rate),
        "watched_s": short(watched_s("paper")),
        "placements": section("unsubscribing").placements,
    },
    COMPUTED,
)

PAPER = FILES.paper(
    campaigns=(
        processing.CAMPAIGN,
        unsubscribing.CAMPAIGN,
        unsubscribing.DEGREES,
        unsubscribing.THETAS,
        structure.CAMPAIGN,
        structure.THETAS,
        workflows.CAMPAIGN,
        workflows.LOGS,
        slow.CAMPAIGN,
        slow.BETWEEN,
        slow.DEGREES,
        slow.CLUSTERS,
        moving.CAMPAIGN,
        own.CAMPAIGN,
        own.FASTER,
    ),
    parameters_file=FILE,
    data=workflows.event_log,
    data_variable=workflows.LOG_VARIABLE,
)
