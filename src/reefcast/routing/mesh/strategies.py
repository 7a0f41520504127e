"""The forwarding strategies: to which neighbours copies of a publication go.

- **S0**: along the primary tree. It is what S1 and S2 do alike on a WOM without soft links.
- **S1**: per branch one copy, to the farthest neighbour on the intersection of the primary paths to
  the anchors. Fewest copies from here.
- **S2**: a copy to each anchor, unless there is a nearer one on its path. Fewest copies altogether.
- **SH**: S1 while this broker's uplink is loaded beyond a threshold, else S2.

Theory of operation
-------------------
Let `A` send a copy to `N`. By the rules above everything beyond `N` is taken from what `A` has left
to do; and `N` serves all but the branch of its first primary hop towards `A`, that is exactly what
is beyond `N` as seen from `A`. So the subscribers are shared out among the copies without gap or
overlap, whatever links and strategy each broker has, and whenever they change: the next broker
decides by its own tables only. An anchor is beyond `N` if and only if its subscribers are, as `N`
is within Delta hops, and substitution keeps it beyond `N`.

Dropping only the anchors *on* the path back (line 2 of Figs 5 and 6 may be read so) is wrong: those
that fork off it are served by others, and copies would run in loops.

Source: sections 2 and 5 of the paper, Figs 5 and 6. In Fig. 5 the decrement of `j` stands inside
the `if`; it belongs behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

from reefcast.errors import InternalError
from reefcast.routing.mesh.maps import Wom

StrategyName = Literal["S0", "S1", "S2", "SH"]

SH_THRESHOLD = 0.8
REMEMBERED: Final = 4096


def goes_direct(strategy: StrategyName, load: float, threshold: float = SH_THRESHOLD) -> bool:
    """Return whether a broker uses S2 now, and not S1. `load`: its output rate as a share of the
    capacity of its uplink; it matters to SH only. With S0 both do the same."""
    return strategy == "S2" or (strategy == "SH" and load <= threshold)


def s1(wom: Wom, anchors: int) -> int:
    """Return the copies of Fig. 5 behind its line 2: from and to bit vectors of `wom`. O(anchors +
    length of paths)."""
    between, beyond, behind = wom.between, wom.beyond, wom.behind
    shared, left = 0, anchors
    while left:
        i = (left & -left).bit_length() - 1
        left &= left - 1
        if shared & between[i]:
            shared &= between[i] | behind[i]
        else:
            shared |= between[i]
    forward, left = 0, anchors
    while left:
        j = shared.bit_length() - 1
        shared ^= 1 << j
        if left & beyond[j]:
            forward |= 1 << j
            left &= ~beyond[j]
    return forward


def s2(wom: Wom, anchors: int) -> int:
    """Return the copies of Fig. 6 behind its line 2: from and to bit vectors of `wom`.
    O(copies)."""
    forward, beyond = 0, wom.beyond
    while anchors:
        nearest = anchors & -anchors
        forward |= nearest
        anchors &= ~beyond[nearest.bit_length() - 1]
    return forward


class Paths:
    """Path computation on one WOM; a new WOM wants a new one.

    `direct`: S2, else S1; SH sets it whenever it likes (see `goes_direct`). Results are remembered
    by what is left of the anchors, up to `REMEMBERED` for each of the two.
    """

    def __init__(self, wom: Wom, direct: bool) -> None:
        self.wom = wom
        self.direct = direct
        self._bits = {wom.mom.me: 0} | {broker: 1 << i for broker, i in wom.place.items()}
        self._s1: dict[int, tuple[str, ...]] = {}
        self._s2: dict[int, tuple[str, ...]] = {}

    def sends(self, anchors: Iterable[str], came_from: str | None) -> tuple[str, ...]:
        """Return the neighbours that get a copy, nearest first.

        `anchors`: those of the subscriptions that match, as in the MST or as in the WST, in any
        order, also more than once; `me`, the anchor of local ones, counts for nothing.
        `came_from`: the broker that sent the publication last, None if it was published here.
        Raises `InternalError` for a broker outside the MOM: the tables do not fit together.
        """
        left, bits, wom = 0, self._bits, self.wom
        try:
            for anchor in anchors:
                left |= bits[anchor]
            if came_from is not None:
                left &= wom.behind[wom.place[came_from]]
        except KeyError as error:
            raise InternalError(
                f"{wom.mom.me!r} has no broker {error.args[0]!r} within Delta primary hops, so it "
                "cannot be an anchor nor the sender of a publication here"
            ) from None
        known = (self._s2 if self.direct else self._s1).get(left)
        return self._computed(left) if known is None else known

    def _computed(self, left: int) -> tuple[str, ...]:
        memory, strategy = self._strategy()
        if len(memory) >= REMEMBERED:
            memory.clear()
        memory[left] = found = self.wom.names(strategy(self.wom, left))
        return found

    def _strategy(self) -> tuple[dict[int, tuple[str, ...]], Callable[[Wom, int], int]]:
        return (self._s2, s2) if self.direct else (self._s1, s1)
