"""Real interests: read from a file of listeners, or left out if there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.gossip import lastfm
from reefcast_lab.experiments.gossip.parameters import section

FILE = "4\n6\n2\t51\t13883\n2\t52\t3\n3\t52\t8\n9\t52\t1\n9\t7\t20\n3\t7\t2\n"
"""The file: users 2, 3 and 9; artist 52 has three listeners, 7 has two, and 51 has one."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "user_artists.dat"
    path.write_text(FILE)
    return path


def test_users_are_nodes_and_artists_topics_the_most_popular_first(file: Path) -> None:
    assert lastfm.matrix_of_listeners(file, 3, 3).tolist() == [
        [True, False, True],
        [True, True, False],
        [True, True, False],
    ]


def test_so_many_users_and_what_is_popular_among_them(file: Path) -> None:
    two = lastfm.matrix_of_listeners(file, 2, 2)
    assert two.tolist() == [[True, False], [True, True]]
    assert lastfm.matrix_of_listeners(file, 10, 10).shape == (3, 3), (
        "more rows or columns than users or artists"
    )


@pytest.mark.parametrize("text", ["", "user,artist,plays\n1,2,3\n", "one two three\n"])
def test_what_is_no_list_of_listeners_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"REEFCAST_TOPICS.*user, artist and number of"):
        lastfm.matrix_of_listeners(path, 3, 3)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"REEFCAST_TOPICS.*cannot be read"):
        lastfm.matrix_of_listeners(tmp_path / "none", 3, 3)


def test_without_a_file_there_is_nothing_to_run(monkeypatch, file: Path) -> None:
    monkeypatch.delenv(lastfm.VARIABLE, raising=False)
    assert lastfm.CAMPAIGN.runs("paper") == []
    monkeypatch.setenv(lastfm.VARIABLE, str(file))
    runs = lastfm.CAMPAIGN.runs("paper")
    assert {run.x for run in runs} == set(section("lastfm", "paper").artists)
    assert {run.routing for run in runs} == {"unaligned", "aligned"}


def test_measures_are_those_of_the_grid(monkeypatch, tmp_path: Path) -> None:
    """There are sixty users with 8 of 12 artists each."""
    rng = np.random.default_rng(1)
    lines = [
        f"{user}\t{artist}\t1\n"
        for user in range(60)
        for artist in rng.choice(12, size=8, replace=False)
    ]
    path = tmp_path / "user_artists.dat"
    path.write_text("".join(lines))
    monkeypatch.setenv(lastfm.VARIABLE, str(path))
    found = {}
    for run in lastfm.CAMPAIGN.runs("small"):
        if (run.seed, run.x) == (0, 20):
            measures = lastfm.measure(run)
            found[run.routing] = {m.metric: m.value for m in measures if m.at == 0.0}
    before, after = found["unaligned"], found["aligned"]
    assert (after["nodes"], after["topics"], after["subscriptions"]) == (60, 12, 8)
    assert after["total_view"] == before["total_view"]
    assert after["unique_view"] < 0.9 * before["unique_view"]
    assert after["mean_subscriptions"] == 8
