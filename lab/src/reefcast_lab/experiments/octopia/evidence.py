"""What stands under the table: matching times, what bursts did, where queues were, costs halved and
doubled, and the limits of IDR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from reefcast_lab.bench.matching.page import markdown
from reefcast_lab.experiments.campaign import Measured
from reefcast_lab.experiments.numerals import short
from reefcast_lab.experiments.octopia.burst import CASES, VARIANTS
from reefcast_lab.experiments.octopia.grid import ALL
from reefcast_lab.experiments.octopia.parameters import section

NONE = "-"
"""Where nothing was measured."""


class Found:
    """Single figures: means over seeds, and of each seed."""

    def __init__(self, measured: Measured) -> None:
        self.scale = measured.scale
        self._points = {
            (p.campaign, p.metric, p.routing, p.variant, p.x): p
            for p in measured.points
            if p.at == 0.0
        }
        self._seeds: dict[tuple[object, ...], dict[int, float]] = {}
        for v in measured.values:
            place = (v.campaign, v.metric, v.routing, v.variant, v.x)
            self._seeds.setdefault(place, {})[v.seed] = v.value

    def xs(self, campaign: str, variant: str = "") -> list[float]:
        """Where the campaign has runs, largest first."""
        found = {key[4] for key in self._points if key[0] == campaign and key[3] == variant}
        return sorted(found, reverse=True)

    def cell(self, campaign: str, metric: str, routing: str, x: float, times: float = 1.0) -> str:
        """The mean and the half-width of its interval, of the preset."""
        point = self._points.get((campaign, metric, routing, "", x))
        if point is None:
            return NONE
        mean = short(point.mean * times)
        return f"{mean} ± {short(point.interval * times)}" if point.interval else mean

    def mean(self, campaign: str, metric: str, routing: str, x: float) -> float | None:
        """Of the preset; None where nothing was measured."""
        point = self._points.get((campaign, metric, routing, "", x))
        return None if point is None else point.mean

    def seeds(
        self, campaign: str, metric: str, routing: str, x: float, variant: str = ""
    ) -> Mapping[int, float]:
        """The value of each seed."""
        return self._seeds.get((campaign, metric, routing, variant, x), {})


def evidence(measured: Measured) -> list[str]:
    """Paragraphs and tables for the page; those of what was not measured are left out."""
    found = Found(measured)
    parts: tuple[tuple[str, Callable[[Found], list[str]]], ...] = (
        ("subscribers", _apart),
        ("delivery", _matching),
        ("burst", _bursts),
        ("burst", _queues),
        ("burst", _variants),
        ("burst", _a_links),
        ("burst", _trees),
    )
    return [text for campaign, part in parts if found.xs(campaign) for text in part(found)]


def _apart(found: Found) -> list[str]:
    """O3 and O5 count the messages that the paper counts; these are OctopiA's others."""
    x = found.xs("subscribers")[0]
    sets = found.cell("subscribers", "civ_set_messages", "spr", x)
    text = f"Counted apart: with {short(x)} subscribers OctopiA sent {sets} CIV_SETs a subscription"
    publishers = found.xs("publishers")
    if publishers:
        unsets = found.cell("publishers", "civ_unset_messages", "spr", publishers[0])
        text += f", and {unsets} CIV_UNSETs an advertisement while nobody subscribed"
    return [f"{text}."]


def _matching(found: Found) -> list[str]:
    def cell(metric: str, routing: str, x: float, times: float = 1e6) -> str:
        return found.cell("delivery", metric, routing, x, times)

    titles = (
        *("subscribers", "OctopiA (µs)", "PADRES (µs)", "its brokers that only forward (%)"),
        *("PADRES, the others (µs)", "OctopiA over PADRES, each seed (%)"),
    )
    rows = [
        [
            short(x),
            cell("matching_delay_s", "spr", x),
            cell("matching_delay_s", "tid-s", x),
            cell("forward_only_share", "tid-s", x, 100),
            cell("matching_delay_matched_s", "tid-s", x),
            _effects(found, x),
        ]
        for x in found.xs("delivery")
    ]
    return [
        "O9, time in the matching engine for a publication at a broker of its path. A broker of "
        "PADRES that only forwards counts as 0; how far the seeds lie apart is the noise of the "
        "clock.",
        markdown(titles, rows),
    ]


def _effects(found: Found, x: float) -> str:
    """The matching delay of SPR over that of TID-S in percent, of each seed that both have."""
    of, against = (
        found.seeds("delivery", "matching_delay_s", routing, x) for routing in ("spr", "tid-s")
    )
    shared = sorted(of.keys() & against.keys())
    return ", ".join(f"{100 * (of[s] / against[s] - 1):+.0f}" for s in shared) or NONE


def _bursts(found: Found) -> list[str]:
    columns = {
        "stable after (s)": "stable_s",
        "of the runs": "stable",
        "mean delay (s)": "mean_delay_s",
        "under 1 s": "under_1_s",
        "worst (s)": "worst_delay_s",
        "messages": "messages",
        "kept back": "suppressed_copies",
        "queue of target links": "queue_len",
    }
    rows = [
        [short(x), routing]
        + [found.cell("burst", metric, routing, x) for metric in columns.values()]
        for x in found.xs("burst")
        for routing in ALL
    ]
    return [
        _stable(found.scale),
        "What the bursts did, from their start on (means over seeds; `of the runs`: the share that "
        "was stable before its end, a run that was not counts with its length, which is a lower "
        "bound; `kept back`: copies that TID-D's memory suppressed).",
        markdown(["burst (1/minute)", "routing", *columns], rows, "rl" + "r" * len(columns)),
    ]


def _stable(scale: str) -> str:
    entries = section("burst", scale)
    return (
        f"`Stable`: a point is the largest delay of {short(entries.point)} consecutive deliveries, "
        "the level the median of the points before the burst. A run is stable from when on the "
        f"running median of {entries.smooth} points stays within {100 * entries.tolerance:.0f} % "
        "of the level; once publishers come to their end, points below the level count as near. "
        "The spec's literal rule, every single point near the level, is never met: at the paper's "
        "scale single points vary by 13 % (standard deviation) without any burst."
    )


def _queues(found: Found) -> list[str]:
    x = found.xs("burst")[0]
    rate, burst = section("preset").link_rate, section("burst", found.scale).burst
    columns = {
        "aLinks of the burst's broker": "longest_a_link_queue_own",
        "its iLinks": "longest_i_link_queue_own",
        "other aLinks": "longest_a_link_queue_other",
        "other iLinks": "longest_i_link_queue_other",
    }
    rows = []
    for routing in ALL:
        busiest = found.mean("burst", "busiest_link_per_s", routing, x)
        drained = NONE if busiest is None else short(burst / (rate - busiest))
        row = [routing, found.cell("burst", "busiest_link_per_s", routing, x), drained]
        rows.append(row + [found.cell("burst", m, routing, x) for m in columns.values()])
    titles = ("routing", "busiest link before (1/s)", "drains the burst in (s)", *columns)
    return [
        "Where publications queued: what the busiest link carried before the burst, in which time "
        f"the rest of its rate (a link takes {rate:.0f} a second) would carry the {short(burst)} "
        f"publications of the burst, and the longest output queues, at {short(x)} a minute. To "
        "PADRES, aLinks and iLinks are the same.",
        markdown(titles, rows),
    ]


def _variants(found: Found) -> list[str]:
    """Pairs of runs: the halved and doubled preset has fewer seeds than the preset."""
    x = (found.xs("burst", VARIANTS[0]) or found.xs("burst"))[0]
    rows, used = [], set[int]()
    for routing in ALL:
        by_variant = [
            found.seeds("burst", "stable_s", routing, x, v) for v in ("half", "", "double")
        ]
        shared = set.intersection(*map(set, by_variant))
        used |= shared
        means = [fmean(of[s] for s in shared) if shared else None for of in by_variant]
        rows.append([routing, *(NONE if mean is None else short(mean) for mean in means)])
    which = f"seed{'s' if len(used) > 1 else ''} {', '.join(map(str, sorted(used)))}"
    return [
        f"How much the preset of costs decides: stable after (s), {short(x)} a minute, with all "
        "costs, latencies and transmission times halved, as they are, and doubled; of the same "
        f"{which if used else 'seeds (there are none yet)'} in all three columns.",
        markdown(["routing", "half", "preset", "double"], rows),
    ]


# --- the limits of IDR ----------------------------------------------------------------------------


def _a_links(found: Found) -> list[str]:
    columns = {
        "copies behind more than tau": ("a_link_crowded", 1),
        "of all on aLinks (%)": ("a_link_crowded_share", 100),
        "their wait (s)": ("a_link_crowded_wait_s", 1),
        "put there by decisions between clusters": ("idr_overloaded_a_link", 1),
        "the wait of these (s)": ("idr_overloaded_a_link_wait_s", 1),
    }
    return [
        "The first limit that the paper states for IDR: inside a cluster there is no dynamic "
        "routing. How many copies went onto an aLink behind more than tau others, from the burst "
        "on, and how long the queue that each met takes to drain; and which of them went there "
        "when a broker decided between clusters, so that another way was looked for.",
        _of_idr(found, columns),
    ]


def _trees(found: Found) -> list[str]:
    cases = {f"case {'I' * n} (%)": (f"{case}_share", 100) for n, case in enumerate(CASES, 1)}
    columns = {
        "decisions that met an overloaded iLink": ("idr_decisions", 1),
        **cases,
        "with a free aLink outside the trees": ("idr_no_tree_link", 1),
        "the wait they took instead (s)": ("idr_no_tree_link_wait_s", 1),
    }
    return [
        "The second: IDR can search only along subscription trees. How many decisions had to take "
        "an overloaded iLink (case III) although another aLink was free, and how long its queue "
        "takes to drain. (I: the copy on a free iLink takes the other clusters along; II: the copy "
        "on a free aLink.)",
        _of_idr(found, columns),
    ]


def _of_idr(found: Found, columns: Mapping[str, tuple[str, float]]) -> str:
    """A row for each rate of the burst; metric and factor by title."""
    rows = [
        [
            short(x),
            *(found.cell("burst", metric, "idr", x, times) for metric, times in columns.values()),
        ]
        for x in found.xs("burst")
    ]
    return markdown(["burst (1/minute)", *columns], rows, "r" * (1 + len(columns)))
