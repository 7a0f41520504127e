"""The compiled event loop does what the kernel does, to the last digit."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from reefcast.errors import LocalError
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.octopia import burst, passage, settling
from reefcast_lab.experiments.octopia.parameters import Wires, link, section

ENTRIES = {
    "publishers": 8,
    "subscribers": 60,
    "selectivity": 0.25,
    "publications": 12,
    "burst": 900,
    "before_s": 2.0,
    "point": 20,
    "smooth": 1,
}


@pytest.mark.parametrize(
    ("routing", "variant", "shared"),
    [
        ("spr", "", ""),
        ("idr", "double", ""),
        ("idr", "", "link"),
        ("tid-s", "", ""),
        ("tid-d", "double", ""),
        ("tid-d", "", "link"),
    ],
)
def test_a_burst_is_the_same_in_the_kernel(
    routing: str, variant: str, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = section("burst", "small").with_values(**ENTRIES)
    wired = Wires(link=link("", 385.0), sender="link") if shared else None
    monkeypatch.setattr(passage, "DRAWN", 64)  # so that links draw again
    monkeypatch.setattr(passage, "MANY", 16)  # and room is made
    monkeypatch.setattr(passage, "FEW", 4)
    run = Run("octopia", "small", "burst", routing, 100_000.0, variant, 1)
    monkeypatch.setattr(settling, "apart", lambda work: work())
    monkeypatch.setattr(settling, "_last", {})
    with patch.object(passage, "pass_on", wraps=passage.pass_on) as passed:
        compiled = burst.measured(run, entries, wired)
    assert passed.call_count == 1
    monkeypatch.setattr(passage, "ROUTINGS", frozenset())
    monkeypatch.setattr(settling, "_last", {})
    simulated = burst.measured(run, entries, wired)
    assert compiled == simulated
    figures = {measure.metric: measure.value for measure in compiled}
    assert figures["longest_i_link_queue_own"] > 10  # of the burst
    if routing == "idr":
        assert figures["idr_decisions"] > 0 < figures["idr_case_1_share"]


def test_the_loop_refuses_a_network_that_was_used() -> None:
    entries = section("burst", "small").with_values(**ENTRIES)
    run = Run("octopia", "small", "burst", "spr", 100_000.0, "", 1)
    settled = settling.settle(run, burst.population(entries))
    kernel = settled.kernel
    assert passage.suits(kernel)
    scheduled = list(burst.schedule(settled.crowd, run, entries, settled.at_s))
    passage.pass_on(kernel, scheduled[:5])
    with pytest.raises(LocalError, match="no publication has passed"):
        passage.pass_on(kernel, scheduled[5:])
