"""What OctopiA's evidence computes: matching times, where queues were, costs halved and doubled."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments.evidence_tables import NONE, Case, Found
from reefcast_lab.experiments.numerals import short
from reefcast_lab.experiments.octopia.burst import VARIANTS
from reefcast_lab.experiments.octopia.grid import ALL
from reefcast_lab.experiments.octopia.parameters import section


def _unsets(found: Found) -> str:
    """Say how many CIV_UNSETs OctopiA sends: O3 and O5 count only the messages that the paper
    counts."""
    if not found.xs("publishers"):
        return ""
    unsets = found.cell("publishers", "civ_unset_messages", _largest(found, "publishers", "spr"))
    return f", and {unsets} CIV_UNSETs an advertisement while nobody subscribed"


def _largest(found: Found, campaign: str, routing: str) -> Case:
    return Case(found.xs(campaign)[-1], routing)


def matching(found: Found) -> str:
    """Return a table with a line for each number of subscribers."""
    titles = (
        *("subscribers", "OctopiA (µs)", "PADRES (µs)", "its brokers that only forward (%)"),
        *("PADRES, the others (µs)", "OctopiA over PADRES, each seed (%)"),
    )
    shown = (
        ("matching_delay_s", "spr", 1e6),
        ("matching_delay_s", "tid-s", 1e6),
        ("forward_only_share", "tid-s", 100),
        ("matching_delay_matched_s", "tid-s", 1e6),
    )
    return markdown(
        titles,
        [
            [
                short(x),
                *(
                    found.cell("delivery", metric, Case(x, of), times)
                    for metric, of, times in shown
                ),
                _effects(found, x),
            ]
            for x in reversed(found.xs("delivery"))
        ],
    )


def _effects(found: Found, x: float) -> str:
    """Return the matching delay of SPR over that of TID-S in percent, for each seed that both
    have."""
    of, against = (
        found.seeds("delivery", "matching_delay_s", Case(x, routing))
        for routing in ("spr", "tid-s")
    )
    shared = sorted(of.keys() & against.keys())
    return ", ".join(f"{100 * (of[s] / against[s] - 1):+.0f}" for s in shared) or NONE


def queues(found: Found) -> str:
    """Return a table with a line for each routing, at the highest rate of the burst."""
    columns = {
        "aLinks of the burst's broker": "longest_a_link_queue_own",
        "its iLinks": "longest_i_link_queue_own",
        "other aLinks": "longest_a_link_queue_other",
        "other iLinks": "longest_i_link_queue_other",
    }
    rate, burst = section("preset").send_rate, section("burst", found.scale).burst
    rows = []
    for routing in ALL:
        case = _largest(found, "burst", routing)
        busiest = found.point("burst", "busiest_sender_per_s", case)
        drained = NONE if busiest is None else short(burst / (rate - busiest.mean))
        row = [routing, found.cell("burst", "busiest_sender_per_s", case), drained]
        rows.append(row + [found.cell("burst", metric, case) for metric in columns.values()])
    titles = ("routing", "busiest broker before (1/s)", "sends the burst in (s)", *columns)
    return markdown(titles, rows)


COSTS = ("half", "", "double")


def _halved_at(found: Found) -> float:
    """Return the rate of the burst for which all costs were also halved and doubled."""
    return (found.xs("burst", VARIANTS[0]) or found.xs("burst"))[-1]


def _seeds_of_costs(found: Found, routing: str) -> tuple[set[int], list[Any]]:
    """Return the seeds that a routing has with all costs, and the values of each seed by costs."""
    x = _halved_at(found)
    by_costs = [found.seeds("burst", "stable_s", Case(x, routing, costs)) for costs in COSTS]
    return set.intersection(*map(set, by_costs)), by_costs


def costs(found: Found) -> str:
    """Compare pairs of runs: the halved and doubled preset has fewer seeds than the preset."""
    rows = []
    for routing in ALL:
        shared, by_costs = _seeds_of_costs(found, routing)
        means = (short(fmean(of[s] for s in shared)) if shared else NONE for of in by_costs)
        rows.append([routing, *means])
    return markdown(["routing", "half", "preset", "double"], rows)


def _shared_seeds(found: Found) -> str:
    used = sorted(set[int]().union(*(_seeds_of_costs(found, routing)[0] for routing in ALL)))
    if not used:
        return "seeds (there are none yet)"
    return f"seed{'s' if len(used) > 1 else ''} {', '.join(map(str, used))}"


def _burst(found: Found) -> Any:
    return section("burst", found.scale)


COMPUTED: dict[str, Callable[[Found], str]] = {
    "most_subscribers": lambda found: short(found.xs("subscribers")[-1]),
    "civ_sets": lambda found: found.cell(
        "subscribers", "civ_set_messages", _largest(found, "subscribers", "spr")
    ),
    "civ_unsets": _unsets,
    "matching": matching,
    "point": lambda found: short(_burst(found).point),
    "smooth": lambda found: f"{_burst(found).smooth}",
    "tolerance": lambda found: f"{100 * _burst(found).tolerance:.0f}",
    "send_rate": lambda found: short(section("preset").send_rate),
    "burst": lambda found: short(_burst(found).burst),
    "fastest": lambda found: short(found.xs("burst")[-1]),
    "queues": queues,
    "halved_at": lambda found: short(_halved_at(found)),
    "shared_seeds": _shared_seeds,
    "costs": costs,
}
"""What texts of the page name."""
