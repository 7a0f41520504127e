"""Messages between the nodes of one topic's overlay. Every message is of one topic, and goes only
to nodes of that topic, or to its contacts."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeVar

import msgspec

from reefcast.model.messages import Control, PeerMessage, Subscribe
from reefcast.model.publication import PublicationId
from reefcast.routing.gossip.streams import NodeId

Number = Annotated[int, msgspec.Meta(ge=0)]
"""A number of 64 bits: the wire has no longer ones."""
MOST_STEPS = 64
"""The most steps of a walk."""
Steps = Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)]

M = TypeVar("M", bound="TopicMessage")


class TopicMessage(PeerMessage, frozen=True, kw_only=True):
    """The base class of all of them."""

    settles: ClassVar[bool] = False
    topic: str


class Walk(TopicMessage, frozen=True, kw_only=True, tag="walk"):
    """A random walk, on its way for `left` more steps. `path`: the nodes so far, the originator
    first; `views`: of each but the originator; `nonce`: its own number, from which nodes draw."""

    path: tuple[NodeId, ...]
    views: tuple[tuple[NodeId, ...], ...] = ()
    nonce: Number
    left: Steps


class Walked(TopicMessage, frozen=True, kw_only=True, tag="walked"):
    """The names that a walk collected, on their way back along its path; `at`: the receiver's place
    there."""

    path: tuple[NodeId, ...]
    views: tuple[tuple[NodeId, ...], ...]
    at: Steps


class Linked(TopicMessage, frozen=True, kw_only=True, tag="linked"):
    """The receiver is in the sender's view from now on, or (not `linked`) no longer."""

    linked: bool


class Join(TopicMessage, frozen=True, kw_only=True, tag="join"):
    """To a contact: the sender wants to be in the overlay; `again`: it was, but is cut off."""

    settles: ClassVar[bool] = True
    costs_like: ClassVar[type[Control]] = Subscribe
    again: bool = False


class Members(TopicMessage, frozen=True, kw_only=True, tag="members"):
    """Sent by one contact to another: these nodes have joined."""

    nodes: tuple[NodeId, ...]


class JoinWalk(TopicMessage, frozen=True, kw_only=True, tag="join-walk"):
    """Looks for a node that takes `joiner` into its view: in addition (`grows`), or in place of
    another."""

    settles: ClassVar[bool] = True
    joiner: NodeId
    grows: bool
    nonce: Number
    left: Steps


class Met(TopicMessage, frozen=True, kw_only=True, tag="met"):
    """To a joiner: the sender has it in its view; the joiner should take `node` into its own."""

    settles: ClassVar[bool] = True
    node: NodeId


class Adopt(TopicMessage, frozen=True, kw_only=True, tag="adopt"):
    """`orphan` is in nobody's view. A node that shares a neighbour with it may take it in that
    one's place."""

    orphan: NodeId
    view: tuple[NodeId, ...]
    nonce: Number
    left: Steps


class Left(TopicMessage, frozen=True, kw_only=True, tag="left"):
    """The sender is not in the overlay (any more); `instead`: a node that the receiver may take for
    it, "" for none."""

    instead: NodeId = ""


class Wave(TopicMessage, frozen=True, kw_only=True, tag="wave"):
    """Sent by a contact to all, along views (`forward`) or against them: a node that misses one is
    cut off. `life` and `number` distinguish the waves of a contact."""

    contact: NodeId
    life: Number
    number: Number
    forward: bool


class Digest(TopicMessage, frozen=True, kw_only=True, tag="digest"):
    """Publications of the topic that the sender has; `part`: it may have others, too. `asks`: the
    receiver should answer with a digest of the last so many rounds."""

    ids: tuple[PublicationId, ...]
    part: bool = False
    asks: Number = 0


class Missing(TopicMessage, frozen=True, kw_only=True, tag="missing"):
    """The sender wants these publications."""

    ids: tuple[PublicationId, ...]


MESSAGES = (
    Walk,
    Walked,
    Linked,
    Join,
    Members,
    JoinWalk,
    Met,
    Adopt,
    Left,
    Wave,
    Digest,
    Missing,
)


def of_stranger(message: TopicMessage) -> list[TopicMessage]:
    """Return the answers of a node that is not (or no longer) in the overlay of the message."""
    if isinstance(message, Left | Walked | Wave | Missing):
        return []
    if isinstance(message, Linked) and not message.linked:
        return []
    left: list[TopicMessage] = [Left(topic=message.topic)]
    if isinstance(message, JoinWalk) and message.left:
        # Its sender must find another way for it; not for ever, because it may have left as well.
        left.append(msgspec.structs.replace(message, left=message.left - 1))
    return left
