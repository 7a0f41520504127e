"""A burst as O12 and O13 measure it, at the paper's highest rate, for each sender and routing.

x is what a sender sends in a second; a campaign for each kind of sharing.
"""

from __future__ import annotations

from reefcast.overlay.scot import Scot
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia import burst
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.octopia.parameters import Wires, link
from reefcast_lab.experiments.octopia.parameters import section as octopia_section
from reefcast_lab.experiments.sharing.parameters import PAPER, section

LINK, BROKER, MACHINE = "link", "broker", "machine"
ROUTINGS = ("spr", "idr", "tid-s")


def link_runs(scale: str) -> list[Run]:
    return _runs(LINK, scale)


def broker_runs(scale: str) -> list[Run]:
    return _runs(BROKER, scale)


def machine_runs(scale: str) -> list[Run]:
    return _runs(MACHINE, scale)


def _runs(campaign: str, scale: str) -> list[Run]:
    rates = getattr(section("senders", scale), campaign)
    return runs_of(PAPER, campaign, scale, ROUTINGS, rates, section("bursts", scale).seeds)


def link_measure(run: Run) -> list[Measure]:
    return _measure(run, Wires(link=link("", run.x), sender="link"))


def broker_measure(run: Run) -> list[Measure]:
    return _measure(run, Wires(link=link("", run.x), sender="broker"))


def machine_measure(run: Run) -> list[Measure]:
    machines = machines_of(evaluation_overlay(), section("senders").brokers_of_a_machine)
    return _measure(run, Wires(link=link("", run.x), sender="machine", machines=machines))


def _measure(run: Run, wired: Wires) -> list[Measure]:
    entries = section("bursts", run.scale)
    one = octopia_section(burst.NAME, run.scale).with_values(publications=entries.publications)
    return burst.measured(run._replace(x=entries.rate), one, wired)


def machines_of(overlay: Scot, brokers: int) -> dict[str, str]:
    """Return the machine of each broker, so many on each, in the order of the overlay."""
    return {broker: f"machine-{i // brokers}" for i, broker in enumerate(overlay.graph)}


CAMPAIGNS = (
    Campaign(LINK, "publications/s of each link", link_runs, link_measure),
    Campaign(BROKER, "publications/s of a broker's links", broker_runs, broker_measure),
    Campaign(MACHINE, "publications/s of a machine's links", machine_runs, machine_measure),
)
