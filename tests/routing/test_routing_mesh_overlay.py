"""One broker of a mesh: its strategy, its soft links, tunnels, loads.

    A - B - C - D
            |   |
            F   E - G

A is the broker under test, B its only primary neighbour, Delta is 4. Subscribers are at D, E, F.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from routing_harness import link_up

from reefcast.errors import LocalError, ProtocolError
from reefcast.model.messages import (
    Advertise,
    CloseLink,
    Deliver,
    Discard,
    Effect,
    Header,
    LinkDown,
    LinkKind,
    LinkUp,
    OpenLink,
    Publish,
    Relearned,
    Send,
    Settled,
    Subscribe,
    Synced,
    Timer,
)
from reefcast.model.publication import Publication
from reefcast.overlay.topology import names, path
from reefcast.routing.broker import ROUND_TIMER, Broker
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.gate import HOLD_S
from reefcast.routing.mesh.messages import Anchored, Loads, MeshHeader, Tunnel, Vicinity
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.overlay import BYTES_OF_COPY, BYTES_OF_LOAD, SHARE_OF_BYTES
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.neighbour_links import RELEARN_S
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

BEYOND_B = (("C", "B"), ("D", "C"), ("E", "D"), ("F", "C"))


def broker(options: MeshOptions | None = None, *, client: bool = True) -> Broker:
    """Return A, with its tables full and a publisher."""
    made = Broker("A", "mesh", neighbours=["B"], options=options or MeshOptions())
    link_up(made, "B", 0.0)
    made.handle(Vicinity(brokers=BEYOND_B, token=1), "B", 0.0)
    made.handle(Synced(), "B", 0.0)
    for number, anchor in enumerate("DEF"):
        message = Anchored(id=(f"s{anchor}", 1), filter="x > 0", anchor=anchor, token=2 + number)
        made.handle(message, "B", 0.0)
    if client:
        made.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
        made.handle(Advertise(("p", 1), "TRUE", 1), "p", 0.0)
        made.handle(Timer("hold:p"), "", 0.0)
    return made


def mesh(made: Broker) -> Mesh:
    assert isinstance(made.router, Mesh)
    return made.router


def soft(made: Broker, *links: str) -> None:
    for link in links:
        made.handle(LinkUp(LinkKind.SOFT), link, 0.0)


def publication(seq: int) -> Publish:
    return Publish(Publication("p", seq, 0, {"x": 1}))


def publish(made: Broker, seq: int, now: float = 0.0) -> list[str]:
    """Return the links on which A sends the publication."""
    return targets(made.handle(publication(seq), "p", now))


def targets(effects: Iterable[Effect]) -> list[str]:
    return [
        effect.link
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Publish)
    ]


# --- anchors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", ["Z", "A"])
def test_a_neighbour_takes_the_place_of_an_anchor_that_is_not_behind_it(anchor: str) -> None:
    made = broker(MeshOptions(strategy="S2"))
    soft(made, "D")
    message = Anchored(id=("z", 1), filter="x < 0", anchor=anchor, token=9)
    made.handle(message, "B", 0.0)
    row = mesh(made).prt.get(("z", 1))
    assert row is not None and row.next_hop == "B"
    effects = made.handle(Publish(Publication("p", 1, 0, {"x": -1}), Header()), "p", 0.0)
    assert targets(effects) == ["B"]


def test_a_row_goes_on_without_an_anchor_that_is_not_behind_its_last_hop_any_more() -> None:
    """C comes up beside B: it was moved here, and B has not heard of that yet."""
    made = broker(client=False)
    link_up(made, "C", 1.0)
    told = made.handle(Vicinity(brokers=(("D", "C"),), token=1), "C", 1.0)
    assert mesh(made).mesh.mom.path("D") == ("C", "D")
    rows = {row.id: row for row in mesh(made).prt}
    assert rows["sD", 1].last_hop == "B"
    assert {mesh(made).mesh.anchor_for(row, "C") for row in rows.values()} == {"A"}
    assert Send("B", Vicinity(brokers=(("C", "A"), ("D", "C")))) in [_plain(each) for each in told]


def _plain(effect: Effect) -> Effect:
    """Return a message without its token."""
    if isinstance(effect, Send) and isinstance(effect.message, Vicinity):
        return Send(effect.link, replace(effect.message, token=0))
    return effect


def test_a_subscription_without_an_anchor_is_refused() -> None:
    with pytest.raises(ProtocolError, match="without an anchor"):
        broker().handle(Subscribe(("z", 1), "x > 0", 9), "B", 0.0)


def test_only_publications_cross_a_soft_link() -> None:
    made = broker()
    soft(made, "D")
    message = Anchored(id=("z", 1), filter="x > 0", anchor="D", token=9)
    with pytest.raises(ProtocolError, match="no primary"):
        made.handle(message, "D", 0.0)


def test_while_its_branch_relearns_an_anchor_stays_known() -> None:
    """B restarts and tells nothing at first: whoever was served directly still is."""
    made = broker(MeshOptions(strategy="S2"))
    soft(made, "D", "F")
    link_up(made, "B", 1.0)
    made.handle(Vicinity(brokers=(), token=9), "B", 1.0)
    assert publish(made, 1) == ["D", "F"]
    made.handle(Vicinity(brokers=BEYOND_B, token=10), "B", 1.0)
    made.handle(Synced(), "B", 1.0)
    assert publish(made, 2) == []  # what B did not say again is swept
    assert mesh(made).mesh.mom.brokers == ("B", "C", "D", "F", "E")


# --- a neighbour that is absent -------------------------------------------------------------------


def beside_an_absent_c(*behind_b: tuple[str, str]) -> Broker:
    """Return A with a publisher; of its neighbours B has told everything, and C has stayed away."""
    made = Broker("A", "mesh", neighbours=["B", "C"], options=MeshOptions(strategy="S2"))
    link_up(made, "B", 0.0)
    made.handle(Vicinity(brokers=behind_b, token=1), "B", 0.0)
    made.handle(Synced(), "B", 0.0)
    made.handle(Timer("relearn"), "", RELEARN_S)
    made.handle(LinkUp(LinkKind.CLIENT), "p", 6.0)
    made.handle(Advertise(("p", 1), "TRUE", 1), "p", 6.0)
    made.handle(Timer("hold:p"), "", 6.0 + HOLD_S)
    assert mesh(made).absent == ["C"]
    return made


def answer(made: Broker, told: Effect) -> list[Effect]:
    """Let the neighbour answer what A told it; return the effects."""
    token = getattr(told.message, "token", 0) if isinstance(told, Send) else 0
    return made.handle(Settled(token), told.link, 9.0) if token else []


def test_a_soft_link_from_who_is_absent_is_refused() -> None:
    """Its primary link has moved, and it is behind B now; but this broker's network file does not
    say so yet. What is for it waits for its primary link, and would wait in a soft link, too."""
    made = beside_an_absent_c(("C", "B"))
    assert made.handle(LinkUp(LinkKind.SOFT), "C", 6.0) == [CloseLink("C")]
    assert mesh(made).soft_links == {}


def test_who_is_absent_gets_all_and_no_soft_link_goes_past_it() -> None:
    """C does not know yet who got a copy over a soft link: it would send D another one."""
    made = beside_an_absent_c()
    assert publish(made, 1, 8.0) == []
    assert made.links.queue_len("C") == 1
    told = made.handle(LinkUp(LinkKind.BROKER), "C", 9.0)
    made.handle(Relearned(), "C", 9.0)
    answered = [effect for each in told for effect in answer(made, each)]
    assert targets(answered) == ["C"]
    made.handle(Vicinity(brokers=(("D", "C"),), token=1), "C", 9.0)
    made.handle(Anchored(id=("sD", 1), filter="x > 0", anchor="D", token=2), "C", 9.0)
    soft(made, "D")
    assert publish(made, 2, 9.0) == ["C"]
    made.handle(Synced(), "C", 9.0)
    assert publish(made, 3, 9.0) == ["D"]


# --- strategies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "links", "copies"),
    [
        ("S0", "CDF", ["B"]),
        ("S1", "CDF", ["C"]),
        ("S2", "CDF", ["D", "F"]),
        ("S1", "DEF", ["B"]),
        ("S2", "DEF", ["D", "F"]),
        ("S2", "D", ["B"]),
        ("S2", "", ["B"]),
        ("SH", "DEF", ["D", "F"]),
    ],
)
def test_copies_by_strategy(strategy: str, links: str, copies: list[str]) -> None:
    made = broker(MeshOptions(strategy=strategy))  # type: ignore[arg-type]  # drawn by the table
    soft(made, *links)
    assert publish(made, 1) == copies


def test_sh_takes_s1_while_the_uplink_is_loaded() -> None:
    """Capacity is 10 a second and the threshold 0.8: with S2 each publication is two copies."""
    made = broker(MeshOptions(strategy="SH", capacity_per_s=10, load_threshold=0.8))
    soft(made, "D", "E", "F")
    seq = iter(range(1, 100))
    assert publish(made, next(seq), 10.0) == ["D", "F"]
    for _ in range(3):
        assert publish(made, next(seq), 10.5) == ["D", "F"]
    assert publish(made, next(seq), 11.0) == ["D", "F"]  # 8 copies: at the threshold
    for _ in range(4):
        publish(made, next(seq), 11.5)
    publish(made, next(seq), 12.0)  # 10 copies: from now on
    for _ in range(6):
        assert publish(made, next(seq), 12.5) == ["B"]
    publish(made, next(seq), 13.0)  # 8 again
    assert publish(made, next(seq), 13.0) == ["D", "F"]


# --- soft links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["B", "G", "Z"])
def test_a_soft_link_from_next_door_or_from_too_far_is_refused(link: str) -> None:
    made = broker()
    if link == "B":
        assert mesh(made).soft_up("B") == [CloseLink("B")]
    else:
        assert made.handle(LinkUp(LinkKind.SOFT), link, 0.0) == [CloseLink(link)]
    assert mesh(made).soft_links == {}


def test_a_soft_link_beyond_the_fanout_is_refused() -> None:
    made = broker(MeshOptions(fanout=2))
    soft(made, "C")
    assert made.handle(LinkUp(LinkKind.SOFT), "D", 0.0) == [CloseLink("D")]
    assert mesh(made).soft_links == {"C": SoftLink.ACCEPTED}


def test_a_candidate_that_carries_is_opened_and_one_that_idles_is_closed() -> None:
    made = broker(MeshOptions(strategy="S2", fanout=3, maxlinks=10))
    made.handle(Timer(ROUND_TIMER), "", 20.0)
    assert set(mesh(made).mesh.candidates) == set("CDEF")
    for seq in range(1, 11):
        publish(made, seq, 21.0)
    effects = made.handle(Timer(ROUND_TIMER), "", 40.0)
    opened = [effect.to for effect in effects if isinstance(effect, OpenLink)]
    assert opened == ["D", "F"]  # C would have carried none of it
    assert mesh(made).soft_links == dict.fromkeys("DF", SoftLink.OPENING)
    assert publish(made, 11, 41.0) == ["B"]  # not before the other end has opened it, too
    soft(made, "D", "F")
    assert publish(made, 12, 41.0) == ["D", "F"]
    made.handle(Timer(ROUND_TIMER), "", 60.0)
    for anchor in "DE":
        link_up(made, "B", 61.0)
        made.handle(Vicinity(brokers=BEYOND_B, token=20), "B", 61.0)
        message = Anchored(id=("sF", 1), filter="x > 0", anchor="F", token=21)
        made.handle(message, "B", 61.0)
        made.handle(Synced(), "B", 61.0)
        del anchor
    publish(made, 13, 62.0)
    effects = made.handle(Timer(ROUND_TIMER), "", 80.0)
    assert [effect.link for effect in effects if isinstance(effect, CloseLink)] == ["D"]


def test_what_comes_over_a_closing_link_is_served_and_nothing_goes() -> None:
    made = broker(MeshOptions(strategy="S2"))
    soft(made, "D")
    mesh(made).soft_links["D"] = SoftLink.CLOSING
    mesh(made).mesh._relink([])
    assert publish(made, 1) == ["B"]
    assert targets(made.handle(publication(2), "D", 1.0)) == []  # all are in D's branch
    made.handle(LinkDown(), "D", 1.0)
    with pytest.raises(LocalError, match="not up"):
        made.handle(publication(3), "D", 1.0)


def test_what_comes_over_a_soft_link_from_a_branch_that_is_gone_does_not_go_back() -> None:
    """B is given up and comes back; the link to D has stayed up."""
    made = broker(MeshOptions(strategy="S2"))
    soft(made, "D")
    made.handle(LinkDown(), "B", 1.0)
    assert targets(made.handle(publication(1), "D", 1.0)) == []
    link_up(made, "B", 2.0)
    made.handle(Vicinity(brokers=(), token=9), "B", 2.0)
    message = Anchored(id=("sB", 1), filter="x > 0", anchor="B", token=10)
    made.handle(message, "B", 2.0)
    assert targets(made.handle(publication(2), "D", 2.0)) == []
    assert publish(made, 3, 2.0) == ["B"]


# --- tunnels --------------------------------------------------------------------------------------


def test_what_a_soft_link_lost_goes_through_a_tunnel_along_the_primary_path() -> None:
    made = broker()
    soft(made, "D")
    lost = (publication(1), publication(2))
    effects = made.handle(LinkDown(lost), "D", 1.0)
    sends = [effect for effect in effects if isinstance(effect, Send)]
    assert [send.link for send in sends] == ["B", "B"]
    for send in sends:
        assert isinstance(send.message, Publish)
        assert isinstance(send.message.header, MeshHeader)
        assert send.message.header.tunnel == Tunnel("A", "D")
    assert mesh(made).soft_links == {}
    assert made.counters["tunnelled"] == 2


def test_on_its_way_a_copy_in_a_tunnel_is_not_matched() -> None:
    """A has a subscriber of its own, which gets nothing from it."""
    made = broker()
    made.handle(Subscribe(("p", 7), "x > 0", 2), "p", 0.0)
    effects = made.handle(
        Publish(publication(1).publication, MeshHeader(3, Tunnel("Z", "D"))), "B", 1.0
    )
    assert targets(effects) == ["B"]
    assert not [effect for effect in effects if isinstance(effect, Deliver)]


def test_a_tunnel_to_a_broker_that_is_not_known_ends() -> None:
    """A has just restarted: if it matched the copy, it would serve other branches again."""
    made = broker()
    made.handle(Subscribe(("p", 7), "x > 0", 2), "p", 0.0)
    effects = made.handle(
        Publish(publication(1).publication, MeshHeader(3, Tunnel("Z", "Y"))), "B", 1.0
    )
    assert effects == []


def test_where_a_tunnel_ends_a_copy_is_served_once() -> None:
    made = broker()
    made.handle(Subscribe(("p", 7), "x > 0", 2), "p", 0.0)
    soft(made, "D")
    out_of_tunnel = MeshHeader(3, Tunnel("D", "A"))
    made.handle(Publish(publication(1).publication, Header(2)), "D", 1.0)
    made.handle(LinkDown(), "D", 1.0)
    first = made.handle(Publish(publication(1).publication, out_of_tunnel), "B", 1.0)
    assert [type(effect) for effect in first] == [Discard]
    second = made.handle(Publish(publication(2).publication, out_of_tunnel), "B", 1.0)
    assert [type(effect) for effect in second] == [Deliver]  # and nothing goes back to B
    third = made.handle(Publish(publication(2).publication, out_of_tunnel), "B", 1.0)
    assert [type(effect) for effect in third] == [Discard]


# --- loads ----------------------------------------------------------------------------------------


def loads_told(made: Broker, now: float) -> dict[str, float]:
    effects = made.handle(Timer(ROUND_TIMER), "", now)
    messages = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Loads)]
    return dict(pair for message in messages for pair in message.loads)


def test_the_own_load_is_told_as_a_share_of_capacity() -> None:
    made = broker(MeshOptions(capacity_per_s=10))
    made.handle(Timer(ROUND_TIMER), "", 20.0)
    for seq in range(1, 101):
        publish(made, seq, 25.0)
    assert loads_told(made, 40.0) == {"A": pytest.approx(0.5)}
    assert loads_told(made, 60.0) == {}


@pytest.mark.parametrize("published", [0, 7, 8, 40, 200])
def test_loads_take_two_percent_of_the_bytes_that_are_sent(published: int) -> None:
    made = broker(MeshOptions(capacity_per_s=10))
    made.handle(Timer(ROUND_TIMER), "", 20.0)
    for seq in range(1, published + 1):
        publish(made, seq, 25.0)
    told = loads_told(made, 40.0)
    assert len(told) * BYTES_OF_LOAD <= published * BYTES_OF_COPY * SHARE_OF_BYTES
    assert bool(told) == (published >= 8)


@pytest.mark.long
@pytest.mark.parametrize("delta", [2, 4])
def test_loads_spread_as_far_as_delta_less_one(delta: int) -> None:
    """All but b7 pass a load on; whoever learns of a broker's load is near enough to bypass it."""
    options = MeshOptions(delta=delta, capacity_per_s=1000, round_s=1.0, strategy="S0")
    simulation = Simulation(Setup(graph=path(names(7)), routing="mesh", options=options))
    simulation.subscribe("s", "b7", "x > 0", 0.0)
    for i in range(3000):
        simulation.publish("p", "b1", {"x": 1}, 0.5 + i * 3e-3)
    simulation.run()
    for i, node in enumerate(simulation.world.nodes.values()):
        assert isinstance(node.core.router, Mesh)
        heard = node.core.router.mesh._loads
        others = {f"b{j + 1}" for j in range(6) if j != i and abs(i - j) < delta}
        assert set(heard) == others
        assert not node.core.router.soft_links  # with S0 none is opened


def test_a_load_from_elsewhere_than_its_branch_is_not_believed() -> None:
    made = broker()
    made.handle(Loads(loads=(("D", 0.9), ("Z", 0.9), ("A", 0.9)), token=9), "B", 1.0)
    assert mesh(made).mesh._loads == {"D": 0.9}
