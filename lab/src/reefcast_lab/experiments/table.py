"""The rows *paper | ours | ratio | note*, and when one counts as reproduced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reefcast_lab.experiments import effects
from reefcast_lab.experiments.campaign import Claim, Point, Value, Where
from reefcast_lab.experiments.numerals import short

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEAR = 1 / 3
"""A figure is reproduced within this share of the paper's."""

SMALL = 0.05
"""For effects of the paper below this one, only the sign counts."""


@dataclass(frozen=True)
class Finding:
    """A claim and our figure for it (None: nothing was measured), with the half-width of its 95 %
    interval over seeds (None: of one seed). `unsettled`: of its two routings those with runs whose
    values are only lower bounds."""

    claim: Claim
    ours: float | None
    interval: float | None
    seeds: int
    unsettled: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's; None where a sign or "flat" is all that the paper says."""
        if self.ours is None or not self.claim.paper or self.claim.kind == "gap":
            return None
        return self.ours / self.claim.paper

    @property
    def reproduced(self) -> bool | None:
        """None where the paper gives no figure."""
        if self.claim.paper is None:
            return None
        if self.ours is None or self.claim.explained:
            return False
        if self.claim.kind == "flat":
            return abs(self.ours) <= NEAR
        if self.claim.paper == 0:
            return self.ours == 0
        by_sign = self.claim.kind == "gap" or (
            self.claim.kind == "effect" and abs(self.claim.paper) < SMALL
        )
        if by_sign:
            return self.ours * self.claim.paper > 0
        # The last digit of a quotient must not decide: a third off is within a third.
        return self.ratio is not None and abs(self.ratio - 1) <= NEAR + 1e-9

    @property
    def bound(self) -> tuple[str, str]:
        """What ours is if values are only lower bounds: a sign, and a sentence; else empty."""
        if not self.unsettled:
            return "", ""
        sign, words = "", "computed from lower bounds on both sides"
        if self.unsettled == (self.claim.of,):
            sign, words = "≥ ", "a lower bound"
        elif self.unsettled == (self.claim.against,):
            sign, words = "≤ ", "an upper bound"
        names = " and ".join(self.unsettled)
        return sign, f"{words}: some runs of {names} were not {self.claim.settled} before their end"

    @property
    def note(self) -> str:
        """The claim's note, and what ours is if it is a bound."""
        return "; ".join(text for text in (self.claim.note, self.bound[1]) if text)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "metric": self.claim.metric,
            "paper": self.claim.paper,
            "ours": self.ours,
            "ratio": self.ratio,
            "reproduced": self.reproduced,
            "note": self.note,
            "interval": self.interval,
            "explained": self.claim.explained,
        }


def rows(results: DataFrame, claims: Sequence[Claim]) -> list[Finding]:
    """Return a finding for each claim, in their order, with one Spark job."""
    settled = list(dict.fromkeys(part for claim in claims for part in _settled(claim)))
    asked = [
        *((c.kind, c.campaign, c.measure, c.of, c.against, c.where) for c in claims),
        *(("level", campaign, measure, of, "", where) for campaign, measure, of, where in settled),
    ]
    described = [(number, *one) for number, one in enumerate(asked)]
    table = results.sparkSession.createDataFrame(described, effects.CLAIMS)
    found = {row["claim"]: row for row in effects.figures(results, table).collect()}
    shares = {part: found.get(number) for number, part in enumerate(settled, len(claims))}
    unsettled = {part for part, share in shares.items() if share and share["ours"] < 1.0}
    return [_row(claim, found.get(number), unsettled) for number, claim in enumerate(claims)]


_Part = tuple[str, str, str, Where]
"""Campaign, measure, routing, and of which x."""


def _settled(claim: Claim) -> list[_Part]:
    """Return the measures that say whether the values from which this claim is computed are
    final."""
    routings = (claim.of, claim.against) if claim.settled else ()
    return [(claim.campaign, claim.settled, each, claim.where) for each in routings if each]


def _row(claim: Claim, figure: Any, unsettled: Collection[_Part]) -> Finding:
    if figure is None:
        return Finding(claim, None, None, 0)
    routings = tuple(part[2] for part in _settled(claim) if part in unsettled)
    return Finding(claim, figure["ours"], figure["interval"], figure["seeds"], routings)


def points(results: DataFrame) -> list[Point]:
    """Return all points, in order; as many as the plots need, however many seeds there were."""
    return [Point(*row) for row in effects.points(results).collect()]


def values(results: DataFrame) -> list[Value]:
    """Return the values of every single run, in order, without those on curves."""
    return [Value(*row) for row in effects.values(results).collect()]


# --- in words ------------------------------------------------------------------------------------

TIMES = 20.0
"""Effects of the paper from here on are told as "88 times more", not in percent."""


def paper_text(row: Finding) -> str:
    claim = row.claim
    if claim.paper is None:
        return ""
    if claim.kind == "flat":
        return "flat"
    if claim.kind == "gap":
        return "rising" if claim.paper > 0 else "falling"
    return _figure(claim, claim.paper)


def ours_text(row: Finding) -> str:
    if row.ours is None:
        return "not measured"
    text = row.bound[0] + _figure(row.claim, row.ours)
    return text if row.interval is None else f"{text} ± {_unsigned(row.claim, row.interval)}"


def ratio_text(row: Finding) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"


def state_text(row: Finding) -> str:
    """Return reproduced, explained, or no; empty where the paper gives no figure."""
    if row.reproduced is None:
        return ""
    if row.claim.explained:
        return "explained"
    return "reproduced" if row.reproduced else "no"


def _figure(claim: Claim, value: float) -> str:
    if claim.kind in ("level", "difference"):
        return short(value)
    if claim.kind == "wins":
        return f"{100 * value:.0f} %"
    if _in_times(claim):
        return f"{short(value)} times more"
    sign = "+" if value > 0 else ""
    return f"{sign}{short(100 * value)} {'points' if claim.kind == 'gap' else '%'}"


def _unsigned(claim: Claim, interval: float) -> str:
    percent = claim.kind not in ("level", "difference") and not _in_times(claim)
    return short(100 * interval if percent else interval)


def _in_times(claim: Claim) -> bool:
    return claim.kind == "effect" and (claim.paper or 0.0) >= TIMES
