"""DT-FB: who writes to whom in a social network, read from a trace or made like one.

Every user is a client, at a broker drawn so that all have about as many. It subscribes to the posts
of those with whom it interacts, in either direction, in one subscription; the publications are the
interactions in the order of the trace, at an even rate. The paper leaves its method to a technical
report that we do not have.

A trace is a CSV (gzipped or not) without a header: sender, receiver, time in hours.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.mesh.feeds import instants
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.script import Claim, Event, Script, quoted

SOCIAL_VARIABLE = "REEFCAST_SOCIAL"
YEAR_H = 8760.0


class Interaction(NamedTuple):
    """Somebody writes to somebody else."""

    sender: str
    receiver: str
    at_h: float


Trace = Sequence[Interaction]


@dataclass(frozen=True)
class SocialStatistics:
    """What traces and generator have in common; logarithms are natural.

    `pairs`: of users who interact, in either direction. `partners_sd`: standard deviation of ln of
    a user's number of partners; `activity_sd`: of ln of the number of interactions that a user
    sends, among those who send any; `correlation`: of these two logarithms.
    """

    users: int
    pairs: int
    interactions: int
    partners_sd: float
    activity_sd: float
    correlation: float


def social_file() -> str:
    """Return the trace that the environment names; "" for the generator."""
    return os.environ.get(SOCIAL_VARIABLE, "")


def social_statistics(scale: str = "paper") -> SocialStatistics:
    """Return the statistics of the generator."""
    entries = section("social", scale)
    return SocialStatistics(**{f.name: getattr(entries, f.name) for f in fields(SocialStatistics)})


def social_trace(scale: str, seed: int) -> list[Interaction]:
    """Return the trace that the environment names, else a generated one."""
    file = social_file()
    return read_trace(Path(file)) if file else generate_trace(social_statistics(scale), seed)


def read_trace(path: Path) -> list[Interaction]:
    """Read a trace in the order of time, without users who write to themselves. Raises
    `ConfigurationError` for a file that cannot be read, has other columns, or has no users."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            rows = [Interaction(a, b, float(at_h)) for a, b, at_h in csv.reader(file)]
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise ConfigurationError(
            f"social trace {path} cannot be read ({error}); a row is sender, receiver, hours"
        ) from error
    trace = sorted((row for row in rows if row.sender != row.receiver), key=lambda row: row.at_h)
    if not trace:
        raise ConfigurationError(f"social trace {path} has no interaction of two users")
    return trace


def partners_of(trace: Trace) -> dict[str, list[str]]:
    """Return, by user, in the order in which they appear, with whom they interact, in either
    direction."""
    found: dict[str, dict[str, None]] = {}
    for a, b, _ in trace:
        found.setdefault(a, {})[b] = None
        found.setdefault(b, {})[a] = None
    return {user: list(others) for user, others in found.items()}


def statistics_of(trace: Trace) -> SocialStatistics:
    """Compute the statistics of a trace in which users differ in both partners and activity."""
    partners, sent = partners_of(trace), Counter(each.sender for each in trace)
    degrees = np.log([len(others) for others in partners.values()])
    activity = np.log(list(sent.values()))
    correlation = np.corrcoef(activity, np.log([len(partners[user]) for user in sent]))
    return SocialStatistics(
        users=len(partners),
        pairs=sum(map(len, partners.values())) // 2,
        interactions=len(trace),
        partners_sd=float(degrees.std()),
        activity_sd=float(activity.std()),
        correlation=float(correlation[0, 1]),
    )


def generate_trace(like: SocialStatistics, seed: int) -> list[Interaction]:
    """Make a trace: users' numbers of partners are lognormal, and so is their activity; who are
    partners is left to chance, and a user who writes picks any of the partners. Some never
    write."""
    rng = random.Random(f"{seed}/mesh/social")
    partners = _partners(like, rng)
    own_sd = like.activity_sd * math.sqrt(1 - like.correlation**2)
    power = like.correlation * like.activity_sd / like.partners_sd
    activity = [len(o) ** power * math.exp(rng.gauss(0, own_sd)) for o in partners.values()]
    senders = rng.choices(list(partners), activity, k=like.interactions)
    times = sorted(YEAR_H * rng.random() for _ in senders)
    return [
        Interaction(user, rng.choice(partners[user]), at_h)
        for user, at_h in zip(senders, times, strict=True)
    ]


def _partners(like: SocialStatistics, rng: random.Random) -> dict[str, list[str]]:
    """Draw the partners of each user. Every user has as many stubs as it should have partners, at
    least one; stubs are paired at random, and useless pairs (the same two users again, or a user
    with itself) are dropped."""
    users = [str(number) for number in range(1, like.users + 1)]
    middle = math.log(2 * like.pairs / like.users) - like.partners_sd**2 / 2
    wanted = [max(round(math.exp(rng.gauss(middle, like.partners_sd))), 1) for _ in users]
    hands = [user for user, number in zip(users, wanted, strict=True) for _ in range(number)]
    rng.shuffle(hands)
    found: dict[str, dict[str, None]] = {}
    for a, b in zip(hands[::2], hands[1::2], strict=False):
        if a != b:
            found.setdefault(a, {})[b] = None
            found.setdefault(b, {})[a] = None
    return {user: list(others) for user, others in found.items()}


def social_script(
    trace: Trace,
    brokers: Sequence[str],
    per_minute: float,
    *,
    subscribe_s: float,
    from_s: float,
    duration_s: float,
    seed: int,
) -> Script:
    """Make the script: users subscribe within `subscribe_s`; publications come from `from_s` on. A
    trace that is too short starts again."""
    rng = random.Random(f"{seed}/mesh/social/script")
    partners = partners_of(trace)
    home = _homes(list(partners), brokers, rng)
    gap_s = subscribe_s / len(partners)
    claims = [
        Claim(_client(user), home[user], _posts_of(others), i * gap_s)
        for i, (user, others) in enumerate(partners.items())
    ]
    times = instants(per_minute, from_s, duration_s, rng)
    return Script(claims, list(_events(trace, home, times)))


def _homes(users: list[str], brokers: Sequence[str], rng: random.Random) -> dict[str, str]:
    rng.shuffle(users)
    return {user: brokers[i % len(brokers)] for i, user in enumerate(users)}


def _client(user: str) -> str:
    return f"u{user}"


def _posts_of(authors: Sequence[str]) -> str:
    return f"author IN ({', '.join(quoted(author) for author in sorted(authors))})"


def _events(trace: Trace, home: dict[str, str], times: Sequence[float]) -> Iterator[Event]:
    title = "x" * section("social").title_bytes
    for i, at_s in enumerate(times):
        sender, receiver, _ = trace[i % len(trace)]
        attributes = {"author": sender, "wall": receiver, "title": title}
        yield Event(_client(sender), home[sender], dict(attributes), at_s)
