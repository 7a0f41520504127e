"""The best placement there is, for small instances: a mixed-integer program, solved by HiGHS.

Minimise the hops of all requests, with
- y[s] in {0, 1}: there is a storage at s; sum over s of y = M;
- x[t, s] in {0, 1}: it keeps topic t; sum over s of x[t, s] = k, sum over t of x[t, s] <= CL y[s],
  x[t, s] <= y[s];
- u[t, i, h] >= 0: 1 if no storage that keeps t is within h hops of i:
  u[t, i, h] + sum over s within h hops of i of x[t, s] >= 1.
The hops of a request at i for t are the sum over h of u[t, i, h], so that no variable says who
serves whom (the formulation of Cornuejols, Nemhauser and Wolsey, 1980, for the k-median problem).
Brokers that see the same brokers within h hops share a variable, with the sum of their rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import InternalError
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, mean_hops

_ROUNDING = 1e-6
LARGEST = 3000
"""Brokers x topics up to which the optimum is to be had in seconds, mostly."""


@dataclass(frozen=True)
class Optimum:
    """bound: no placement has fewer mean hops; with `proved`, this one has as few."""

    placement: Placement
    bound: float
    proved: bool


Terms = tuple[list[tuple[int, float]], float, float]
"""A row of the program: (variable, factor) each, and the least and the largest that it may be."""


def optimum(made: Inputs, time_limit_s: float, gap: float = 0.0) -> Optimum | None:
    """Search the best placement until no other can be better by a larger share than `gap`, or the
    time is up; None if none was found by then. Needs scipy (the extra `plan`)."""
    from scipy.optimize import Bounds, milp

    program = _Program(made)
    solved = milp(
        program.costs,
        integrality=program.integrality,
        bounds=Bounds(0, 1),
        constraints=program.constraints(),
        options={"time_limit": time_limit_s, "mip_rel_gap": gap},
    )
    if solved.x is None:
        if solved.status == 1:  # the time is up
            return None
        raise InternalError(f"the solver found no placement: {solved.message}")
    placement = program.placement(solved.x)
    bound = float(solved.mip_dual_bound) / float(made.rates.sum())
    proved = mean_hops(made, placement) <= bound * (1 + _ROUNDING) + _ROUNDING
    return Optimum(placement, bound, proved)


class _Program:
    """Variables by number: y, then x topic by topic, then u."""

    def __init__(self, made: Inputs) -> None:
        self.made = made
        self.topics, self.brokers = len(made.topics), len(made.graph)
        self.within = _within(made)
        self.whole = self.brokers * (1 + self.topics)
        shared = [made.rates[:, seen].sum(axis=1) for seen in self.within.values()]
        u_costs = np.array(shared, np.float64).T.ravel()
        self.costs = np.concatenate([np.zeros(self.whole), u_costs])
        self.integrality = np.zeros(len(self.costs))
        self.integrality[: self.whole] = 1

    def x(self, topic: int, broker: int) -> int:
        return self.brokers * (1 + topic) + broker

    def constraints(self) -> Any:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array

        rows, columns, factors = [], [], []
        least, most = [], []
        for number, (terms, low, high) in enumerate(self._rows()):
            for column, factor in terms:
                rows.append(number)
                columns.append(column)
                factors.append(factor)
            least.append(low)
            most.append(high)
        shape = len(least), len(self.costs)
        return LinearConstraint(csr_array((factors, (rows, columns)), shape=shape), least, most)

    def _rows(self) -> Iterator[Terms]:
        made = self.made
        yield _sum(range(self.brokers)), made.storages, made.storages
        for broker in range(self.brokers):
            kept = [self.x(topic, broker) for topic in range(self.topics)]
            yield [*_sum(kept), (broker, -made.capacity)], -np.inf, 0
            for one in kept:
                yield [(one, 1), (broker, -1)], -np.inf, 0
        for topic in range(self.topics):
            yield (
                _sum(self.x(topic, each) for each in range(self.brokers)),
                made.copies,
                made.copies,
            )
            yield from self._distances(topic)

    def _distances(self, topic: int) -> Iterator[Terms]:
        first = self.whole + topic * len(self.within)
        for number, near in enumerate(self.within, first):
            yield _sum([number, *(self.x(topic, broker) for broker in near)]), 1, np.inf

    def placement(self, values: NDArray[np.float64]) -> Placement:
        kept = values[self.brokers : self.whole].reshape(self.topics, self.brokers) > 0.5
        names = np.array(self.made.brokers)
        return {
            topic: tuple(names[of_topic].tolist())
            for topic, of_topic in zip(self.made.topics, kept, strict=True)
        }


def _sum(variables: Iterable[int]) -> list[tuple[int, float]]:
    return [(variable, 1.0) for variable in variables]


def _within(made: Inputs) -> dict[tuple[int, ...], list[int]]:
    """Return the sets of brokers within some hops of a broker, except the set of all brokers, and
    whose they are: a broker comes as often as it has the same set with other hops."""
    found: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for broker, hops in enumerate(made.hops):
        for far in range(hops.max()):
            found[tuple((hops <= far).nonzero()[0].tolist())].append(broker)
    return found
