"""Workflows of the covering paper: generated processes, and processes from real event logs."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.matching.cover import new_roots
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.covering.event_logs import Case, Step, log_script, read_log, usual
from reefcast_lab.experiments.covering.topology import workflow_topology
from reefcast_lab.experiments.covering.workflow import (
    KINDS,
    ROUNDS,
    Flow,
    Kind,
    Reach,
    completions,
    flow,
    processes,
    triggers,
    workflow_script,
)
from reefcast_lab.experiments.script import Claim, Script

TOPOLOGY = workflow_topology()
PLAYED = 8
"""So many cases of a public log are played: half a minute of processor time for 30."""
FEW = (Kind(4, 3, Reach.ENGINE), Kind(3, 10, Reach.DOMAIN), Kind(2, 26, Reach.ANYWHERE))

# --- control flow ---------------------------------------------------------------------------------


@given(st.integers(1, 26), st.integers(0, 10_000))
def test_every_activity_runs_after_one_of_those_that_it_waits_for(size: int, seed: int) -> None:
    rng = random.Random(seed)
    control = flow(range(size), rng)
    done = sorted(control.run(5.0, 1.0, rng))
    assert {activity for _, activity in done} == set(range(size))
    assert all(when > 5.0 for when, _ in done)
    before: dict[int, set[int]] = defaultdict(set)
    for later, earlier in control.after:
        before[later].add(earlier)
    seen: set[int] = set()
    for _, activity in done:
        assert activity in control.first or before[activity] & seen
        seen.add(activity)
    assert set(control.first) | set(before) == set(range(size))


def kinds_of(block: Flow) -> Counter[str]:
    return sum((kinds_of(part) for part in block.parts), Counter([block.kind]))


def test_flows_hold_sequences_parallel_blocks_and_loops_that_end() -> None:
    kinds: Counter[str] = Counter()
    rounds = set()
    for seed in range(50):
        rng = random.Random(seed)
        control = flow(range(26), rng)
        kinds += kinds_of(control)
        runs = Counter(activity for _, activity in control.run(0.0, 1.0, rng))
        rounds |= set(runs.values())
    assert kinds["activity"] == 50 * 26
    assert 0.2 < kinds["parallel"] / (50 * 25) < 0.4
    assert 0.1 < kinds["loop"] / (50 * 25) < 0.2
    assert {1, 2, ROUNDS} <= rounds


def test_the_papers_processes_are_deployed_as_far_as_they_reach() -> None:
    made = processes(TOPOLOGY, KINDS, seed=1)
    assert [len(process.engines) for process in made] == [3] * 80 + [10] * 80 + [26] * 40
    domain_of = {broker: region[0] for region in TOPOLOGY.regions for broker in region}
    domains = [len({domain_of[broker] for broker in process.engines}) for process in made]
    assert all(len(set(process.engines)) == 1 for process in made[:80])
    assert set(domains[:160]) == {1} and set(domains[160:]) == {4}
    assert len({broker for process in made for broker in process.engines}) == 24
    assert len({process.name for process in made}) == 200


# --- scripts --------------------------------------------------------------------------------------


def small_script(**changed: float) -> Script:
    times = {"duration_s": 1300.0, "deploy_s": 10.0, "period_s": 300.0, "activity_s": 2.0}
    return workflow_script(TOPOLOGY, kinds=FEW, seed=1, **{**times, **changed})


def by_client(script: Script, prefix: str) -> list[Claim]:
    return [claim for claim in script.claims if claim.client.startswith(prefix)]


def test_samplers_want_all_triggers_one_minute_in_ten_and_not_at_once() -> None:
    samples = by_client(small_script(), "sampler-")
    assert Counter(claim.client for claim in samples) == {f"sampler-{i}": 2 for i in range(4)}
    assert all(claim.filter == triggers() for claim in samples)
    assert {claim.until_s - claim.from_s for claim in samples} == {60.0}
    times = sorted(claim.from_s for claim in samples)
    assert {b - a for a, b in pairwise(times)} == {150.0}


def test_three_in_ten_processes_are_monitored() -> None:
    script = workflow_script(
        TOPOLOGY,
        kinds=KINDS,
        seed=1,
        duration_s=100.0,
        deploy_s=90.0,
        period_s=1e9,
        activity_s=1.0,
    )
    monitors = by_client(script, "monitor-")
    assert len({claim.filter for claim in monitors}) == len(monitors) == 60
    assert all(claim.until_s == math.inf for claim in monitors)
    assert max(claim.from_s for claim in monitors) < 90.0


def roots_after(script: Script, gone: Claim) -> set[str]:
    """Return the filters that become roots when `gone` is withdrawn, of those that stand then."""
    roots = new_roots()
    standing = [
        claim
        for claim in script.claims
        if not claim.advertises and claim.from_s <= gone.until_s - 1.0 < claim.until_s
    ]
    for key, claim in enumerate(standing):
        roots.add(key, parse_filter(claim.filter))
    key = standing.index(gone)
    return {standing[new].filter for new in roots.remove(key).entered}


def test_a_samplers_leaving_uncovers_the_triggers_of_every_process() -> None:
    script = small_script()
    gone = by_client(script, "sampler-")[0]
    assert roots_after(script, gone) == {
        triggers(process.name) for process in processes(TOPOLOGY, FEW, seed=1)
    }


def test_a_monitor_covers_what_the_engines_of_its_process_wait_for() -> None:
    script = small_script()
    covered = 0
    for monitor in by_client(script, "monitor-"):
        wide = parse_filter(monitor.filter)
        narrow = [c for c in by_client(script, "engine-") if c.until_s < math.inf]
        mine = [c for c in narrow if c.filter.startswith(monitor.filter)]
        assert all(covers(wide, parse_filter(claim.filter)) for claim in mine)
        covered += len(mine)
        others = [claim for claim in narrow[:200] if claim not in mine]
        assert not any(covers(wide, parse_filter(claim.filter)) for claim in others)
    assert covered > 10


def played(script: Script) -> Simulation:
    """Run a script; check that no publication is refused, all claims settle, and what was waited
    for came."""
    simulation = Simulation(Setup(graph=TOPOLOGY.graph))
    handles = script.load(simulation, 0.0)
    result = simulation.run()
    assert result.quiet and not result.refused and len(result.published) == len(script.events)
    assert all(claim.settled_s < math.inf for claim in result.claims)
    assert len(handles) == len(script.claims)
    assert result.delivered_subscriptions == wanted(script)
    return simulation


def wanted(script: Script) -> int:
    """Return how often a publication matches a subscription that stands; a tenth of a second is
    enough for either to get everywhere."""
    filters = {claim.filter: parse_filter(claim.filter) for claim in script.claims}
    claims = [claim for claim in script.claims if not claim.advertises]
    return sum(
        claim.from_s + 0.1 < event.at_s < claim.until_s - 0.1
        and filters[claim.filter].holds(event.attributes)
        for event in script.events
        for claim in claims
    )


def test_engines_get_what_they_wait_for() -> None:
    script = small_script(duration_s=150.0, period_s=100.0)
    played(script)
    filters = {claim.filter: parse_filter(claim.filter) for claim in script.claims}
    for event in script.events:
        if event.client != "client":
            advertised = [c for c in by_client(script, event.client) if c.advertises]
            assert any(filters[c.filter].holds(event.attributes) for c in advertised)
    waiting = [c for c in by_client(script, "engine-") if c.until_s < math.inf]
    assert waiting
    for claim in waiting:
        came = [e for e in script.events if filters[claim.filter].holds(e.attributes)]
        assert came and all(claim.from_s < e.at_s < claim.until_s for e in came)


def test_one_seed_gives_one_script() -> None:
    assert small_script() == small_script()


# --- event logs -----------------------------------------------------------------------------------

HEADER = "case:concept:name,concept:name,lifecycle:transition,time:timestamp,org:resource,amount"
ROWS = """\
7,Check,COMPLETE,2011-10-01T00:10:00+02:00,ann,100
8,Check,COMPLETE,2011-10-01T00:05:00+02:00,bob,900
7,Register,START,2011-10-01T00:00:00.500+02:00,ann,100
8,Pay,COMPLETE,2011-10-01T01:05:00+02:00,,900
7,Check,COMPLETE,2011-10-01T00:20:00+02:00,bob,100
"""


def log_file(folder: Path, rows: str = ROWS, header: str = HEADER) -> Path:
    path = folder / "log.csv"
    path.write_text(f"{header}\n{rows}", encoding="utf-8")
    return path


def test_reads_cases_in_the_order_of_time(tmp_path: Path) -> None:
    first, second = read_log(log_file(tmp_path), "org:resource")
    assert [step.activity for step in first.steps] == [
        "Register START",
        "Check COMPLETE",
        "Check COMPLETE",
    ]
    assert [step.at_s for step in first.steps] == [0.0, 599.5, 1199.5]
    assert [step.performer for step in second.steps] == ["bob", ""]
    assert first.process == "org:resource ann" and second.process == "org:resource bob"
    assert first.steps[0].attributes == {"org:resource": "ann", "amount": "100"}
    assert second.steps[1].attributes == {"amount": "900"}
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(log_file(tmp_path).read_bytes()))
    assert read_log(packed, "org:resource") == [first, second]


def test_a_column_of_numbers_makes_ten_bands_of_about_equally_many_cases(tmp_path: Path) -> None:
    rows = "".join(f"{i},A,COMPLETE,2011-10-01T00:00:00+02:00,x,{i}\n" for i in range(200))
    cases = read_log(log_file(tmp_path, rows), "amount")
    assert set(Counter(case.process for case in cases).values()) == {20}
    assert cases[0].process == "amount below 20" and cases[199].process == "amount from 180"
    same = "".join(f"{i},A,COMPLETE,2011-10-01T00:00:00+02:00,x,7\n" for i in range(20))
    assert {c.process for c in read_log(log_file(tmp_path, same), "amount")} == {"amount from 7"}


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, HEADER.replace("time:timestamp", "when"), "has no column time:timestamp"),
        (ROWS, HEADER.replace("amount", "sum"), "has no column amount"),
        ("", HEADER, "has no rows"),
        ("7,Check,COMPLETE,yesterday,ann,100\n", HEADER, "cannot be read: .*yesterday"),
    ],
)
def test_refuses_what_is_no_event_log(tmp_path: Path, rows: str, header: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_log(log_file(tmp_path, rows, header), "amount")


def test_refuses_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.csv cannot be read"):
        read_log(tmp_path / "absent.csv", "amount")
    plain = log_file(tmp_path).rename(tmp_path / "plain.csv.gz")
    with pytest.raises(ConfigurationError, match=r"plain\.csv\.gz cannot be read"):
        read_log(plain, "amount")


def checked_log_script(cases: list[Case]) -> Script:
    """Return the script of a log, checked: each step but the first of a case is waited for by the
    engine that performs it."""
    script = log_script(
        cases, TOPOLOGY, duration_s=500.0, deploy_s=20.0, settle_s=1.0, longest_s=40.0, seed=3
    )
    steps = sum(len(case.steps) for case in cases)
    assert len(script.events) == steps + len(cases)
    assert all(20.0 <= event.at_s <= 499.0 + 1e-6 for event in script.events)
    processes = {case.process for case in cases}
    monitors = by_client(script, "monitor-")
    assert len(monitors) == round(0.3 * len(processes))
    assert {claim.filter for claim in monitors} <= {completions(p) for p in processes}
    played(script)
    return script


def test_a_log_plays_and_its_engines_get_what_they_wait_for(tmp_path: Path) -> None:
    cases = read_log(log_file(tmp_path), "org:resource")
    script = checked_log_script(cases)
    narrow = [c for c in by_client(script, "engine-") if c.until_s < math.inf]
    assert len(narrow) == 2 + 1
    for claim in narrow:
        filter = parse_filter(claim.filter)
        came = [event for event in script.events if filter.holds(event.attributes)]
        assert came and all(claim.from_s + 0.5 < event.at_s < claim.until_s for event in came)


def case(*times: float) -> Case:
    return Case("loan", tuple(Step(at_s, f"step {i}", "ann", {}) for i, at_s in enumerate(times)))


def test_the_usual_cases_are_all_but_the_longest() -> None:
    lengths = [3.0, 50.0, 1.0, 7.0, 2.0, 9.0, 4.0, 8.0, 6.0, 5.0]
    cases = [case(i, i + length) for i, length in enumerate(lengths)]
    assert usual(cases, 0.9) == [one for one in cases if one is not cases[1]]
    assert [one.steps[1].at_s - one.steps[0].at_s for one in usual(cases, 0.3)] == [3.0, 1.0, 2.0]
    assert usual(cases[:1], 0.1) == cases[:1]


def test_starts_and_lengths_of_cases_have_paces_of_their_own() -> None:
    """Starts from 0 to 9000 s are scaled into the 500 s except 20 for deployment, 1 before and
    after a case, and 40 for the longest case; lengths up to 100 000 s are scaled into 40."""
    script = log_script(
        [case(0, 100_000), case(4500, 54_500), case(9000, 9000)],
        TOPOLOGY,
        duration_s=500.0,
        deploy_s=20.0,
        settle_s=1.0,
        longest_s=40.0,
        seed=3,
    )
    starts = [event.at_s for event in script.events if event.client == "client"]
    span_s = 500 - 20 - 2 - 40
    assert starts == pytest.approx([20, 20 + span_s / 2, 20 + span_s])
    done = [event.at_s for event in script.events if event.client != "client"]
    later = [start + 1 for start in starts]
    assert done == pytest.approx(
        [later[0], later[0] + 40, later[1], later[1] + 20, later[2], later[2]]
    )


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "process", "cases", "steps", "processes"),
    [
        ("bpic2012", "case:AMOUNT_REQ", 13_087, 262_200, 10),
        ("bpic2013_incidents", "product", 7_554, 65_533, 704),
    ],
)
def test_logs_of_the_bpi_challenges_play(
    data: Path, name: str, process: str, cases: int, steps: int, processes: int
) -> None:
    read = read_log(data / "workflow" / f"{name}.csv.gz", process)
    assert len(read) == cases and sum(len(case.steps) for case in read) == steps
    assert len({case.process for case in read}) == processes
    checked_log_script(read[:PLAYED])
