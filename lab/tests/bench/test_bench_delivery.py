"""The benchmark of confirmed delivery: each protocol with its broker, and the load that all
share."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from reefcast.errors import PeerError
from reefcast_lab.bench.delivery import amqp, brokers, load, measure, mqtt, nats, page
from reefcast_lab.bench.delivery.brokers import BROKERS
from reefcast_lab.bench.delivery.events import some_bodies
from reefcast_lab.bench.delivery.measure import Delivery, Sizes, bench
from reefcast_lab.bench.delivery.wires import Consumer, Publisher
from reefcast_lab.cli.bench import command

SMALL = Sizes(0.02, 500, 0)


@pytest.mark.live
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.soak) if name == "rabbitmq" else name  # 25 s to start
        for name in BROKERS
    ],
)
def test_each_broker_confirms_delivers_drains_and_leaves_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := brokers.missing(name):
        pytest.skip(why)
    monkeypatch.setattr(measure, "CONFIRMING", ((1, 1), (2, 50)))
    monkeypatch.setattr(measure, "SESSIONS", (1, 3))
    pids = []
    begin = measure._Bench.__init__

    def note(self: measure._Bench, name: str, running: brokers.Running, *rest: object) -> None:
        pids.append(running.pid)
        begin(self, name, running, *rest)
        self._wire.make_idle(3)

    monkeypatch.setattr(measure._Bench, "__init__", note)
    told: list[str] = []
    rows = list(bench([name], SMALL, told.append))
    assert [(row.what, row.publishers, row.window, row.sessions) for row in rows] == [
        ("confirm", 1, 1, 1),
        ("confirm", 2, 50, 1),
        ("deliver", 1, 1000, 1),
        ("deliver", 1, 1000, 3),
        ("drain", 0, 0, 1),
    ]
    assert {(row.broker, row.syncs) for row in rows} == {(name, BROKERS[name].syncs)}
    for row in rows[:4]:
        assert row.confirmed_per_s and row.p50_us and row.p99_us
        assert row.p50_us <= row.p99_us
    assert rows[2].delivered_per_s and rows[3].delivered_per_s and rows[4].delivered_per_s
    assert told[0] == f"{name}: starting" and told[-1] == f"{name}: draining 500"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.live
def test_memory_with_idle_sessions() -> None:
    if why := brokers.missing("mosquitto"):
        pytest.skip(why)
    with brokers.running("mosquitto") as running:
        row = measure._idle("mosquitto", running, 5)
    assert (row.what, row.sessions) == ("idle", 5)
    assert row.memory_mb and row.more_mb is not None and row.more_mb <= row.memory_mb


def test_rows_as_json_and_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    row = measure.Delivery("confirm", "reefcast", "much", 1, 1, 1, 20_000, 3.5, 9.0)
    asked: list[object] = []

    def fake(names: list[str], sizes: Sizes, tell: Callable[[str], None]) -> list[measure.Delivery]:
        asked.append((names, sizes))
        return [row]

    monkeypatch.setattr(measure, "bench", fake)
    monkeypatch.setattr(brokers, "missing", lambda name: "no such disk" if name == "nats" else "")
    names = ("--broker", "nats", "--broker", "reefcast")
    arguments = ["delivery", *names, "--seconds", "2", "--backlog", "5", "--idle", "0", "--json"]
    done = CliRunner().invoke(command, arguments)
    assert (done.exit_code, asked) == (0, [(["reefcast"], Sizes(2.0, 5, 0))])
    assert "nats is left out: no such disk" in done.output
    [shown] = json.loads(done.output.splitlines()[0])
    assert (shown["broker"], shown["confirmed_per_s"], shown["p50_us"]) == ("reefcast", 20_000, 3.5)
    wrong = CliRunner().invoke(command, ["delivery", "--broker", "kafka"])
    assert wrong.exit_code == 2 and "there is no broker 'kafka'" in wrong.output


# --- the load, against an echo that says what it is told ------------------------------------------


class LinePublisher(Publisher):
    """A publisher that sends a line for each number, and is told the confirmed numbers."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._rest = b""
        self.open = 0
        self.most_open = 0

    def publish(self, first: int, count: int) -> bytes:
        self.open += count
        self.most_open = max(self.most_open, self.open)
        return b"".join(b"%d\n" % number for number in range(first, first + count))

    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.open -= len(lines)
        return [int(line) for line in lines], b""


class LineConsumer(Consumer):
    def take(self, data: bytes) -> tuple[int, bytes]:
        return data.count(b"\n"), b""


def echo(connection: socket.socket, to: socket.socket | None = None) -> None:
    while data := connection.recv(100):
        connection.sendall(data)
        if to is not None:
            to.sendall(data)


def test_windows_are_kept_and_every_publication_is_confirmed_and_delivered() -> None:
    (one, its), (two, other) = socket.socketpair(), socket.socketpair()
    consuming, delivering = socket.socketpair()
    for end in (its, other):
        threading.Thread(target=echo, args=(end, delivering), daemon=True).start()
    publishers = [LinePublisher(one), LinePublisher(two)]
    measured = load.run(publishers, [LineConsumer(consuming)], window=7, count=500)
    assert (measured.confirmed, measured.delivered, len(measured.delays_s)) == (1000, 1000, 1000)
    assert [each.most_open for each in publishers] == [7, 7]
    assert measured.confirming_s > 0 and measured.delivering_s > 0
    low, high = measured.percentile_us(0.5), measured.percentile_us(0.99)
    assert low is not None and high is not None and 0 < low <= high


def test_credit_is_kept_and_a_broker_that_goes_on_with_nothing_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "STALLED_S", 0.05)
    one, its = socket.socketpair()
    publisher = LinePublisher(one)
    publisher.credit = 3
    with pytest.raises(PeerError, match="nothing has happened"):
        load.run([publisher], [], window=7, count=500)
    assert its.recv(100) == b"1\n2\n3\n"
    two, other = socket.socketpair()
    other.close()
    with pytest.raises(PeerError, match="closed a connection"):
        load.run([LinePublisher(two)], [], window=7, count=500)


# --- readers of what brokers say, cut anywhere ----------------------------------------------------


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", range(1, 20))
def test_messages_are_cut_from_reads_of_any_size(size: int) -> None:
    said = b"INFO {}\r\nMSG a.1 1 back 3\r\nx\r\n\r\nPING\r\nMSG b 1 0\r\n\r\n"
    reader, found, answers = nats.Reader(), [], b""
    for part in in_pieces(said, size):
        found += reader.feed(part)
        answers += reader.answer
    assert (found, answers) == ([(b"a.1", b"back", b"x\r\n"), (b"b", b"", b"")], b"PONG\r\n")

    packets = mqtt.Packets()
    said = b"\x20\x02\x00\x00" + b"\x32\xc8\x01" + bytes(200) + b"\x40\x02\x00\x07"
    found_packets = [each for part in in_pieces(said, size) for each in packets.feed(part)]
    assert found_packets == [(2, b"\x00\x00"), (3, bytes(200)), (4, b"\x00\x07")]

    frames = amqp.Frames()
    ack = amqp._method(amqp.ACK, amqp._ACK.pack(9, 1))
    said = ack + amqp._frame(amqp.BODY, b"body")
    found_frames = [each for part in in_pieces(said, size) for each in frames.feed(part)]
    assert found_frames == [(amqp.METHOD, ack[7:-1]), (amqp.BODY, b"body")]


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(PeerError, match="nats-server says"):
        nats.Reader().feed(b"-ERR 'Authorization Violation'\r\n")
    closed = amqp._method((10, 50), b"\x01\x40" + b"\x05no" + bytes(4), 0)
    with pytest.raises(PeerError, match="RabbitMQ closes"):
        list(amqp.Frames().feed(closed))


def test_bodies_are_of_one_size() -> None:
    sizes = {len(body) // 50 for body in some_bodies()}
    assert len(some_bodies()) == 1000 and len(sizes) <= 2


def test_the_page_has_a_line_for_each_row_and_no_numbers_where_there_are_none() -> None:
    rows = [
        Delivery("confirm", "nats", "", 100, 1000, 1, 12345, 66.93, 26606.0, None, 6.26),
        Delivery("drain", "nats", "", sessions=1, delivered_per_s=188303, broker_cpu_us=5.51),
        Delivery("idle", "nats", "", sessions=10_000, memory_mb=435.1, more_mb=9.6),
    ]
    lines = page.figures(rows).splitlines()
    assert lines[2:4] == [
        "| confirm | nats | 100 | 1,000 | 1 | 12,345 | 66.9 | 26,606 |  | 6.26 |",
        "| drain | nats |  |  | 1 |  |  |  | 188,303 | 5.51 |",
    ]
    assert lines[-1] == "| nats | 10,000 | 435 | 9.6 |"
    assert "idle" not in page.figures(rows[:2])
