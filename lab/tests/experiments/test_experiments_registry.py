"""Choosing claims by id, and the runs that they need."""

from __future__ import annotations

import pytest
from toy_paper import toy_paper

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.registry import paper_named, runs_of, select


def ids(selection):
    return [claim.id for claim in selection.claims]


def test_claims_by_id_and_by_paper(tmp_path):
    papers = {"toy": toy_paper(tmp_path)}
    (one,) = select(papers, ["toy/T2"])
    assert ids(one) == ["toy/T2", "toy/T2"]
    assert [campaign.name for campaign in one.campaigns] == ["sizes"]
    (every,) = select(papers, ["toy/T2", "toy"])
    assert ids(every) == ["toy/T1", "toy/T2", "toy/T2", "toy/T3"]
    assert [campaign.name for campaign in every.campaigns] == ["sizes", "idle"]


def test_names_that_there_are_not(tmp_path):
    papers = {"toy": toy_paper(tmp_path)}
    with pytest.raises(ConfigurationError, match="'toy/T9'"):
        select(papers, ["toy/T1", "toy/T9"])
    with pytest.raises(ConfigurationError, match="no paper 'joy': take toy"):
        paper_named(papers, "joy")


def test_runs_of_a_scale_largest_first(tmp_path):
    sizes = toy_paper(tmp_path).campaigns[:1]
    runs = runs_of(sizes, "small", None)
    assert [run.x for run in runs] == [20] * 4 + [10] * 4
    assert len(runs_of(sizes, "paper", None)) == 12
    with pytest.raises(ConfigurationError, match="take small or paper"):
        runs_of(sizes, "large", None)


def test_seeds_in_place_of_the_campaigns_own(tmp_path):
    runs = runs_of(toy_paper(tmp_path).campaigns[:1], "small", seeds=3)
    assert len(set(runs)) == len(runs) == 12
    assert {run.seed for run in runs} == {0, 1, 2}
