"""The outbox file of a publisher: its format, crashes, damage, and the thread that writes it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_networks import until
from reefcast.client import outbox_file as module
from reefcast.client.outbox import Outbox
from reefcast.client.outbox_file import REGISTRATIONS, OutboxFile, read_outbox
from reefcast.client.outbox_writer import OutboxWriter
from reefcast.client.unconfirmed import Unconfirmed
from reefcast.errors import ConfigurationError
from reefcast.model import wire
from reefcast.model.messages import Confirmed
from reefcast.model.publication import Publication
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.frames import FrameReader


def a_frame(seq: int) -> bytes:
    return wire.encode_published(wire.encode_publication(Publication("p", seq, 0, {"x": seq})))


def opened(path: Path, publisher: str = "p") -> OutboxFile:
    return OutboxFile(path, Identity(publisher, "s"))


# --- the file ------------------------------------------------------------------------------------


def test_a_new_life_has_the_id_the_last_number_and_what_is_not_done(tmp_path):
    file = opened(tmp_path / "a.outbox", "first")
    assert (file.left.identity.id, file.left.last_seq, file.left.frames) == ("first", 0, {})
    assert file.last_registration == 0
    file.commit(1, [a_frame(1), a_frame(2), a_frame(3)], [])
    file.commit(4, [], [1, 3])
    file.close()
    again = opened(tmp_path / "a.outbox", "second")
    assert (again.left.identity.id, again.left.last_seq) == ("first", 3)
    assert again.left.frames == {2: a_frame(2)}
    assert [each.attributes for each in again.left.publications()] == [{"x": 2}]
    assert again.last_registration == REGISTRATIONS, (
        "the registrations of the former life were forgotten"
    )
    again.commit(4, [], [2])
    again.close()
    left = read_outbox(tmp_path / "a.outbox")
    assert (left.last_seq, left.frames) == (3, {}), "the last number was forgotten"


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sets(st.integers(1, 12), max_size=4)), max_size=8
    ),
    crash=st.integers(0, 8),
)
def test_a_copy_at_any_commit_has_what_was_committed(steps, crash, tmp_path_factory):
    """The twin is a dict and a number. The copy is what a killed process leaves behind."""
    folder = tmp_path_factory.mktemp("outbox")
    file, twin, last = opened(folder / "a"), {}, 0
    for number, (count, done) in enumerate(steps):
        if number == crash:
            break
        frames = {last + 1 + at: a_frame(last + 1 + at) for at in range(count)}
        file.commit(last + 1, list(frames.values()), sorted(done))
        last += count
        twin = {seq: each for seq, each in (twin | frames).items() if seq not in done}
    for name in ("a", "a-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, folder / name.replace("a", "b", 1))
    left = read_outbox(folder / "b")
    assert (left.last_seq, left.frames) == (last, twin)
    file.close()


def test_two_programs_cannot_have_one_file(tmp_path):
    file = opened(tmp_path / "a")
    for open_it in (opened, read_outbox):
        with pytest.raises(ConfigurationError, match="a file of its own"):
            open_it(tmp_path / "a")
    file.close()
    opened(tmp_path / "a").close()


def test_what_is_no_outbox_is_left_alone(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no outbox"):
        read_outbox(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE theirs (one INTEGER)")
    other.close()
    with pytest.raises(ConfigurationError, match="holds no outbox, but something else"):
        opened(tmp_path / "other")


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(module, "FORMAT", module.FORMAT._replace(version=3))
        opened(tmp_path / "a").close()
    with pytest.raises(ConfigurationError, match="has format 3"):
        opened(tmp_path / "a")


FORMAT_1 = """
CREATE TABLE publisher (one INTEGER PRIMARY KEY, id TEXT NOT NULL, last INTEGER NOT NULL,
                        lives INTEGER NOT NULL);
CREATE TABLE publication (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE damaged (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL);
PRAGMA application_id = 0x7265656F;
PRAGMA user_version = 1;
INSERT INTO publisher VALUES (1, 'p', 2, 3);
"""


def test_a_file_without_a_secret_keeps_its_id_until_it_is_empty(tmp_path, caplog):
    """What waits in it goes on under the id that homes of sessions know; then the id is replaced,
    and the numbers go on."""
    database = sqlite3.connect(tmp_path / "a")
    database.executescript(FORMAT_1)
    row = (2, a_frame(2), crc32(a_frame(2)))
    database.execute("INSERT INTO publication VALUES (?, ?, ?)", row)
    database.commit()
    database.close()
    for _ in range(2):
        file = OutboxFile(tmp_path / "a", Identity("new", "secret"))
        assert file.left == (Identity("p", ""), 2, {2: a_frame(2)})
        file.close()
    assert caplog.text.count("is of an older version, and its publisher p has no secret") == 2
    file = OutboxFile(tmp_path / "a", Identity("new", "secret"))
    file.commit(3, [], [2])
    file.close()
    caplog.clear()
    for identity in (Identity("new", "secret"), Identity("newer", "another")):
        file = OutboxFile(tmp_path / "a", identity)
        assert file.left == (Identity("new", "secret"), 2, {})
        file.close()
    assert not caplog.text


def test_a_damaged_file_is_kept_aside_and_said(tmp_path, caplog):
    (tmp_path / "a").write_bytes(b"no database" * 1000)
    file = opened(tmp_path / "a", "new")
    assert file.left.identity.id == "new"
    file.close()
    [aside] = tmp_path.glob("a.damaged*")
    assert aside.read_bytes() == b"no database" * 1000
    assert "is damaged" in caplog.text
    assert aside.name in caplog.text


def test_a_damaged_publication_is_not_sent_and_said(tmp_path, caplog):
    file = opened(tmp_path / "a")
    file.commit(1, [a_frame(1), a_frame(2), a_frame(3)], [])
    file.close()
    database = sqlite3.connect(tmp_path / "a")
    wrong = a_frame(2)[:-1] + b"\x07"
    database.execute("UPDATE publication SET frame = ? WHERE seq = 2", (wrong,))
    database.commit()
    database.close()
    file = opened(tmp_path / "a")
    assert sorted(file.left.frames) == [1, 3]
    assert file.left.last_seq == 3
    assert "are damaged, and are not sent: the numbers 2;" in caplog.text
    kept = file._database.execute("SELECT seq, frame FROM damaged").fetchall()
    assert kept == [(2, wrong)]
    file.close()


def test_a_file_that_is_empty_or_damaged_is_not_shown(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigurationError, match="or it is empty"):
        read_outbox(tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""
    (tmp_path / "a").write_bytes(b"no database" * 1000)
    with pytest.raises(ConfigurationError, match=r"is damaged .* sets it aside"):
        read_outbox(tmp_path / "a")


def test_each_commit_is_synced(tmp_path):
    file = opened(tmp_path / "a")
    assert file._database.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert file._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


# --- the thread ----------------------------------------------------------------------------------


class Counting(OutboxFile):
    """A store that counts commits, and fails some of them."""

    commits = 0
    failing = 0

    def commit(self, first_seq: int, frames: Sequence[bytes], done: Sequence[int]) -> None:
        if self.failing:
            self.failing -= 1
            raise OSError(28, "no space left")
        self.commits += 1
        super().commit(first_seq, frames, done)


async def test_what_is_published_together_shares_a_sync_and_what_is_done_goes(tmp_path):
    written: list[int] = []
    file = Counting(tmp_path / "a", Identity("p", "s"))
    writer = OutboxWriter(file, written.append)
    with writer._wake:  # as if the thread were in a sync
        for seq in range(1, 101):
            writer._frames.append(a_frame(seq))
        writer._wake.notify()
    await until(lambda: sum(written) == 100)
    assert file.commits == 1
    writer.put([a_frame(101)])
    for seq in range(1, 100):
        writer.done(seq)
    await writer.close()
    left = read_outbox(tmp_path / "a")
    assert (left.last_seq, sorted(left.frames)) == (101, [100, 101])


async def test_a_full_disk_is_said_and_waited_for(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("reefcast.client.outbox_writer.AGAIN_S", 0.01)
    written: list[int] = []
    file = Counting(tmp_path / "a", Identity("p", "s"))
    file.failing = 3
    writer = OutboxWriter(file, written.append)
    with caplog.at_level(logging.WARNING):
        writer.put([a_frame(1)])
        await until(lambda: sum(written) == 1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "no space left" in caplog.text
    await writer.close()
    assert sorted(read_outbox(tmp_path / "a").frames) == [1]


def test_a_new_life_uses_no_attempt_again():
    unconfirmed = Unconfirmed()
    unconfirmed.load({4: a_frame(4)}, attempt=REGISTRATIONS)
    [(kind, payload)] = FrameReader().feed(unconfirmed.again()[4])
    assert wire.CLIENT_CODEC.decode_publish(payload, kind).confirm == REGISTRATIONS + 1


# --- what waits for the disk ---------------------------------------------------------------------


@given(st.data())
def test_nothing_is_sent_before_it_is_written_and_all_of_it_in_order(data):
    outbox, unconfirmed = Outbox("p", lambda: None), Unconfirmed()
    done: list[int] = []
    unconfirmed.on_done = done.append
    outbox.continue_from(5)
    unconfirmed.load({4: a_frame(4), 5: a_frame(5)})
    outbox.begin(0, 50, same_broker=False, controls=(), asked=unconfirmed.again())
    sent, last, waiting = drained(outbox), 5, []
    assert sent == [(4, 1), (5, 1)], (
        "events of the former life did not go first, or asked for no confirmation"
    )
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            count = data.draw(st.integers(1, 3))
            frames = [a_frame(seq) for seq in range(last + 1, last + 1 + count)]
            outbox.publish_all(unconfirmed.noted(last + 1, frames))
            last += count
            waiting.append(count)
        elif waiting:
            outbox.written(waiting.pop(0))
        sent += drained(outbox)
        assert outbox.written_seq == last - sum(waiting)
        assert [seq for seq, _ in sent] == list(range(4, outbox.written_seq + 1))
        assert all(attempt for _, attempt in sent)
    for seq in range(4, last + 1):
        unconfirmed.answered(Confirmed("p", seq, 1, kept=True))
        assert seq not in done, "an event was removed that is only in custody"
        unconfirmed.answered(Confirmed("p", seq, 1))
    assert done == list(range(4, last + 1))


def drained(outbox: Outbox) -> list[tuple[int, int]]:
    decode = wire.CLIENT_CODEC.decode_publish
    found = [decode(payload, kind) for kind, payload in FrameReader().feed(outbox.drain())]
    return [(each.publication.seq, each.confirm) for each in found]
