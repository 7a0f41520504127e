"""Anchors: as how near a subscriber a broker sees a subscription.

The anchor of a subscription at a broker `A` is the broker on the primary path from `A` to the
subscriber's that is Delta hops away, or the subscriber's own where that is nearer; for a
subscriber at `A` it is `A`. So it is always in the MOM of `A` and tells how a publication will
travel within Delta hops. It is moved along while the subscription spreads over primary links, by
what the sender's MOM says, and by nothing else: two subscriptions that leave for one neighbour with
the same anchor have the same anchor everywhere beyond it. Therefore one of them may stand for the
other there (covering); with different anchors it may not, as a copy sent straight to the one anchor
never sees the fork to the other.

Source: section 4 of the paper. Departures: its sentence on how anchors move says "one hop closer to
the subscriber", which would leave the MOM of the receiver; its example (X5 becomes N4 on the way
from N1 to A, Delta = 4) moves one hop away from the subscriber, and so do we. The propagation path
`ppath` is not needed to place anchors nor to forward by them.
"""

from __future__ import annotations

from reefcast.errors import InternalError
from reefcast.routing.mesh.maps import Neighbourhood


def towards(mom: Neighbourhood, anchor: str, neighbour: str, delta: int) -> str:
    """Return the anchor with which a subscription that has `anchor` at `mom.me` is sent to its
    primary `neighbour`: the same, unless that is more than `delta` hops away from there; then the
    next one towards it.

    Raises `InternalError` for an anchor in the branch of `neighbour`: the subscription came from
    there.
    """
    if anchor == mom.me:
        return anchor
    if mom.branch(anchor) == neighbour:
        raise InternalError(
            f"{mom.me!r} must not send a subscription with anchor {anchor!r} back to {neighbour!r}"
        )
    return anchor if mom.distance(anchor) < delta else mom.closer[anchor]
