"""The comparison of senders, tiny: each campaign has its own, and a burst loses nothing."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.octopia import burst
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.octopia.parameters import section as octopia_section
from reefcast_lab.experiments.octopia.parameters import wires
from reefcast_lab.experiments.sharing import bursts
from reefcast_lab.experiments.sharing.bursts import machines_of
from reefcast_lab.experiments.sharing.claims import PAPER
from reefcast_lab.experiments.sharing.parameters import section

TINY = {
    "publishers": 10,
    "subscribers": 60,
    "selectivity": 0.2,
    "burst": 300,
    "before_s": 2.0,
    "point": 20,
    "smooth": 1,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(section("bursts", "small")._values, "publications", 10)
    for key, value in TINY.items():
        monkeypatch.setitem(octopia_section("burst", "small")._values, key, value)


def test_each_kind_of_sharing_makes_the_burst_another_one() -> None:
    found = {}
    for campaign in PAPER.campaigns:
        run = Run("sharing", "small", campaign.name, "spr", 500.0, "", 1)
        figures = {m.metric: m.value for m in campaign.measure(run) if m.at == 0.0}
        assert figures["undelivered"] == 0
        assert {claim.measure for claim in PAPER.claims} <= figures.keys()
        found[campaign.name] = figures
    assert len({figures["messages"] for figures in found.values()}) == 1
    link, broker, machine = (found[name]["worst_delay_s"] for name in ("link", "broker", "machine"))
    assert link < broker < machine


def test_a_broker_s_rate_is_that_of_octopia_s_page() -> None:
    most = max(run.x for run in bursts.broker_runs("paper"))
    assert most == octopia_section("preset").send_rate
    asked = []

    def measured(run: Run, entries: object, wired: object) -> list[object]:
        asked.append(wired)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(burst, "measured", measured)
        bursts.broker_measure(Run("sharing", "small", "broker", "spr", most, "", 0))
    assert asked == [wires("")]


def test_a_machine_has_eight_brokers() -> None:
    machines = machines_of(evaluation_overlay(), 8)
    assert len(machines) == 56
    assert {list(machines.values()).count(name) for name in machines.values()} == {8}
