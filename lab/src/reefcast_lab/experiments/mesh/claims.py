"""The mesh paper's evaluation, put together: campaigns, and what the files beside them say."""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.experiments.mesh import cluster_burst, light, meshes, throughput, unchosen
from reefcast_lab.experiments.mesh.evidence import COMPUTED
from reefcast_lab.experiments.mesh.parameters import FILE
from reefcast_lab.experiments.mesh.parameters import PAPER as NAME
from reefcast_lab.experiments.mesh.social import SOCIAL_VARIABLE, social_file
from reefcast_lab.experiments.paper_files import PaperFiles

FILES = PaperFiles(Path(__file__).parent, NAME, computed=COMPUTED)

PAPER = FILES.paper(
    campaigns=(
        light.CAMPAIGN,
        meshes.COVERING_SETS,
        throughput.DT1,
        throughput.DT2,
        throughput.DT3,
        throughput.UPLINK,
        throughput.LAB,
        throughput.SOCIAL_TRACE,
        meshes.PATH_COUNTS,
        unchosen.CAMPAIGN,
        cluster_burst.CAMPAIGN,
    ),
    parameters_file=FILE,
    data=social_file,
    data_variable=SOCIAL_VARIABLE,
)
