"""A publisher with an outbox file whose machine loses power at any step: between a write and its
sync, between the sync and its report, while finished events are removed, while SQLite moves its log
into the database, and while the file is opened again.

The file is a real one; only its syncs are simulated. What was not synced is lost, or there in part,
sector by sector and in any order, as with real disks.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from reefcast.client import outbox_file as module
from reefcast.client.outbox import Outbox
from reefcast.client.outbox_file import OutboxFile, read_outbox
from reefcast.client.outbox_writer import OutboxWriter
from reefcast.client.unconfirmed import Group, Unconfirmed
from reefcast.keeping.database import open_database
from reefcast.model import wire
from reefcast.model.messages import Confirmed
from reefcast.model.publication import Publication
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.frames import FrameReader

SECTOR = 512
STEPS = 60
LOG_PAGES = 6
"""After how many pages the log is moved into the database: often, here."""


class PowerLossError(Exception):
    """The machine loses power here."""


class Image(NamedTuple):
    """The bytes of the file, and of its log."""

    database: bytes
    log: bytes

    @classmethod
    def of(cls, path: Path) -> Image:
        log = path.with_name(path.name + "-wal")
        return cls(path.read_bytes(), log.read_bytes() if log.exists() else b"")

    def write(self, path: Path) -> None:
        path.write_bytes(self.database)
        path.with_name(path.name + "-wal").write_bytes(self.log)


def torn(old: bytes, new: bytes, rng: Random) -> bytes:
    """Return what may be on the disk of `new`, written over `old`: any of its sectors."""
    size = rng.randint(len(old), len(new)) if len(new) > len(old) else len(old)
    share = rng.choice((0.0, 0.5, 0.9, 1.0))
    data = bytearray(old.ljust(size, b"\0"))
    for at in range(0, size, SECTOR):
        if rng.random() < share:
            data[at : at + SECTOR] = new[at : min(at + SECTOR, size)] or data[at : at + SECTOR]
    return bytes(data[:size])


def left_by_power(old: Image, new: Image, rng: Random) -> Image:
    """Return what a loss of power leaves between two synced images. The log is synced before what
    it holds goes into the database."""
    if old.database != new.database and rng.random() < 0.5:
        return Image(torn(old.database, new.database, rng), new.log)
    return Image(old.database, torn(old.log, new.log, rng))


class Writer(OutboxWriter):
    """A writer that writes when the test says so, without a thread."""

    def _run(self) -> None:
        self.told: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        self.told.append((call, arguments))

    @property
    def has_work(self) -> bool:
        return bool(self._frames or self._done)

    def write_next(self) -> None:
        assert self._write_next()

    def hear(self) -> None:
        """Tell the client what has been written."""
        told, self.told = self.told, []
        for call, arguments in told:
            call(*arguments)


class World:
    """A publisher with its disk, and a home that remembers what it received. `texts`: by number,
    the text that `publish` took; `home`: text by number, in the order in which they arrived first.
    `seen_torn`: how often a step was found on the disk in part or not at all."""

    def __init__(self, rng: Random, folder: Path) -> None:
        self.rng = rng
        self.folder = folder
        self.lives = self.seen_torn = self.published = 0
        self.quiet = False
        self.taken: dict[int, str] = {}
        self.home: dict[int, str] = {}
        self.custody: deque[tuple[int, str]] = deque()
        self.groups: list[tuple[Group, list[int]]] = []
        self.waited_for = 0
        self._open(None)

    # --- the disk ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self.folder / f"{self.lives}.outbox"

    def _open(self, image: Image | None) -> None:
        """Begin a life of the publisher with what the disk has; opening it may fail, too."""
        while True:
            self.lives += 1
            if image is not None:
                image.write(self.path)
            self.file = OutboxFile(self.path, Identity("p", "s"))
            opened = Image.of(self.path)
            if image is None or self.quiet or self.rng.random() < 0.8:
                break
            self.file.close()
            image = left_by_power(image, opened, self.rng)
        self.synced = opened
        self.writer = Writer(self.file, self._written)
        self.writer._thread.join()
        left = self.file.left
        self.texts = {seq: text_of(frame) for seq, frame in left.frames.items()}
        assert left.last_seq >= max(self.taken, default=0), "a number that was taken is lost"
        lost = self.taken.keys() - self.texts.keys() - self.home.keys()
        assert not lost, f"publish took {sorted(lost)}, which are neither on the disk nor at home"
        assert all(self.taken.get(seq, text) == text for seq, text in self.texts.items())
        self.on_disk = left.last_seq
        self.outbox, self.unconfirmed = Outbox("p", lambda: None), Unconfirmed()
        self.outbox.continue_from(left.last_seq)
        self.unconfirmed.load(left.frames, attempt=self.file.last_registration)
        self.unconfirmed.on_done = self.writer.done
        self.groups.clear()
        self.connect()

    def lose_power(self, image: Image) -> None:
        self.file.close()
        self._open(image)

    def kill(self) -> None:
        """Kill the process: what it wrote is there."""
        self.lose_power(self.synced)

    # --- steps ------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to a broker that knows nothing; what was under way is lost."""
        self.to_home: deque[tuple[int, str]] = deque()
        self.answers: deque[Confirmed] = deque()
        self.outbox.disconnect()
        credit = self.rng.randint(1, 20)
        self.outbox.begin(0, credit, same_broker=False, controls=(), asked=self.unconfirmed.again())

    def publish(self) -> None:
        first, frames = self.outbox.seq + 1, []
        for seq in range(first, first + self.rng.randint(1, 4)):
            self.published += 1
            self.texts[seq] = text = f"{self.published} " + "x" * self.rng.choice((0, 700, 5000))
            publication = Publication("p", seq, 0, {"text": text})
            frames.append(wire.encode_published(wire.encode_publication(publication)))
        self.writer.put(frames)
        self.outbox.publish_all(self.unconfirmed.noted(first, frames))

    def write(self) -> None:
        if not self.writer.has_work:
            return
        last = self.writer._next_seq + len(self.writer._frames) - 1
        self.writer.write_next()
        image = Image.of(self.path)
        if not self.quiet and self.rng.random() < 0.15:
            self.seen_torn += 1
            self.lose_power(left_by_power(self.synced, image, self.rng))
        else:
            self.synced, self.on_disk = image, last

    def hear(self) -> None:
        self.writer.hear()

    def _written(self, count: int) -> None:
        """Send what has been written, and let the calls of `publish` return."""
        self.outbox.written(count)
        last = self.outbox.written_seq
        self.taken |= {seq: text for seq, text in self.texts.items() if seq <= last}

    def send(self) -> None:
        for kind, payload in FrameReader().feed(self.outbox.drain()):
            publication = wire.CLIENT_CODEC.decode_publish(payload, kind).publication
            assert publication.seq <= self.on_disk, "it is sent before it is synced"
            self.to_home.append((publication.seq, str(publication.attributes["text"])))

    def arrive(self) -> None:
        """Let an event reach the broker. It goes to its home, or into custody; then so does
        everything behind it."""
        if self.to_home:
            self.custody.append(self.to_home.popleft())
            self.outbox.acknowledge(self.outbox._unacknowledged.acknowledged + 1)
            self.outbox.grant(1)
            if len(self.custody) == 1 and self.rng.random() < 0.7:
                self.hand_over()
            else:
                self.answers.append(Confirmed("p", self.custody[-1][0], 1, kept=True))

    def hand_over(self) -> None:
        """Let the first event in custody reach its home."""
        if self.custody:
            seq, text = self.custody.popleft()
            assert self.home.setdefault(seq, text) == text, "a number is used twice"
            self.answers.append(Confirmed("p", seq, 1))

    def answer(self) -> None:
        if self.answers:
            self.unconfirmed.answered(self.answers.popleft())
        for group, seqs in self.groups:
            assert group.open or self.home.keys() >= set(seqs), "all_done returned too early"
        self.waited_for += sum(not group.open for group, _ in self.groups)
        self.groups = [each for each in self.groups if each[0].open]

    def wait(self) -> None:
        """Wait as `all_done` does."""
        group = self.unconfirmed.everything(until_done=True)
        self.groups.append((group, list(self.unconfirmed._kept)))

    def go_on(self) -> None:
        """Publish nothing for a while, so that the file may become empty."""
        for _ in range(10):
            self.write()
            for step in (self.hear, self.send, self.arrive, self.hand_over, self.answer):
                step()

    def finish(self) -> None:
        """Let nothing fail any more."""
        self.quiet = True
        for _ in range(10 + self.outbox.seq):
            self.go_on()
        assert not (len(self.unconfirmed) or self.writer.has_work or self.groups)
        self.file.close()
        left = read_outbox(self.path)
        assert (left.last_seq, left.frames) == (self.outbox.seq, {})
        assert self.home.keys() >= self.taken.keys()
        assert list(self.home) == list(range(1, left.last_seq + 1)), (
            "events did not arrive once each and in order"
        )


def text_of(frame: bytes) -> str:
    [(kind, payload)] = FrameReader().feed(frame)
    publication = wire.CLIENT_CODEC.decode_publish(payload, kind).publication
    return str(publication.attributes["text"])


WEIGHTS = {
    "publish": 3,
    "write": 8,
    "hear": 8,
    "send": 8,
    "arrive": 16,
    "hand_over": 12,
    "answer": 16,
    "wait": 2,
    "go_on": 1,
    "connect": 1,
    "kill": 2,
}


def run(seed: int, folder: Path) -> World:
    rng = Random(seed)
    folder.mkdir()
    world = World(rng, folder)
    for name in rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
        getattr(world, name)()
    world.finish()
    shutil.rmtree(folder)
    return world


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let syncs, which the test simulates, take no time; writes are as usual."""

    def opened(path: Path, format: object) -> object:
        database = open_database(path, format)  # type: ignore[arg-type]  # of the module
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        return database

    monkeypatch.setattr(module, "open_database", opened)


@pytest.mark.long
async def test_what_publish_took_arrives_once_and_in_order_whenever_power_fails(
    tmp_path: Path,
) -> None:
    worlds = [run(seed, tmp_path / str(seed)) for seed in range(80)]
    assert sum(world.seen_torn for world in worlds) > 20
    assert sum(world.waited_for for world in worlds) > 20


@pytest.mark.soak
async def test_many_more_power_failures(tmp_path: Path) -> None:
    for seed in range(1000, 6000):
        run(seed, tmp_path / str(seed))
