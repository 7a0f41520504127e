"""What makes results old: changes of the code that they depend on, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reefcast.simulation import kernel
from reefcast_lab.experiments import versions
from reefcast_lab.experiments.campaign import Campaign
from reefcast_lab.experiments.covering import processing
from reefcast_lab.experiments.gossip import alignment, interests
from reefcast_lab.experiments.mesh import light
from reefcast_lab.experiments.storage import trees
from reefcast_lab.experiments.storage.parameters import FILE

SOURCES = {
    "burst": "def runs(scale): ...\ndef measure(run):\n    from paper.common import size\n",
    "common": "def size():\n    from paper import far\n    return far\n",
    "far": "x = 1\n",
    "claims": "from paper import burst\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in SOURCES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def version(folder):
    file = folder / "burst.py"
    functions = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), functions)
    campaign = Campaign("burst", "", functions["runs"], functions["measure"])
    return versions.code_version(campaign, folder)


def version_after(folder, name, text):
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return version(folder)


@pytest.mark.parametrize("name", ["burst", "common", "far"])
def test_what_a_campaign_leads_to_counts(folder, name):
    first = version(folder)
    assert version_after(folder, name, SOURCES[name] + "y = 2\n") != first


def test_what_leads_to_a_campaign_does_not(folder):
    first = version(folder)
    assert version_after(folder, "claims", "from paper import burst\nnote = 'why'\n") == first


def test_comments_docstrings_and_layout_do_not(folder):
    first = version_after(folder, "far", '"""What."""\nx = (1, 2)\n')
    assert version_after(folder, "far", '"""Why."""\nx = (\n    1,\n    2,  # two\n)\n') == first
    assert version_after(folder, "far", '"""What."""\nx = ("1", 2)\n') != first


def test_the_core_counts(folder, tmp_path, monkeypatch):
    first = version(folder)
    for name in versions.CORE:
        (tmp_path / "package" / name).mkdir(parents=True)
    monkeypatch.setattr(versions, "_PACKAGE", tmp_path / "package")
    second = version(folder)
    (tmp_path / "package" / "routing" / "spr.py").write_text("x = 1\n", encoding="utf-8")
    third = version(folder)
    (tmp_path / "package" / "routing" / "spr.py").write_text("x = 12\n", encoding="utf-8")
    assert len({first, second, third, version(folder)}) == 4


OTHER = {
    "market.py": "from reefcast_lab.experiments.other.stocks import x\n",
    "stocks.py": "x = 1\n",
    "parameters.toml": "a = 1\n",
    "claims.py": "note = 1\n",
    "claims.toml": "note = 1\n",
}


def test_what_is_taken_from_another_paper_counts_with_its_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "SHARED", tmp_path)
    paper, other = tmp_path / "paper", tmp_path / "other"
    for place in (paper, other):
        place.mkdir()
    own = SOURCES["burst"] + "    from reefcast_lab.experiments.other import market\n"
    (paper / "burst.py").write_text(own, encoding="utf-8")
    for name, text in OTHER.items():
        (other / name).write_text(text, encoding="utf-8")
    first, changed = version(paper), {}
    for name, text in OTHER.items():
        (other / name).write_text(f"{text}more = 2\n", encoding="utf-8")
        changed[name] = version(paper) != first
        (other / name).write_text(text, encoding="utf-8")
    assert changed == {name: not name.startswith("claims") for name in OTHER}


def test_the_placement_of_storages_counts_where_it_is_imported() -> None:
    found = versions._reached({Path(trees.__file__)}, FILE.parent)
    reached = {path.stem for path in found if path.parent.name == "placement"}
    assert reached == {"baselines", "greedy", "inputs", "optimum", "steps"}
    elsewhere = versions._reached({Path(light.__file__)}, Path(light.__file__).parent)
    assert not any(path.parent.name in ("placement", "history") for path in elsewhere)


def test_gossip_in_rounds_and_correlations_count_where_they_are_imported() -> None:
    found = versions._reached({Path(alignment.__file__)}, Path(alignment.__file__).parent)
    reached = {path.stem for path in found if path.parent.name == "rounds"}
    assert reached >= {"kernels", "overlays", "twin"}
    found = versions._reached({Path(interests.__file__)}, Path(interests.__file__).parent)
    assert [path.stem for path in found if path.parent.name == "workloads"] == ["correlation"]
    elsewhere = versions._reached({Path(light.__file__)}, Path(light.__file__).parent)
    assert not any(path.parent.name == "rounds" for path in elsewhere)


def test_relation_graphs_count_where_they_are_a_cost() -> None:
    found = versions._reached({Path(processing.__file__)}, Path(processing.__file__).parent)
    assert [path.name for path in found if path.parent.name == "cover"] == ["relation_graphs.py"]
    elsewhere = versions._reached({Path(light.__file__)}, Path(light.__file__).parent)
    assert not any(path.parent.name == "cover" for path in elsewhere)


def test_history_counts_where_it_is_simulated() -> None:
    """These are the modules of it that the simulator imports, and the service that it gives to
    brokers."""
    found = versions._reached({Path(trees.__file__)}, FILE.parent)
    reached = {path.stem for path in found if path.parent.name == "history"}
    simulation = Path(kernel.__file__).parent.rglob("*.py")
    texts = "".join(path.read_text(encoding="utf-8") for path in simulation)
    imported = set(re.findall(r"^from reefcast\.history\.(\w+) import", texts, re.M))
    assert imported <= reached
    assert "table" in reached
    assert all(path.exists() for path in found)
