"""The links that were moved, as a broker has them on disk, against the moves themselves."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.keeping import Change, DropRow, PutRow
from reefcast.routing.mesh.moved_links import MOVED_LINKS, MovedLinks, said_by_file

NAMES = "abcdef"


def note(links: MovedLinks, me: str, move: int, mover: str, old: str, new: str) -> None:
    """Note a move at a broker, as each of its three brokers does."""
    if me == mover:
        links.note(old, move, "gone", mine=True)
        links.note(new, move, "here", mine=True)
    elif me in (old, new):
        links.note(mover, move, "here" if me == new else "gone", mine=False)


def writes(rows: dict[bytes, bytes]) -> Callable[[Change], None]:
    """Return what writes to this disk."""

    def write(change: Change) -> None:
        if isinstance(change, PutRow):
            rows[change.key] = change.row
        else:
            assert isinstance(change, DropRow)
            rows.pop(change.key, None)

    return write


def behind(name: str, other: str, edges: set[frozenset[str]]) -> set[str]:
    """Return the brokers on this broker's side of its link to the other."""
    found, left = {name}, [name]
    while left:
        at = left.pop()
        next_ones = {x for edge in edges if at in edge for x in edge} - found - {other}
        found |= next_ones
        left += next_ones
    return found


@given(st.integers(0, 2**32))
def test_each_broker_has_the_links_of_the_tree_after_all_moves(seed: int) -> None:
    rng = random.Random(seed)
    names = NAMES[: rng.randint(3, 6)]
    file = {frozenset((names[rng.randrange(at)], names[at])) for at in range(1, len(names))}
    edges = set(file)
    disks: dict[str, dict[bytes, bytes]] = {name: {} for name in names}
    links = {name: MovedLinks() for name in names}

    def neighbours(name: str, of: set[frozenset[str]]) -> list[str]:
        return sorted(other for edge in of if name in edge for other in edge - {name})

    for name in names:
        links[name].write = writes(disks[name])
    for move in range(1, rng.randint(2, 8)):
        mover = rng.choice(names)
        old = rng.choice(neighbours(mover, edges))
        far = sorted(behind(old, mover, edges) - {old})
        if not far:
            continue
        new = rng.choice(far)
        edges = edges - {frozenset((mover, old))} | {frozenset((mover, new))}
        for name in names:
            note(links[name], name, move, mover, old, new)
        if rng.random() < 0.3:
            file = edges  # the operator's command has changed it
        if rng.random() < 0.5:
            for name in names:
                for drop in said_by_file(disks[name], neighbours(name, file), names):
                    del disks[name][drop.key]
                links[name] = MovedLinks(disks[name])
                links[name].write = writes(disks[name])
    for name in names:
        for known in (links[name], MovedLinks(disks[name])):
            assert known.applied_to(neighbours(name, file)) == neighbours(name, edges)
            assert not any(known.has_left(other) for other in neighbours(name, edges))


def test_a_link_that_is_about_to_come_again_is_not_refused_and_not_there() -> None:
    links = MovedLinks()
    links.open("b")
    assert links.applied_to(["b"]) == ["b"]
    links.note("b", 1, "gone", mine=True)
    assert links.has_left("b")
    assert links.own == (1, (("b", 1),), ())
    links.open("b")
    assert not links.has_left("b")
    assert links.applied_to(["b"]) == []
    assert links.knows("b", 1)
    assert not links.knows("b", 2)
    assert links.epoch == 1


def test_what_was_written_ahead_is_taken_back() -> None:
    rows: dict[bytes, bytes] = {}

    links = MovedLinks()
    links.write = writes(rows)
    links.note("b", 1, "gone", mine=True)
    links.open("b")
    before = dict(rows)
    links.write_ahead("b", 2, "here", mine=True)
    links.write_ahead("c", 2, "gone", mine=True)
    assert MovedLinks(rows).epoch == 2
    links.take_back("b", "c")
    assert rows == before
    assert MovedLinks(rows).epoch == 1


def test_a_link_is_as_a_move_left_it_or_as_a_later_one_did() -> None:
    links = MovedLinks()
    assert not links.has_changed("b", 1)
    links.note("b", 1, "gone", mine=False)
    links.open("b")
    assert not links.has_changed("b", 1)
    links.note("b", 2, "here", mine=False)
    assert [links.has_changed("b", move) for move in (1, 2, 3)] == [True, True, False]


def test_of_a_broker_that_was_taken_out_nothing_is_said_and_only_the_epoch_stays() -> None:
    rows: dict[bytes, bytes] = {}

    links = MovedLinks()
    links.write = writes(rows)
    links.note("b", 1, "gone", mine=True)
    links.note("c", 1, "here", mine=True)
    links.note("d", 2, "here", mine=False)
    assert [(x.mover, x.left, x.come) for x in links.said_by("a")] == [
        ("a", (("b", 1),), (("c", 1),)),
        ("d", (), (("a", 2),)),
    ]
    links.forget(["c", "d", "x"])
    assert links.applied_to(["b"]) == []
    assert links.epoch == 2
    assert MovedLinks(rows).links == links.links
    assert [(x.mover, x.left, x.come) for x in links.said_by("a")] == [("a", (("b", 1),), ())]


def test_rows_of_brokers_that_the_file_does_not_have_go() -> None:
    rows: dict[bytes, bytes] = {}

    links = MovedLinks()
    links.write = writes(rows)
    for other in "bc":
        links.note(other, 1, "here", mine=False)
    assert said_by_file(rows, [], "ab") == [DropRow(MOVED_LINKS, b"\xa1c")]
