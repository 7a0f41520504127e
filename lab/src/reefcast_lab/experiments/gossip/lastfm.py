"""The same measures on real interests: users of Last.fm and the artists that they listened to.

The file is that of HetRec 2011 (`user_artists.dat`): a line for each user and artist, with how
often the user played it; lines of another kind, such as its heads, have no three columns of whole
numbers. A user is a node, an artist a topic. It may not be shipped, so it is read from where the
environment says; without it there are no runs of this campaign. x: artists, the most popular ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, UNALIGNED, overlays
from reefcast_lab.experiments.gossip.interests import of_matrix
from reefcast_lab.experiments.gossip.measures import of_overlays
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import Flags, interests_of
from reefcast_lab.experiments.grid import runs_of

NAME = "last.fm"
VARIABLE = "REEFCAST_TOPICS"
ROUTINGS = (UNALIGNED, ALIGNED)
COLUMNS = 3


def listeners_file() -> str:
    """Return the file that the environment names; "" for none."""
    return os.environ.get(VARIABLE, "")


def runs(scale: str) -> list[Run]:
    """Return the runs; none without the file."""
    entries = section("lastfm", scale)
    if not listeners_file():
        return []
    return runs_of(PAPER, NAME, scale, ROUTINGS, entries.artists, entries.seeds)


def measure(run: Run) -> list[Measure]:
    users = section("lastfm", run.scale).users
    matrix = matrix_of_listeners(Path(listeners_file()), users, int(run.x))
    found = overlays(interests_of(matrix), run.routing, run.scale, run.seed)
    return [*of_overlays(found, run.routing, run.scale, run.seed), *of_matrix(matrix)]


def matrix_of_listeners(path: Path, users: int, artists: int) -> Flags:
    """Read [user, artist]: whether the one listened to the other; this many users, the first by
    number, and of all artists the most popular among them, the most popular first. Raises
    `ConfigurationError` for a file that cannot be read, or has other columns."""
    pairs = np.array(_read(path), np.int64)
    names, user = np.unique(pairs[:, 0], return_inverse=True)
    here = user < users
    _, artist, popularity = np.unique(pairs[here, 1], return_inverse=True, return_counts=True)
    place = np.empty(len(popularity), np.int64)
    place[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity))
    matrix = np.zeros((min(users, len(names)), min(artists, len(popularity))), np.bool_)
    kept = place[artist] < artists
    matrix[user[here][kept], place[artist][kept]] = True
    return matrix


def _read(path: Path) -> list[tuple[int, int]]:
    """Read users and artists of the lines that have all columns; there must be one such line."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{VARIABLE}: {path} cannot be read ({error})") from error
    rows = [line for line in lines if len(line) == COLUMNS and all(map(str.isdecimal, line))]
    if not rows:
        raise ConfigurationError(
            f"{VARIABLE}: {path} has no line of user, artist and number of plays; take "
            "user_artists.dat of HetRec 2011, or a file like it"
        )
    return [(int(user), int(artist)) for user, artist, _ in rows]


CAMPAIGN = Campaign(NAME, "artists, the most popular", runs, measure)
