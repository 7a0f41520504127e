"""Bytes that Spark reads from a network, with and without what is left out at the storage.

A broker with a history runs in this process; Spark reaches it through a relay that counts what
comes from it. Each way of asking reads the same quotes, and says how many rows it got."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import reefcast.spark
from reefcast import sync, testing
from reefcast.pipeline.session import spark_session
from reefcast_lab.bench.quotes import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "quotes"
ATTRIBUTES, PAYLOAD = 20, b"x" * 100
COLUMNS = "symbol STRING, price DOUBLE, open DOUBLE, high DOUBLE, low DOUBLE, volume BIGINT"
NARROW = "symbol STRING, price DOUBLE"
EITHER = "symbol = 'S007' OR price > 990"
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class SparkBytes:
    """One way of asking for `events` stored events: `rows` came, and `wire_bytes` from the
    network. `share`: of what everything takes."""

    asked: str
    events: int
    rows: int
    wire_bytes: int
    share: float


def bench_bytes(count: int, master: str) -> Iterator[SparkBytes]:
    """Measure each way of asking for some of `count` quotes."""
    with testing.broker(history=True) as broker, spark_session("spark bytes", master) as spark:
        with sync.connect(broker.url) as client:
            for event in events(count, ATTRIBUTES):
                client.publish(event, topics=[TOPIC], payload=PAYLOAD)
            client.flush()
        broker.stored(count)
        reefcast.spark.register(spark)
        with relayed(broker.url) as relay:
            whole = 0
            for asked, frame in _asked(spark, relay.url):
                before = relay.bytes
                rows = len(frame.collect())
                taken = relay.bytes - before
                whole = whole or taken
                yield SparkBytes(asked, count, rows, taken, taken / whole)


def _asked(spark: SparkSession, url: str) -> Iterator[tuple[str, DataFrame]]:
    """Yield what is measured; each loads a table of its own, since Spark keeps what a reader
    planned with the table."""

    def table(columns: str, **options: bool | str) -> DataFrame:
        reader = spark.read.format("reefcast").options(url=url, subscribe=TOPIC, **options)
        return (reader.schema(columns) if columns else reader).load()

    yield "everything", table("")
    yield "two columns, `.schema(...)`", table(NARROW)
    yield "six columns, `where(...)`", table(COLUMNS).where("price > 990")
    yield "the same with `pushdown`", table(COLUMNS, pushdown=True).where("price > 990")
    yield (
        "six columns, an OR in `where(...)`, with `pushdown`",
        table(COLUMNS, pushdown=True).where(EITHER),
    )
    yield "the same OR in the option `filter`", table(COLUMNS, filter=EITHER)
    yield "two columns, and the option `filter`", table(NARROW, filter=EITHER)
    yield "six columns, `LIMIT 10`", table(COLUMNS).limit(10)


# --- counting -------------------------------------------------------------------------------------


class Relay:
    """Passes connections on to a broker. `bytes`: how many came from the broker so far."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("reefcast://").rpartition(":")
        self._broker = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"reefcast://127.0.0.1:{self._listening.getsockname()[1]}"
        self.bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening; open connections end with their clients."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            broker = socket.create_connection(self._broker)
            for args in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if counted:
                    self.bytes += len(data)
                target.sendall(data)
        except OSError:
            pass  # the other side has gone
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(url: str) -> Iterator[Relay]:
    """Run a relay to the broker at `url`."""
    relay = Relay(url)
    try:
        yield relay
    finally:
        relay.close()
