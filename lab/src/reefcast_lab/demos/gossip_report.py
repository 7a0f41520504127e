"""The demonstration of gossip in words and tables, and its page."""

from __future__ import annotations

import os

from reefcast.pipeline import units
from reefcast.pipeline.page import Card, render_page
from reefcast_lab.demos import gossip_plots
from reefcast_lab.demos.gossip_figures import Figures
from reefcast_lab.demos.gossip_live import Run
from reefcast_lab.demos.gossip_script import Cast

COLUMNS = ("all have joined", "aligned", "the end")


def table(found: Figures) -> list[tuple[str, list[str]]]:
    """Return a row for each figure: its name, and its value at each of `COLUMNS`."""
    moments = (found.settled, found.aligned, found.ended)
    live = (found.peers, found.peers, found.peers - found.killed)
    return [
        ("peers that live", [str(number) for number in live]),
        ("connections between them", [units.count(each.connections) for each in moments]),
        ("the same, by the operating system", [units.count(each.sockets) for each in moments]),
        ("if each topic had its own", [units.count(each.unshared) for each in moments]),
        ("if the views were random", [units.count(each.unaligned) for each in moments]),
        ("neighbours of a peer, at most", [str(each.most) for each in moments]),
        ("topics in one piece", [f"{each.connected} of {each.topics}" for each in moments]),
    ]


def conclusions(found: Figures) -> list[str]:
    """Return what the run shows, and does not show, in plain sentences."""
    return [_sharing(found), *_kill(found), _delivered(found)]


def _sharing(found: Figures) -> str:
    settled, aligned = found.settled, found.aligned
    saved, spared = (
        units.percent(1 - aligned.connections / max(many, 1))
        for many in (aligned.unaligned, aligned.unshared)
    )
    return (
        f"Aligned, {units.count(aligned.connections)} connections carry "
        f"{units.count(aligned.unshared)} links of topics: {spared} fewer than if each topic had "
        f"its own, and {saved} fewer than the {units.count(aligned.unaligned)} that views of the "
        "same sizes would need, drawn at random. When all had joined, there were "
        f"{units.count(settled.connections)} connections, at most {units.count(found.peak)}: those "
        "who are there align while others join."
    )


def _kill(found: Figures) -> list[str]:
    if not found.killed:
        return []
    many = f"{found.killed} peers were killed, with their connections and all that they had to send"
    before, after = (f"{100 * x:.2f} %" for x in (found.prompt_before, found.prompt_after))
    when = f"{before} of all deliveries came within a second before the kill, {after} after it"
    return [f"{many}. {when}. {_recovery(found)}"]


def _recovery(found: Figures) -> str:
    if found.recovery_s is None:
        return "To the end, some event did not come to all who live within a second."
    if not found.recovery_s:
        return "Nobody who lives noticed it."
    return (
        f"The last event that did not come to all who live within a second was published "
        f"{found.recovery_s:.1f} s after it."
    )


def _delivered(found: Figures) -> str:
    ended = found.ended
    pieces = f"{ended.connected} of {ended.topics} topics are in one piece."
    if found.passed:
        whole = "" if ended.connected == ended.topics else f" Only {pieces}"
        return f"In the end, all {units.count(found.due)} deliveries came, each once.{whole}"
    return (
        f"Of {units.count(found.due)} deliveries {units.count(found.missing)} never came; "
        f"{found.twice} came twice, {found.unexpected} to a peer that wanted none of the topics. "
        f"{pieces}"
    )


# --- the page -------------------------------------------------------------------------------------


def render(run: Run, cast: Cast, found: Figures) -> str:
    """Return the page's HTML."""
    return render_page(
        "gossip.html.j2",
        package="reefcast_lab.demos",
        title="Peers that gossip",
        kind="live",
        cards=cards(found),
        facts=facts(cast, found),
        plan=cast.plan,
        sentences=conclusions(found),
        columns=COLUMNS,
        rows=table(found),
        connections=gossip_plots.connections(run, cast, found),
        delivery=gossip_plots.delivery(run, cast),
    )


def cards(found: Figures) -> list[Card]:
    """Return the headline figures."""
    settled, aligned = found.settled, found.aligned
    recovery = "–" if found.recovery_s is None else f"{found.recovery_s:.1f} s"
    return [
        Card(
            "all delivered" if found.passed else "failed",
            f"{units.count(found.due)} deliveries were due",
            f"{found.missing} lost, {found.twice} twice, {found.unexpected} unexpected",
            "good" if found.passed else "bad",
        ),
        Card(
            f"{units.count(aligned.unaligned)} → {units.count(aligned.connections)}",
            "connections between peers",
            f"views at random → aligned; {units.count(settled.connections)} when all had joined, "
            f"{units.count(aligned.unshared)} if each topic had its own",
        ),
        Card(
            recovery,
            "until every event came within a second",
            f"to all who live; {found.killed} peers were killed at once",
        ),
    ]


def facts(cast: Cast, found: Figures) -> list[tuple[str, str]]:
    """Return how the run was made."""
    plan = cast.plan
    sizes = sorted(len(members) for members in cast.members.values())
    return [
        ("peers", f"{plan.peers} in {plan.processes} processes, each with a client of its own"),
        (
            "topics",
            f"{plan.topics}, with {sizes[0]} to {sizes[-1]} peers; a peer wants "
            f"{plan.interests} on average, the nearest to its place on a square",
        ),
        ("until all had joined", f"{found.joining_s:.1f} s"),
        ("a round", f"{plan.round_s:g} s; {plan.rounds} before the kill, and after it"),
        (
            "publishing",
            f"{plan.rate_per_s:g} events a second, a quarter of them on two topics; "
            f"{units.count(found.published)} in all",
        ),
        (
            "delay",
            f"50 % within {units.duration(found.p50_us)}, 99 % within "
            f"{units.duration(found.p99_us)}, longest {units.duration(found.longest_us)}",
        ),
        ("machine", f"{os.cpu_count()} cores; one clock"),
        ("seed", str(plan.seed)),
    ]
