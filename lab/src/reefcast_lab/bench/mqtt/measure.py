"""Measure each point for every broker.

The clients of a point connect to a fresh broker. Then follow runs that warm the broker up, until it
is clear how many publications a run needs; and several runs, of which the row has the medians. The
CPU time of a run is what the broker used from before the first publication until it is quiet again,
minus its use when idle: when the last delivery has come, it has yet to read what subscribers
acknowledge."""

from __future__ import annotations

import resource
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from urllib.parse import quote

from reefcast.errors import LocalError, PeerError
from reefcast.matching import warm_up as compile_index
from reefcast.mqtt.packets import Pingreq, Publish
from reefcast_lab.bench.live.brokers import OURS
from reefcast_lab.bench.mqtt import brokers
from reefcast_lab.bench.mqtt.brokers import Running
from reefcast_lab.bench.mqtt.clients import Client, Publisher, Subscriber
from reefcast_lab.bench.mqtt.points import CONDITION, TOPIC_ONLY, Point

CPU_S, LONGEST_S = 0.3, 4.0
"""A run is so long that the broker uses so much CPU time, but not longer than `LONGEST_S`."""
ENOUGH = 1.25
"""A run is long enough if it would have to be less than so many times as long. The first ones are
slower than those behind them, and say too little of how long these last."""
FIRST, MOST = 200, 1_000_000
"""Publications of the first run, and the most of one."""
REST_S, LOOKS, PAUSE_S = 0.2, 3, 0.0002
"""Clients pause, so that the broker does not pay for waking them at each packet."""
IDLE_S, KEEP_ALIVE_S, SETTLE_S = 5.0, 60.0, 1.0
"""How long idle connections are looked at, and how often each of them sends a ping."""
STALLED_S = 60.0
QUIET_LOOK_S, QUIET_SHARE, QUIET_S = 0.05, 0.05, 10.0
"""A broker is quiet when it uses no larger share of a core than that for so long; it has so many
seconds to become so."""
OTHER_CONNECTIONS = 10
MOST_TOPICS = 1000
"""The most different topics that are published."""
OTHER_FILES = 256
"""Files of this process that are no connection."""
TOPIC = "bench/e"
PAYLOAD = b'{"price": 101.25, "volume": 3000, "symbol": "IBM", "desk": {"name": "fx"}}'
FILTER = "price > 100 AND desk.name = 'fx'"


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttFigures:
    """A row: one broker under one load (see `Point` for its fields).

    `cpu_us_per_publication`, `cpu_us_per_delivery`: the broker's CPU time in microseconds, None for
    idle connections; `cpu_spread`: the difference between the runs with the most and the least CPU,
    divided by the median. `bytes_per_connection`: memory of the broker; `idle_cpu_ms_per_s`: its
    CPU time for all idle connections, in each second. `missing`: deliveries that never came.
    `ratio`: for idle connections, the baseline's memory over the broker's; otherwise the CPU time
    per publication of the baseline over that of the broker: 2 is twice as good. The baseline is
    mosquitto, or for what mosquitto does not know, our broker without it."""

    broker: str
    publishers: int
    fanout: int
    qos: int
    others: int
    content: int
    idle: int
    cpu_us_per_publication: float | None = None
    cpu_us_per_delivery: float | None = None
    cpu_spread: float | None = None
    publications_per_s: int | None = None
    deliveries_per_s: int | None = None
    missing: int = 0
    bytes_per_connection: int | None = None
    idle_cpu_ms_per_s: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """The outcome of one run."""

    publications: int
    deliveries: int
    missing: int
    seconds: float
    cpu_s: float


def measure(
    points: Sequence[Point], repeat: int, tell: Callable[[str], None]
) -> Iterator[MqttFigures]:
    """Yield a row for each point and broker. Raises `LocalError` where this process may not open so
    many files, and `PeerError` where a broker fails."""
    points = with_baselines(points)
    _allow_files(max((max(each.idle, each.fanout + each.publishers) for each in points), default=0))
    compile_index()  # once, here; the brokers load what is kept
    costs: dict[tuple[str, Point], float | None] = {}
    for number, point in enumerate(points, 1):
        for broker in brokers.installed() if point.is_standard else [OURS]:
            tell(f"{number} of {len(points)}: {broker}, {point}")
            row = _idle(broker, point) if point.idle else _loaded(broker, point, repeat)
            costs[broker, point] = row.bytes_per_connection or row.cpu_us_per_publication
            yield replace(row, ratio=_ratio(costs, broker, point))


def with_baselines(points: Sequence[Point]) -> list[Point]:
    """Return the points, each of ours alone behind what it is to be compared with."""
    every: dict[Point, None] = {}
    for point in points:
        every |= {_baseline(point): None, point: None}
    return list(every)


def _baseline(point: Point) -> Point:
    return point if point.is_standard else replace(point, content=TOPIC_ONLY)


def _ratio(costs: dict[tuple[str, Point], float | None], broker: str, point: Point) -> float | None:
    """Return the cost of the baseline over that of this broker; None without a baseline."""
    first = brokers.MOSQUITTO if point.is_standard else OURS
    baseline, cost = costs.get((first, _baseline(point))), costs[broker, point]
    return round(baseline / cost, 3) if baseline and cost else None


def _allow_files(connections: int) -> None:
    """Let this process, and the brokers that it starts, open as many files as the machine lets
    it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and connections + OTHER_FILES > hard:
        raise LocalError(
            f"{connections:,} connections need {connections + OTHER_FILES:,} files, and a process "
            f"may open {hard:,} here: raise the limit (ulimit -Hn), or measure fewer"
        )


# --- idle connections -----------------------------------------------------------------------------


def _idle(broker: str, point: Point) -> MqttFigures:
    with brokers.running(broker) as running, ExitStack() as stack:
        stack.callback(Client(running.port, "first").socket.close)  # what all share is there now
        before = running.memory_bytes()
        clients = []
        for number in range(point.idle):
            clients.append(Client(running.port, f"idle{number}"))
            stack.callback(clients[-1].socket.close)
        time.sleep(SETTLE_S)
        more = running.memory_bytes() - before
        used_s, began = running.cpu_s(), time.monotonic()
        pings, sent = len(clients) * IDLE_S / KEEP_ALIVE_S, 0
        while (passed := time.monotonic() - began) < IDLE_S:
            while sent < pings * passed / IDLE_S:
                clients[sent % len(clients)].send_now(Pingreq())
                sent += 1
            time.sleep(0.01)
        used_s = (running.cpu_s() - used_s) / (time.monotonic() - began)
    return MqttFigures(
        broker=broker,
        **{**asdict(point), "publishers": 0, "fanout": 0},
        bytes_per_connection=round(more / point.idle),
        idle_cpu_ms_per_s=round(1e3 * used_s, 2),
    )


# --- publications ---------------------------------------------------------------------------------


def _loaded(broker: str, point: Point, repeat: int) -> MqttFigures:
    with (
        brokers.running(broker, reads_json=not point.is_standard) as running,
        connected(running, point) as session,
    ):
        count = session.warm_up()
        session.rest()
        loads = [session.run(count) for _ in range(repeat)]
    each_us = [1e6 * load.cpu_s / load.publications for load in loads]
    delivery_us = [1e6 * load.cpu_s / load.deliveries for load in loads if load.deliveries]
    return MqttFigures(
        broker=broker,
        **asdict(point),
        cpu_us_per_publication=round(median(each_us), 3),
        cpu_us_per_delivery=round(median(delivery_us), 3) if delivery_us else None,
        cpu_spread=round((max(each_us) - min(each_us)) / median(each_us), 3),
        publications_per_s=round(median(load.publications / load.seconds for load in loads)),
        deliveries_per_s=round(median(load.deliveries / load.seconds for load in loads)),
        missing=sum(load.missing for load in loads),
    )


@contextmanager
def connected(running: Running, point: Point) -> Iterator[Session]:
    """Connect the clients of a point to a broker for the `with` block."""
    with ExitStack() as stack:
        subscribers = []
        for number, filters in enumerate(_filters(point)):
            subscriber = Subscriber(running.port, f"s{number}")
            stack.callback(subscriber.socket.close)
            subscriber.subscribe(filters, point.qos)
            subscribers.append(subscriber)
        publishers = [Publisher(running.port, f"p{number}") for number in range(point.publishers)]
        for publisher in publishers:
            stack.callback(publisher.socket.close)
        made = _publications(point)
        for publisher in publishers:
            publisher.begin(made)
        for subscriber in subscribers:
            subscriber.begin(made[0])
        yield Session(running, publishers, subscribers, point.per_publication)


def _filters(point: Point) -> list[list[str]]:
    """Return the topic filters of each subscriber."""
    wide = "#" if point.others else TOPIC
    if point.content == CONDITION:
        wide = f"$filter/{quote(FILTER, safe='')}/{wide}"
    kinds = ("d/{:06}/t", "d/{:06}/+", "d/{:06}/#")
    narrow = [kinds[number % 3].format(number) for number in range(point.others)]
    others = [narrow[first::OTHER_CONNECTIONS] for first in range(OTHER_CONNECTIONS) if narrow]
    return [[wide]] * point.fanout + [each for each in others if each]


def _publications(point: Point) -> list[Publish]:
    """Return what is published, again and again; all of the same size."""
    id = 1 if point.qos else 0
    if not point.others:
        return [Publish(TOPIC, PAYLOAD, point.qos, packet_id=id)]
    step = max(1, point.others // MOST_TOPICS) | 1  # odd: all three kinds of subscriptions
    topics = [f"d/{number:06}/t" for number in range(0, point.others, step)]
    return [Publish(topic, PAYLOAD, point.qos, packet_id=id) for topic in topics]


class Session:
    """The runs of one point through one broker."""

    def __init__(
        self,
        running: Running,
        publishers: Sequence[Publisher],
        subscribers: Sequence[Subscriber],
        per_publication: int,
    ) -> None:
        self._running = running
        self._publishers, self._subscribers = publishers, subscribers
        self._per_publication = per_publication
        self._idle_share = 0.0
        self._selector = selectors.DefaultSelector()
        for client in (*publishers, *subscribers):
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def rest(self) -> None:
        """Measure how much CPU the broker uses while nothing is published: the least of some
        looks."""
        self._idle_share = min(self._share(REST_S) for _ in range(LOOKS))

    def _share(self, seconds: float) -> float:
        """Return the share of a core that the broker uses for so long."""
        before, since = self._running.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self._running.cpu_s() - before) / (time.monotonic() - since)

    def _settle(self) -> None:
        """Wait until the broker is quiet. Raises `PeerError` if it never is."""
        until = time.monotonic() + QUIET_S
        while self._share(QUIET_LOOK_S) > QUIET_SHARE:
            if time.monotonic() > until:
                raise PeerError(f"the broker is still busy {QUIET_S:g} s after the last delivery")

    def warm_up(self) -> int:
        """Run until it is clear how many publications a run needs; return that number."""
        count = FIRST
        self.run(count)  # its time says nothing: much happens for the first time
        while True:
            load = self.run(count)
            times = min(CPU_S / max(load.cpu_s, 1e-6), LONGEST_S / load.seconds)
            if times < ENOUGH or count == MOST:
                return count
            count = min(int(count * min(times, 10.0)), MOST)

    def run(self, count: int) -> Load:
        """Publish `count` events, or a few more, so that each publisher has as many as the others;
        return when all have arrived, or nothing happens any more."""
        each = -(-count // len(self._publishers))
        count = each * len(self._publishers)
        had = self._delivered()
        expected = count * self._per_publication
        before, since = self._running.cpu_s(), time.monotonic()
        for publisher in self._publishers:
            publisher.publish(each)
        self._carry(had + expected)
        passed = time.monotonic() - since
        self._settle()
        used_s = self._running.cpu_s() - before
        used_s -= self._idle_share * (time.monotonic() - since)
        came = self._delivered() - had
        return Load(count, came, expected - came, passed, max(used_s, 0.0))

    def _delivered(self) -> int:
        return sum(each.delivered for each in self._subscribers)

    def _carry(self, expected: int) -> None:
        """Carry packets until so many deliveries have come, and all publications are
        acknowledged."""
        state, moved = (-1, -1), time.monotonic()
        while True:
            for publisher in self._publishers:
                publisher.fill()
            for key, _ in self._selector.select(0.02):
                key.data.came()
            for subscriber in self._subscribers:
                if subscriber.waiting:
                    subscriber.write()
            done = sum(each.done for each in self._publishers), self._delivered()
            unsent = any(each.waiting for each in self._subscribers)
            all_done = all(each.is_done for each in self._publishers)
            if done[1] >= expected and all_done and not unsent:
                return
            if done != state:
                state, moved = done, time.monotonic()
            elif time.monotonic() - moved > STALLED_S:
                return
            time.sleep(PAUSE_S)
