"""Numbered frames that wait for their acknowledgement."""

from __future__ import annotations

import pytest

from reefcast.errors import ProtocolError
from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.protocol.window import SendWindow


def publish(seq: int) -> Publish:
    return Publish(Publication("p", seq, 0, {}))


def test_acknowledged_frames_are_not_sent_again():
    window = SendWindow()
    for n in range(4):
        window.add_sent(b"%d" % n, publish(n) if n % 2 else None)
    assert window.queue_len == 2
    window.acknowledged(2)
    assert window.queue_len == 1
    assert window.resume() == [b"2", b"3"]


def test_an_acknowledgement_counts_all_before_it_and_may_come_twice():
    window = SendWindow()
    window.add_sent(b"a", None)
    window.acknowledged(1)
    window.acknowledged(1)
    window.acknowledged(0)
    assert window.all_acknowledged


def test_an_acknowledgement_of_what_was_not_sent_is_an_error():
    window = SendWindow()
    window.add_sent(b"a", None)
    window.add_waiting(b"b", None, 10)
    with pytest.raises(ProtocolError, match="only 1 were sent"):
        window.acknowledged(2)


def test_what_waits_goes_after_what_was_sent():
    window = SendWindow()
    window.add_sent(b"a", publish(1))
    window.add_waiting(b"b", publish(2), 10)
    window.add_waiting(b"c", None, 10)
    assert window.queue_len == 2
    assert window.resume() == [b"a", b"b", b"c"]
    window.acknowledged(3)
    assert window.queue_len == 0


def test_the_oldest_waiting_publication_makes_room_and_control_stays():
    window = SendWindow()
    window.add_sent(b"sent", publish(1))
    assert window.add_waiting(b"control", None, 2) is None
    assert window.add_waiting(b"2", publish(2), 2) is None
    assert window.add_waiting(b"3", publish(3), 2) is None
    dropped = window.add_waiting(b"4", publish(4), 2)
    assert dropped is not None and dropped.publication.seq == 2
    assert window.queue_len == 3
    assert window.resume() == [b"sent", b"control", b"3", b"4"]


def test_what_would_be_lost():
    window = SendWindow()
    window.add_sent(b"1", publish(1))
    window.add_sent(b"c", None)
    window.add_waiting(b"2", publish(2), 2)
    assert [each.publication.seq for each in window.publications()] == [1, 2]
