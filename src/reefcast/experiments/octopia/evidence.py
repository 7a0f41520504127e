"""What stands under the table: what bursts did, where queues were, costs halved and doubled, and
the limits of IDR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reefcast.experiments.campaign import Point
from reefcast.experiments.octopia.burst import CASES, VARIANTS
from reefcast.experiments.octopia.grid import ALL
from reefcast.experiments.octopia.parameters import section


class Found:
    """Single figures of the runs: means over seeds."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._points = {
            (p.campaign, p.metric, p.routing, p.variant, p.x): p for p in points if p.at == 0.0
        }

    def xs(self, campaign: str, variant: str = "") -> list[float]:
        """Where the campaign has runs, largest first."""
        found = {key[4] for key in self._points if key[0] == campaign and key[3] == variant}
        return sorted(found, reverse=True)

    def cell(self, campaign: str, metric: str, routing: str, x: float, variant: str = "") -> str:
        """The mean and the half-width of its interval; "-" where nothing was measured."""
        point = self._points.get((campaign, metric, routing, variant, x))
        if point is None:
            return "-"
        return _number(point.mean) + (f" ± {_number(point.interval)}" if point.interval else "")


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def evidence(points: list[Point]) -> list[str]:
    """Paragraphs and tables for the page; those of what was not measured are left out."""
    found = Found(points)
    parts: tuple[tuple[str, Callable[[Found], list[str]]], ...] = (
        ("subscribers", _apart),
        ("burst", _bursts),
        ("burst", _queues),
        ("burst", _variants),
        ("burst", _limits),
    )
    return [text for campaign, part in parts if found.xs(campaign) for text in part(found)]


def _apart(found: Found) -> list[str]:
    """O3 and O5 count the messages that the paper counts; these are OctopiA's others."""
    x = found.xs("subscribers")[0]
    sets = found.cell("subscribers", "civ_set_messages", "spr", x)
    text = f"Counted apart: with {x:.0f} subscribers OctopiA sent {sets} CIV_SETs a subscription"
    publishers = found.xs("publishers")
    if publishers:
        unsets = found.cell("publishers", "civ_unset_messages", "spr", publishers[0])
        text += f", and {unsets} CIV_UNSETs an advertisement while nobody subscribed"
    return [f"{text}."]


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
        [f"{x:,.0f}".replace(",", " "), routing]
        + [found.cell("burst", metric, routing, x) for metric in columns.values()]
        for x in found.xs("burst")
        for routing in ALL
    ]
    return [
        "What the bursts did, from their start on (means over seeds; `of the runs`: the share that "
        "was stable before its end, a run that was not counts with its length; `kept back`: copies "
        "that TID-D's memory suppressed).",
        _table(["burst (1/minute)", "routing", *columns], rows),
    ]


def _queues(found: Found) -> list[str]:
    x = found.xs("burst")[0]
    columns = {
        "busiest link before (1/s)": "busiest_link_per_s",
        "aLinks of the burst's broker": "longest_a_link_queue_own",
        "its iLinks": "longest_i_link_queue_own",
        "other aLinks": "longest_a_link_queue_other",
        "other iLinks": "longest_i_link_queue_other",
    }
    rows = [
        [routing, *(found.cell("burst", metric, routing, x) for metric in columns.values())]
        for routing in ALL
    ]
    return [
        f"Where publications queued: what the busiest link carried before the burst (a link takes "
        f"{section('preset').link_rate:.0f} a second; what is left over drains the burst), and the "
        f"longest output queues, at {x:.0f} a minute. To PADRES, aLinks and iLinks are the same.",
        _table(["routing", *columns], rows),
    ]


def _variants(found: Found) -> list[str]:
    x = (found.xs("burst", VARIANTS[0]) or found.xs("burst"))[0]
    rows = [
        [routing, *(found.cell("burst", "stable_s", routing, x, v) for v in ("half", "", "double"))]
        for routing in ALL
    ]
    return [
        f"How much the preset of costs decides: stable after (s), {x:.0f} a minute, with all "
        "costs, latencies and transmission times halved, as they are, and doubled.",
        _table(["routing", "half", "preset", "double"], rows),
    ]


def _limits(found: Found) -> list[str]:
    columns = {
        "decisions": "idr_decisions",
        "case I": f"{CASES[0]}_share",
        "case II": f"{CASES[1]}_share",
        "case III": f"{CASES[2]}_share",
        "copies on overloaded aLinks": "idr_overloaded_a_link",
        "their wait (s)": "idr_overloaded_a_link_wait_s",
        "a free aLink outside the trees": "idr_no_tree_link",
        "wait taken instead (s)": "idr_no_tree_link_wait_s",
    }
    rows = [
        [
            f"{x:,.0f}".replace(",", " "),
            *(found.cell("burst", m, "idr", x) for m in columns.values()),
        ]
        for x in found.xs("burst")
    ]
    return [
        "The two limits that the paper states for IDR. It cannot leave an aLink: how many copies "
        "dynamic decisions put on overloaded ones, and how long the queue that each met takes to "
        "drain. And it can search only along subscription trees: how many decisions had to take an "
        "overloaded iLink although another aLink was free.",
        _table(["burst (1/minute)", *columns], rows),
    ]
