"""Protocol messages: what brokers and clients say to each other, and the inputs and effects of the
broker core.

Control messages change tables; every one that a broker or client wants to see *settled* carries a
`token`, a number that its sender chose for this link, greater than 0. The receiver answers
`Settled(token)` when everything that the message caused, here and further on, is done (see
`routing.settlement`), or `Refused(token, reason)`.

Ids of advertisements and subscriptions are `(owner, number)`: every `advertise` and `subscribe`
call gets a fresh one, never used again, not even for the same filter or a client that moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, ClassVar, Literal, Self

import msgspec

from reefcast.model.keeping import Change, EventNumber
from reefcast.model.publication import Publication, PublicationId
from reefcast.model.subjects import Subject

EntityId = tuple[str, int]
SESSION_MARK = "$"
"""How the name of a durable session's link begins, and no client's."""
ADVISOR_MARK = "$advisor:"
"""How the name of a broker begins as the publisher of advisory events."""
DEPUTY_MARK = "/"
"""What is in the owner of a deputy's name (`is_deputy`), and in no session's link."""
MOST_ATTEMPTS = 2**62
MOST_MORE = 65_535
"""Further publications that one answer confirms."""
MOST_HOPS = 2**31
"""That a header may say; what has gone further is no publication of ours."""

MOST_ORDER_S = 60.0

LinkName = str
"""A link of a broker is named by who is at its other end: a broker's name or a client's id."""


def is_durable(name: LinkName) -> bool:
    """Return whether a link, or the owner of a subscription, is a durable session: what is written
    to disks, and no neighbour's patience withdraws."""
    return name.startswith(SESSION_MARK)


def is_advisory(id: PublicationId) -> bool:
    """Return whether a publication with this id is an advisory event: its publisher is a broker. No
    client has such a name, and none publishes under another's."""
    return id[0].startswith(ADVISOR_MARK)


def is_deputy(name: LinkName) -> bool:
    """Return whether the owner of a subscription is a broker that entered it in the name of a
    neighbour that is away (`routing.away`)."""
    return is_durable(name) and DEPUTY_MARK in name


class LinkKind(IntEnum):
    """SOFT: a further link between brokers, which only publications cross (see `OpenLink`)."""

    BROKER = 0
    CLIENT = 1
    SOFT = 2


# --- control messages: on every link -------------------------------------------------------------


class Control(msgspec.Struct, array_like=True, frozen=True, tag_field="kind"):
    """The root of the messages that change tables."""


class Advertise(Control, frozen=True, tag="advertise"):
    """The owner will publish what matches `filter` (text of the filter language). `via`: the
    brokers that it came through, the publisher's first; routings that do not need it leave it
    empty."""

    id: EntityId
    filter: str
    token: int = 0
    via: tuple[LinkName, ...] = ()


class Unadvertise(Control, frozen=True, tag="unadvertise"):
    id: EntityId
    token: int = 0


class Subscribe(Control, frozen=True, tag="subscribe"):
    """The owner wants what matches `filter` (text of the filter language). `order_s`: for how long
    a client's broker may hold a publication back so that earlier ones of its publisher come before
    it (`routing.ordering`). Brokers keep the rows of durable sessions on disk (`is_durable`)."""

    id: EntityId
    filter: str
    token: int = 0
    order_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_ORDER_S)] = 0.0


class Unsubscribe(Control, frozen=True, tag="unsubscribe"):
    id: EntityId
    token: int = 0


class Settled(Control, frozen=True, tag="settled"):
    """All that the message with this token caused is done."""

    token: int


class Refused(Control, frozen=True, tag="refused"):
    """The message with this token, or the publication with this id, was not accepted."""

    token: int
    reason: str
    publication: tuple[str, int] | None = None


class Confirmed(Control, frozen=True, tag="confirmed"):
    """The answer to a publication with `confirm` (`routing.confirming`), from hop to hop and to the
    publisher's client: all durable sessions that it is for behind the sender have it on disk.

    `attempt`: what its `Publish.confirm` said. `kept`: some broker has it in custody for a
    neighbour that is away; another answer follows. `refused`: a sentence that says which session
    did not take it, "" if all did. `more`: so many of the publisher's next publications are
    answered alike (see `each`)."""

    publisher: str
    seq: int
    attempt: Annotated[int, msgspec.Meta(ge=1, le=MOST_ATTEMPTS)]
    kept: bool = False
    refused: str = ""
    more: Annotated[int, msgspec.Meta(ge=0, le=MOST_MORE)] = 0

    @property
    def id(self) -> PublicationId:
        return (self.publisher, self.seq)

    def each(self) -> Iterator[Confirmed]:
        """Yield an answer for each publication."""
        for seq in range(self.seq, self.seq + self.more + 1):
            yield Confirmed(self.publisher, seq, self.attempt, self.kept, self.refused)


class Synced(Control, frozen=True, tag="synced"):
    """After a restart: the sender has told all that it knows; what it did not confirm is stale."""


class Relearned(Control, frozen=True, tag="relearned"):
    """After a restart: the sender knows again what its neighbours told it, so that publications
    find their way from there (see `routing.holding`)."""


class PeerMessage(Control, frozen=True, kw_only=True):
    """The root of what only brokers of one routing say to each other; answered like a table change.

    A routing defines its own, beside its tables: a subclass with a `tag`, `kw_only=True`, and
    fields of plain types; `Router.messages` names them. `costs_like`: the message for whose price
    the simulator handles it. `settles`: whether its sender waits for an answer.
    """

    costs_like: ClassVar[type[Control]] = Settled
    settles: ClassVar[bool] = True
    token: int = 0

    @property
    def after_disk(self) -> bool:
        """Whether it leaves a broker only when all is on disk that was to be written before it."""
        return False

    @property
    def tells(self) -> tuple[EntityId, ...]:
        """The advertisements whose brokers it tells of a subscription; another subscription that
        needs the same (`SettlesTogether.needs`) settles when this is answered."""
        return ()

    @property
    def brings(self) -> EntityId | None:
        """The subscription that it brings by itself, as `Subscribe` does."""
        return None

    @property
    def says(self) -> tuple[EntityId, ...]:
        """The subscriptions that it brings; one that such a one stands for
        (`SettlesTogether.stand_ins`) settles when this is answered."""
        return ()


class Leaving(PeerMessage, frozen=True, kw_only=True, tag="leaving"):
    """The sender is about to stop: what is published from now on waits at the receiver until the
    sender is back. When it is answered, nothing more comes."""


class ServiceMessage(Control, frozen=True, kw_only=True):
    """The root of what a service of brokers (`routing.services`) says to its other parts, and to
    clients; a subclass has a `tag`. Nobody waits for it to settle. `after_disk`: it says that
    something is kept, so it goes when that is on the broker's disk, if it has one."""

    after_disk: ClassVar[bool] = False


TableChange = Advertise | Unadvertise | Subscribe | Unsubscribe
"""What clients may send; each is answered by `Settled` or `Refused`."""

SharedMessage = TableChange | Settled | Refused | Confirmed | Synced | Relearned | Leaving
"""What brokers of every routing say to each other."""

ControlMessage = SharedMessage | PeerMessage | ServiceMessage


# --- publications --------------------------------------------------------------------------------


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """The part of a publication that changes from hop to hop. A routing whose copies carry more
    defines a subclass, with defaults for its own fields, and names it in `Router.header`.

    `hops`: broker-to-broker links crossed so far.
    """

    hops: Annotated[int, msgspec.Meta(ge=0, le=MOST_HOPS)] = 0

    def packed(self) -> tuple[object, ...]:
        """Return the fields as they cross the wire, as values of msgpack; the last ones may be
        missing."""
        return msgspec.structs.astuple(self)

    @classmethod
    def unpacked(cls, fields: list[object]) -> Self:
        """Return the header with these fields, the inverse of `packed`. Raises
        `msgspec.ValidationError` for fields that fit no header."""
        return msgspec.convert(fields, cls)


FIRST_HOP = Header()


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A publication on its way. `body` is its encoding as it came in; empty in the simulator.

    `again`: this copy was sent before, to a broker or by a link that failed then, so that some may
    have the publication already. Clients drop what they have had.

    `confirm`: which attempt this is to have it confirmed (see `Confirmed`); 0: nobody asks. Answers
    of attempts are not mixed."""

    publication: Publication
    header: Header = FIRST_HOP
    body: bytes = b""
    again: bool = False
    confirm: int = 0


# --- inputs of the core that are no messages -----------------------------------------------------


class LinkUp(msgspec.Struct, frozen=True):
    """A link works, and its other end starts without memory of it (first contact, or a restart); a
    connection that merely came back is no input at all (the link layer resends).

    `kept`: the publications, in their order, that the other end did not acknowledge in its former
    life; those that it may have got then are marked `again`. `subject`: the user of a client, None
    for one that may do everything (`model.grants`); `inbox`: its address for replies."""

    kind: LinkKind
    kept: tuple[Publish, ...] = ()
    subject: Subject | None = None
    inbox: str = ""


class LinkDown(msgspec.Struct, frozen=True):
    """The other end is gone for good, or longer than the link's patience.

    `lost`: for a soft link that failed, the publications that the other end has not acknowledged;
    it may have got some of them all the same."""

    lost: tuple[Publish, ...] = ()


class Away(msgspec.Struct, frozen=True):
    """The connection of a client or a neighbour is gone; its rows stay, for it may come back."""


class Back(msgspec.Struct, frozen=True):
    """A neighbour that was `Away` is connected again, and has not lost its memory of the link: what
    was sent on it before is on its way."""


class GiveUp(msgspec.Struct, frozen=True, tag="give_up"):
    """An operator's wish about a neighbour that never comes back: what this broker owes it is
    routed again by the rows (`reroute`), or dropped."""

    neighbour: LinkName
    reroute: bool


class Regrant(msgspec.Struct, frozen=True):
    """The user of a client is another one from now on, or may do something else; with the roles
    that the broker was given (`Broker.take_roles`)."""

    subject: Subject | None


class Timer(msgspec.Struct, frozen=True):
    """A timer that the core set has come due."""

    key: str


class MoveLink(msgspec.Struct, frozen=True, tag="move_link"):
    """An operator's wish: this broker is to have its link to `new` in place of the one to `old`."""

    old: LinkName
    new: LinkName


class ManageSession(msgspec.Struct, frozen=True, tag="manage_session"):
    """An operator's wish about a durable session whose home this broker is: `what` is to be done
    with it, as `reefcast session` does."""

    owner: str
    session: str
    what: Literal["drain", "close", "move_dead_letters", "drop_dead_letters"]


Wish = MoveLink | GiveUp | ManageSession
"""What operators may wish of the core of a running broker."""


class Neighbours(msgspec.Struct, frozen=True):
    """The brokers to which this one has links in the overlay from now on, up or not: an operator
    added some, or took some out, which own nothing any more (`Broker.objection_to_leaving`).
    `gone`: all brokers that the operator took out, neighbours or not."""

    links: tuple[LinkName, ...]
    gone: tuple[LinkName, ...] = ()


class TakenOut(msgspec.Struct, frozen=True):
    """This broker itself was taken out of the network, and ends for good: another one of its name
    may come, with its disk, and is to have the links of the network file then."""


class Leave(msgspec.Struct, frozen=True):
    """This broker is about to stop: the neighbours at the other ends of `links` are to hold back
    what is for it. Said again with fewer of them: it no longer waits for the others."""

    links: tuple[LinkName, ...]


class Kept(msgspec.Struct, frozen=True):
    """All changes up to those of the `Keep` with this token are synced."""

    token: int


class Fetched(msgspec.Struct, frozen=True):
    """Bodies that the core asked for by `Fetch`: event -> body; and those that are not there, or
    damaged."""

    found: dict[EventNumber, bytes]
    missing: tuple[EventNumber, ...] = ()


Input = (
    ControlMessage
    | Publish
    | LinkUp
    | LinkDown
    | Away
    | Back
    | GiveUp
    | ManageSession
    | Timer
    | MoveLink
    | Leave
    | Kept
    | Fetched
    | Regrant
    | Neighbours
    | TakenOut
)


# --- effects -------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Put `message` on `link`, after all that was sent on it before."""

    link: LinkName
    message: ControlMessage | Publish


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand a publication to clients of this broker. `to`: client -> ascending numbers of its
    subscriptions that match: an event crosses a client's connection once, whatever their number.
    One effect stands for all of them: a burst has tens of millions of deliveries."""

    publish: Publish
    to: dict[LinkName, list[int]]

    @property
    def subscriptions(self) -> int:
        """How many subscriptions of all these clients match."""
        return sum(map(len, self.to.values()))


class SetTimer(msgspec.Struct, frozen=True):
    """Call the core with `Timer(key)` at `at_s` (same clock as `now`); the same key again moves
    the timer. `background`: it comes again and again, so nobody should wait for it."""

    key: str
    at_s: float
    background: bool = False


class OpenLink(msgspec.Struct, frozen=True):
    """Connect to broker `to` by a soft link: `LinkUp` when both ends have it, `LinkDown` if that
    cannot be."""

    to: LinkName


class CloseLink(msgspec.Struct, frozen=True):
    """Close a soft link, or refuse one that has just come up: after all that was sent on it before,
    the other end gets `LinkDown`, and closes its own direction in the same way if it did not yet;
    then this end gets `LinkDown`."""

    link: LinkName


class Promote(msgspec.Struct, frozen=True):
    """A soft link, which is up, belongs to the overlay from now on. The connection stays as it is.
    Each end says it; the first one counts."""

    link: LinkName


class Demote(msgspec.Struct, frozen=True):
    """A link of the overlay is a soft one from now on, as with `Promote`."""

    link: LinkName


class Discard(msgspec.Struct, frozen=True, gc=False):
    """A publication ends here; `reason` is one of `traces.vocabulary.DISCARD_REASONS`. `link`: the
    one that it was to go by, if it was lost on its way."""

    publish: Publish
    reason: str
    link: LinkName = ""


class Keep(msgspec.Struct, frozen=True, gc=False):
    """Write these changes, in their order and behind all earlier ones. `token`: above all before;
    the core waits for `Kept` of it, or of a later one (0: it does not)."""

    changes: tuple[Change, ...]
    token: int


class Fetch(msgspec.Struct, frozen=True, gc=False):
    """Read the bodies of these events; `Fetched` brings them."""

    events: tuple[EventNumber, ...]


class SessionNews(msgspec.Struct, frozen=True, gc=False):
    """Something happened to a durable session that its owner should hear of: `kind` as in
    `sessions.outcome.Told`, `count` times; `reason` may be empty."""

    kind: str
    owner: str
    session: str
    count: int = 1
    reason: str = ""


Effect = (
    Send
    | Deliver
    | SetTimer
    | OpenLink
    | CloseLink
    | Promote
    | Demote
    | Discard
    | Keep
    | Fetch
    | SessionNews
)
