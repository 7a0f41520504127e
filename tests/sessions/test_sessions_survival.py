"""Durable sessions whose broker is killed at any instant, with or without the loss of the page
cache.

The checker knows what was promised: publications that were synced (P1), acknowledgements that
were answered (P2), and notes, in one order with acknowledgements. It looks at deliveries, and at
what a start finds of notes.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from driving_sessions import Driver, publication, publish
from reefcast.model.keeping import SessionOptions
from reefcast.sessions.outcome import Delivery

LINKS = {"a": "$a", "b": "$b"}
STEPS = 150


class Survival:
    """One random run. `sure`: (session, id) of what is promised; `acknowledged`: of
    acknowledgements that were answered; `tried`: of those that a consumer sent. `books`: the notes
    of each session after each message about them, `noted` the last one that was answered; `behind`:
    (session, id) -> how many of these there were before its acknowledgement."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.driver = Driver(self.rng.choice((0, 500, 1 << 20)))
        self.seq = 0
        self.unsure: list[tuple[int, int, str]] = []
        self.sure: set[tuple[str, int]] = set()
        self.tried: set[tuple[str, int]] = set()
        self.acknowledged: set[tuple[str, int]] = set()
        self.tries: dict[tuple[str, int], int] = defaultdict(int)
        self.places: dict[tuple[str, int], int] = {}
        self.at: dict[tuple[str, int], tuple[str, int]] = {}
        self.out: dict[str, dict[int, int]] = {}
        self.lives = 0
        self.books: dict[str, list[dict[str, str]]] = {name: [{}] for name in LINKS}
        self.noted = dict.fromkeys(LINKS, 0)
        self.behind: dict[tuple[str, int], int] = {}
        for name, link in LINKS.items():
            options = SessionOptions(expiry_s=0.0, ack_wait_s=5.0)
            self.driver.home.create("", name, link, options, 0.0)
        self.take()
        self.sync()

    def take(self) -> None:
        outcome = self.driver.take()
        for delivery in outcome.deliveries:
            self.handed(delivery)
        for kind, *reply in outcome.replies:
            if kind == "noted":
                name, count = reply
                assert self.noted[name] < count, "answers are out of order"
                self.noted[name] = count
            else:
                self.acknowledged.add(tuple(reply))
                assert self.noted[reply[0]] >= self.behind[tuple(reply)]

    def handed(self, delivery: Delivery) -> None:
        key = delivery.session, delivery.id[1]
        assert key not in self.acknowledged, f"{key} comes again although it was acknowledged"
        assert delivery.tries > self.tries[key], (
            f"{key} was handed out before, and is not marked so"
        )
        self.tries[key] = delivery.tries
        assert self.places.setdefault(key, delivery.position) == delivery.position
        place = delivery.session, delivery.position
        assert self.at.setdefault(place, key) == key, "two events had the same position"
        if (its := self.out.get(delivery.consumer)) is not None:  # it has not been detached
            its[delivery.position] = delivery.id[1]
            assert len(its) <= 5, "more than the window"

    def sync(self, *, some: bool = False) -> None:
        """Sync everything that is written, or only what was written first."""
        token = self.driver.sync(self.rng if some else None)
        synced = [each for each in self.unsure if each[0] <= token]
        self.unsure = [each for each in self.unsure if each[0] > token]
        self.sure |= {(name, seq) for _, seq, names in synced for name in names}
        self.take()

    def sync_some(self) -> None:
        self.sync(some=True)

    # --- steps -----------------------------------------------------------------------------------

    def publish(self) -> None:
        self.seq += 1
        self.owe(self.seq, self.rng.choice(("a", "b", "ab", "ab")))

    def owe(self, seq: int, names: str) -> None:
        made = publish(publication("p", seq, x=seq))
        to = {LINKS[name]: [1] for name in names}
        verdict = self.driver.home.owe(made, to, self.driver.now)
        assert not verdict.refused and not verdict.blocked
        self.take()
        self.unsure.append((self.driver.token, seq, names))

    def again(self) -> None:
        """Send again, as a neighbour, what the home has confirmed."""
        if self.sure:
            name, seq = self.rng.choice(sorted(self.sure))
            made = publish(publication("p", seq, x=seq))
            self.driver.home.owe(made, {LINKS[name]: [1]}, self.driver.now)
            self.take()

    def attach(self) -> None:
        consumer = f"{self.rng.choice('ab')}{self.lives}.{self.rng.random()}"
        if sum(each[0] == consumer[0] for each in self.out) < 2:
            self.out[consumer] = {}
            self.driver.home.attach("", consumer[0], consumer, 5, self.driver.now)
            self.take()

    def detach(self) -> None:
        if self.out:
            consumer = self.rng.choice(sorted(self.out))
            del self.out[consumer]
            self.driver.home.detach(consumer, self.driver.now)
            self.take()

    def one(self) -> tuple[str, int, int] | None:
        found = [(c, at, seq) for c, its in sorted(self.out.items()) for at, seq in its.items()]
        return self.rng.choice(found) if found else None

    def acknowledge(self) -> None:
        if one := self.one():
            consumer, position, seq = one
            del self.out[consumer][position]
            key = consumer[0], seq
            self.tried.add(key)
            self.behind[key] = len(self.books[consumer[0]]) - 1
            self.driver.home.acknowledge(
                consumer, position, self.driver.now, reply=("acknowledged", *key)
            )
            self.take()

    def note(self) -> None:
        """Write, change and remove notes; so that each state is like no other."""
        name = self.rng.choice("ab")
        book = self.books[name]
        notes: dict[str, str | None] = {"last": f"{self.seq} {len(book)}"}
        notes |= {key: self.rng.choice((None, "", str(len(book)))) for key in "xyz"}
        book.append({key: text for key, text in (book[-1] | notes).items() if text is not None})
        reply = ("noted", name, len(book) - 1)
        self.driver.home.note("", name, notes, self.driver.now, reply=reply)
        if self.rng.random() < 0.5:
            self.take()

    def check_notes(self) -> None:
        """Check what a start has found: notes as they were after some message about them, which is
        none before the last one that was answered, or that an acknowledgement came behind."""
        stored = self.driver.store.load()
        for number, name in enumerate(LINKS, 1):
            found = self.driver.home.notes("", name)
            assert found == stored.sessions[number].notes
            count = self.books[name].index(found)
            assert count >= self.noted[name], "notes that were answered are gone"
            owed = {
                stored.events[each.event].id[1] for each in stored.sessions[number].owed.values()
            }
            for (of, seq), behind in self.behind.items():
                if of == name and seq not in owed:
                    assert count >= behind, "it was acknowledged behind notes that are gone"
            del self.books[name][count + 1 :]
            self.noted[name] = count  # what a start finds is synced

    def reject(self) -> None:
        if one := self.one():
            consumer, position, _ = one
            del self.out[consumer][position]
            delay_s = self.rng.choice((0.0, 1.0))
            self.driver.home.reject(consumer, position, self.driver.now, delay_s=delay_s)
            self.take()

    def wait(self) -> None:
        """Let time pass; consumers lose what they have had for too long."""
        self.driver.now += self.rng.choice((0.5, 6.0))
        self.driver.home.due(self.driver.now)
        for consumer in list(self.out):  # what each still has, only its home knows: begin anew
            del self.out[consumer]
            self.driver.home.detach(consumer, self.driver.now)
        self.take()

    def kill(self) -> None:
        self.lives += 1
        self.out.clear()
        self.driver.kill(self.rng if self.rng.random() < 0.7 else None)
        self.check_notes()
        self.behind = dict.fromkeys(self.behind, 0)  # who acknowledges again, notes again
        unsure, self.unsure = self.unsure, []
        for _, seq, names in unsure:  # nobody answered their publisher, who publishes them again
            self.owe(seq, names)

    def run(self) -> None:
        steps = (
            *[self.publish] * 8, *[self.sync] * 3, *[self.sync_some] * 3, *[self.acknowledge] * 6,
            *[self.note] * 3, self.reject, *[self.attach] * 3, self.detach, self.again, self.wait,
            self.kill,
        )  # fmt: skip  # how often each comes is seen at a glance
        for _ in range(STEPS):
            self.rng.choice(steps)()
        self.finish()

    def finish(self) -> None:
        """With everything up, check that everything owed comes, and that nothing is left on the
        disk."""
        self.kill()
        self.sync()
        for name in LINKS:
            self.out[name] = {}
            self.driver.home.attach("", name, name, 5, self.driver.now)
        self.take()
        had = set()
        for _ in range(10 * (len(self.sure) + 5)):
            self.sync()
            had |= {(name, seq) for name, its in self.out.items() for seq in its.values()}
            self.acknowledge()
        self.sync()
        self.sync()
        assert self.sure - self.tried <= had
        assert all(self.tries[key] for key in self.sure)
        for name in LINKS:
            order = sorted((at, seq) for (of, seq), at in self.places.items() if of == name)
            assert [seq for _, seq in order] == sorted(seq for _, seq in order), (
                "events are out of order"
            )
        contents = self.driver.store.load()
        assert not contents.events
        assert not any(each.owed for each in contents.sessions.values())


@pytest.mark.parametrize("seed", range(60))
def test_kills_lose_nothing_and_double_nothing(seed):
    Survival(seed).run()


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_many_kills(block):
    for seed in range(1000 * (block + 1), 1000 * (block + 1) + 500):
        Survival(seed).run()


def test_an_event_that_one_session_lets_go_at_a_start_stays_for_others() -> None:
    """The first session makes dead letters of what it has handed out, and keeps only one of
    them."""
    driver = Driver()
    few = SessionOptions(max_deliveries=1, max_dead_letters=1)
    for name, options in (("s1", few), ("s2", SessionOptions())):
        driver.home.create("", name, f"${name}", options, driver.now)
        driver.home.subscribe("", name, "TRUE", driver.now)
    driver.home.attach("", "s1", "consumer", 5, driver.now)
    for seq in (1, 2):
        driver.home.owe(publish(publication("p", seq)), {"$s1": [1], "$s2": [1]}, driver.now)
    driver.settle()
    driver.kill(None)
    driver.settle()
    first, second = driver.home.sessions()
    assert (first.events, first.dead_letters) == (0, 1)
    assert second.events == 2
    assert sorted(driver.store.load().events) == [1, 2]
