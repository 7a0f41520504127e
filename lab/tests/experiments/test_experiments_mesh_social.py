"""DT-FB: traces of who writes to whom, read and generated, and their scripts."""

from __future__ import annotations

import gzip
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import names
from reefcast_lab.experiments.mesh.distribution import distribution
from reefcast_lab.experiments.mesh.social import (
    SOCIAL_VARIABLE,
    Interaction,
    SocialStatistics,
    generate_trace,
    partners_of,
    read_trace,
    social_file,
    social_script,
    social_statistics,
    social_trace,
    statistics_of,
)
from reefcast_lab.experiments.mesh.topology import network

ROWS = "7,9,0.5\n9,7,0.0\n9,4,2.25\n4,4,1\n9,4,2.25\n"
TRACE = [
    Interaction("9", "7", 0.0),
    Interaction("7", "9", 0.5),
    Interaction("9", "4", 2.25),
    Interaction("9", "4", 2.25),
]


def test_a_trace_is_read_in_the_order_of_time_without_talk_to_oneself(tmp_path: Path) -> None:
    plain, packed = tmp_path / "trace.csv", tmp_path / "trace.csv.gz"
    plain.write_text(ROWS)
    packed.write_bytes(gzip.compress(ROWS.encode()))
    assert read_trace(plain) == read_trace(packed) == TRACE
    assert partners_of(TRACE) == {"9": ["7", "4"], "7": ["9"], "4": ["9"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2,soon\n", "a row is sender, receiver, hours"),
        ("1,2\n", "a row is sender, receiver, hours"),
        ("1,1,0.5\n", "no interaction of two users"),
        ("", "no interaction of two users"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_trace(tmp_path / "trace.csv")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_trace(tmp_path / "none.csv.gz")


def test_the_trace_is_the_one_that_the_environment_names_or_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SOCIAL_VARIABLE, raising=False)
    assert social_file() == ""
    assert social_trace("small", 3) == generate_trace(social_statistics("small"), 3)
    (tmp_path / "trace.csv").write_text(ROWS)
    monkeypatch.setenv(SOCIAL_VARIABLE, str(tmp_path / "trace.csv"))
    assert social_file() == str(tmp_path / "trace.csv")
    assert social_trace("small", 3) == TRACE


# --- scripts --------------------------------------------------------------------------------------


def test_posts_follow_the_trace_and_reach_the_partners() -> None:
    script = social_script(TRACE, names(2), 60, subscribe_s=3, from_s=10, duration_s=6, seed=1)
    assert [claim.client for claim in script.claims] == ["u9", "u7", "u4"]
    assert [claim.from_s for claim in script.claims] == [0, 1, 2]
    home = {claim.client: claim.broker for claim in script.claims}
    assert sorted(home.values()) in (["b1", "b1", "b2"], ["b1", "b2", "b2"])
    again = [*TRACE, *TRACE[:2]]
    assert [(e.attributes["author"], e.attributes["wall"]) for e in script.events] == [
        (each.sender, each.receiver) for each in again
    ]
    assert all(e.client == f"u{e.attributes['author']}" for e in script.events)
    assert all(e.broker == home[e.client] and 10 <= e.at_s < 16 for e in script.events)
    found = [
        {c.client for c in script.claims if parse_filter(c.filter).holds(event.attributes)}
        for event in script.events[:3]
    ]
    assert found == [{"u7", "u4"}, {"u9"}, {"u7", "u4"}]


@given(st.integers(0, 2**32))
def test_a_seed_gives_one_social_script(seed: int) -> None:
    like = SocialStatistics(30, 60, 90, 0.6, 1.0, 0.6)
    trace = generate_trace(like, seed)
    assert trace == generate_trace(like, seed) != generate_trace(like, seed + 1)
    assert len(trace) == 90 and all(each.sender != each.receiver for each in trace)
    assert [each.at_h for each in trace] == sorted(each.at_h for each in trace)
    made = [
        social_script(trace, names(7), 600, subscribe_s=1, from_s=2, duration_s=3, seed=each)
        for each in (seed, seed, seed + 1)
    ]
    assert made[0] == made[1] != made[2]


# --- statistics -----------------------------------------------------------------------------------


def test_statistics_of_a_trace() -> None:
    found = statistics_of(TRACE)
    assert (found.users, found.pairs, found.interactions) == (3, 2, 4)
    assert found.partners_sd == pytest.approx(np.std([0.0, 0.0, np.log(2)]))
    assert found.activity_sd == pytest.approx(np.log(3) / 2)
    assert found.correlation == pytest.approx(1.0)


def test_the_generator_makes_what_the_data_is_like() -> None:
    like = social_statistics()
    trace = generate_trace(like, 1)
    assert asdict(statistics_of(trace)) == pytest.approx(asdict(like), rel=0.05)
    partners = [len(others) for others in partners_of(trace).values()]
    # of the data: 5, 11, 24, 50
    assert np.quantile(partners, (0.1, 0.5, 0.9, 0.99)) == pytest.approx([5, 11, 24, 50], rel=0.1)


def test_made_posts_reach_as_many_brokers_as_real_ones() -> None:
    """With the data, it is 18.6 brokers and 24.7 pure forwarders."""
    tree, trace = network("C1"), generate_trace(social_statistics(), 1)
    script = social_script(
        trace, list(tree), 3600, subscribe_s=240, from_s=240, duration_s=120, seed=1
    )
    found = distribution(tree, script)
    assert found.deliveries.mean == pytest.approx(18.6, rel=0.07)
    assert found.pure_forwarders.mean == pytest.approx(24.7, rel=0.07)


def test_the_small_scale_has_fewer_users_with_as_many_partners() -> None:
    paper, small = social_statistics(), social_statistics("small")
    assert small.users == pytest.approx(paper.users / 3, rel=0.01)
    assert small.pairs / small.users == pytest.approx(paper.pairs / paper.users, rel=0.01)
    assert replace(small, users=0, pairs=0, interactions=0) == replace(
        paper, users=0, pairs=0, interactions=0
    )


@pytest.mark.data
def test_the_file_has_the_statistics_of_the_data(data: Path) -> None:
    trace = read_trace(data / "social" / "facebook_wall_chip_all.csv.gz")
    assert asdict(statistics_of(trace)) == pytest.approx(asdict(social_statistics()), rel=1e-3)
