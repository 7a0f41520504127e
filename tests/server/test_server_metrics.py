"""What /metrics says, beside what the broker has counted and what was done to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from live_brokers import Live
from prometheus_client.parser import text_string_to_metric_families

import reefcast
from asking_http import OPENMETRICS, Labels, ask, labels, scrape, with_admin
from live_networks import make_network, path_network, until, url_of
from reefcast.model.messages import Confirmed
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection
from reefcast.routing.registry import ROUTINGS
from reefcast.server.metrics import collecting, rendering, sampling, summing
from reefcast.server.metrics import definitions as of
from reefcast.server.metrics.collecting import Collector
from reefcast.server.metrics.definitions import COUNTED, METRICS, OF_PROCESS, Metric
from reefcast.server.metrics.histograms import Histogram
from reefcast.server.metrics.rendering import rendered
from reefcast.server.metrics.sampling import MOST_AWAITED, Samples
from reefcast.server.node import Node

NONE: Labels = frozenset()
Scraped = dict[str, dict[Labels, float]]


def value(found: Scraped, metric: Metric, **by: str) -> float:
    return found[metric.name][labels(**by)]


def url(node: Node) -> str:
    return url_of(node.network, node.name)


def durable(network: NetworkFile, folder: Path) -> NetworkFile:
    network.sessions = SessionsSection(directory=str(folder))
    return network


async def test_what_is_done_is_what_is_told(live: Live) -> None:
    network = with_admin(path_network(2))
    first, second = (await live.up(network)).values()
    async with reefcast.connect(url(first)) as near, reefcast.connect(url(second)) as far:
        subscription = await far.subscribe("price > 10")
        await subscription.settled()
        await near.advertise("price > 0")
        for price in range(1, 31):
            await near.publish(price=price)
        async with asyncio.timeout(60):
            for _ in range(20):
                await anext(subscription)
        await until(lambda: not first.links["b2"].queue.window.queue_len)
        here, there = await scrape(first), await scrape(second)
    assert value(here, of.RECEIVED, source="clients") == 30
    assert value(here, of.FORWARDED) == value(here, of.LINK_SENT, link="b2") == 20
    assert value(here, of.UNWANTED) == 10
    assert value(there, of.RECEIVED, source="neighbours") == 20
    assert value(there, of.LINK_RECEIVED, link="b1") == value(there, of.DELIVERED) == 20
    assert value(there, of.SUBSCRIPTIONS) == value(here, of.ADVERTISEMENTS) == 1
    assert value(here, of.TABLE_ROWS, table="PRT") == 1
    assert value(here, of.LINK_UP, link="b2") == value(here, of.READY) == 1
    assert value(here, of.CONNECTIONS, role="client") == 1
    assert value(here, of.CONNECTIONS, role="broker") == 1
    assert value(here, of.CONNECTIONS, role="http") == 1
    assert value(here, of.CLIENTS, state="connected") == 1
    assert 0 < value(here, of.CREDIT) <= 4096
    delays = there["reefcast_delivery_delay_seconds_count"][NONE]
    assert 0 < delays <= 20
    assert 0 < here["reefcast_matching_seconds_count"][NONE] <= 30
    assert 0 < here["reefcast_matching_seconds_sum"][NONE] < 10


async def test_durable_sessions_and_the_disk(live: Live, tmp_path: Path) -> None:
    node = await live.node(durable(with_admin(path_network(1)), tmp_path), "b1")
    async with reefcast.connect(url(node)) as client:
        session = await client.session("billing")
        await session.subscribe("a = 1")
        for _ in range(5):
            await client.publish(a=1, confirm=True)
        found = await scrape(node)
    assert value(found, of.DURABLE) == 1
    assert value(found, of.BACKLOG) == value(found, of.BACKLOG_MOST) == 5
    assert value(found, of.STORED) == 5
    assert value(found, of.DURABLE_EVENTS, kind="created") == 1
    assert 0 < value(found, of.BACKLOG_AGE) < 240
    assert value(found, of.DISK_BYTES) > 1000 < value(found, of.DISK_FREE)
    assert value(found, of.FAILING) == 0
    assert found["reefcast_confirmation_seconds_count"][NONE] == 5
    assert found["reefcast_disk_commit_seconds_count"][NONE] >= 5


async def test_a_client_that_does_not_keep_up(live: Live) -> None:
    node = await live.node(with_admin(path_network(1, queue_limit=10)), "b1")
    client = await live.client(node, "slow")
    await client.subscribe("TRUE")
    session = node.clients.sessions["slow"]
    session.port.paused = True  # as if the system took no more for it
    async with reefcast.connect(url(node)) as publisher:
        for number in range(25):
            await publisher.publish(n=number)
        await until(lambda: session.port.dropped == 15)
        found = await scrape(node)
    session.port.resume()
    assert value(found, of.QUEUED) == value(found, of.QUEUED_MOST) == 10
    assert value(found, of.DROPPED, reason="queue_full") == 15
    assert value(found, of.SLOW) == value(found, of.SLOW_TOTAL) == 1


async def test_every_counter_is_told_once(live: Live) -> None:
    """Whatever the broker counts is in one metric, and in one only."""
    node = await live.node(with_admin(path_network(1)), "b1")
    kinds = [*COUNTED, *collecting.OF_SESSIONS, "idr_case_1", "quenched"]
    kinds.remove("retained_refused")  # a figure of a service
    for number, kind in enumerate(kinds, 1):
        counters = node.host.core.counters if number % 2 else node.host.journal.counters
        counters[kind] = 10_000 + number
    found = await scrape(node)
    totals = [
        int(count)
        for name, samples in found.items()
        if name.startswith("reefcast_") and name.endswith("_total")
        for count in samples.values()
        if count >= 10_000
    ]
    assert sorted(totals) == [10_000 + number for number in range(1, len(kinds) + 1)]
    assert value(found, of.EVENTS, event="idr_case_1") > 10_000


@pytest.mark.parametrize("routing", ROUTINGS)
async def test_only_what_is_defined_in_every_routing(
    live: Live, routing: str, tmp_path: Path
) -> None:
    """Names, labels and kinds are those of the reference page, in both formats."""
    if routing in ("spr", "idr", "spr-mesh", "idr-mesh"):
        return  # they need a SCOT, and have the same parts
    gossip = routing == "gossip"
    links, options = ([], {"contacts": ["a"]}) if gossip else ([("a", "b")], None)
    network = make_network("ab", links, routing=routing, options=options)
    node = await live.node(durable(with_admin(network), tmp_path), "a")
    said = await ask(node)
    assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
    defined = {name: metric for metric in METRICS for name in metric.sample_names}
    seen: set[str] = set()
    for family in text_string_to_metric_families(said.body.decode()):
        for sample in family.samples:
            metric = defined.get(sample.name)
            if metric is None:
                assert sample.name in OF_PROCESS
                continue
            seen.add(sample.name)
            assert family.type == metric.kind
            assert family.documentation == metric.help
            assert set(sample.labels) - {"le"} == set(metric.labels)
    missing = set(defined) - seen - set(of.CERTIFICATE.sample_names) - set(of.EVENTS.sample_names)
    per_link = {name for name in missing if "link" in name}
    assert missing == (per_link if gossip else set())
    openmetrics = await scrape(node)
    assert seen <= set(openmetrics)


async def test_unescaped_it_is_the_same(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await live.node(with_admin(path_network(2)), "b1")
    figures = await Collector(node).figures()
    monkeypatch.setattr(rendering, "_process", lambda: rendering._Families([]))
    for accept in ("", "text/plain;version=1.0.0", OPENMETRICS["Accept"]):
        plain = rendered(figures, accept)
        with monkeypatch.context() as escaping:
            escaping.setattr(rendering, "AS_THEY_ARE", {})
            assert rendered(figures, accept) == plain


async def test_names_of_others_make_no_new_samples(live: Live) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    await live.client(node, "the first")  # it is logged, and so counted, that it connects
    before = {name: set(samples) for name, samples in (await scrape(node)).items()}
    for number in range(30):
        client = await live.client(node, f"c{number}")
        await client.subscribe(f"topic MATCHES 'a/{number}/#' AND b{number} = 1")
    after = {name: set(samples) for name, samples in (await scrape(node)).items()}
    assert after == before


def test_many_links_are_summed_up() -> None:
    named = dict.fromkeys(["a", "b"])
    figures = list(collecting._by_link(of.LINK_SENT, {"a": 1, "x": 2, "y": 3}, named))
    assert [(each.labels, each.value) for each in figures] == [
        (("a",), 1),
        (("b",), 0),
        (("others",), 5),
    ]


async def test_a_scrape_lets_others_have_their_turn(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    for number in range(3):
        await live.client(node, f"c{number}")
    monkeypatch.setattr(summing, "SLICE", 1)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    turns = 0
    await Collector(node).figures()
    counting.cancel()
    assert turns >= 6  # between three connections, three sessions and three clients


async def test_sums_that_were_dear_are_kept(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await live.node(with_admin(path_network(1)), "b1")
    now, cpu, collector = [0.0], [0.0], Collector(node)

    def thread_time() -> float:
        cpu[0] += step
        return cpu[0]

    monkeypatch.setattr(summing, "monotonic", lambda: now[0])
    monkeypatch.setattr(summing, "thread_time", thread_time)

    async def clients() -> float:
        figures = await collector.figures()
        return sum(each.value for each in figures if each.metric is of.CLIENTS)

    step = 0.0001
    await live.client(node, "a")
    assert await clients() == 1
    await live.client(node, "b")
    assert await clients() == 2, "it was cheap"
    step = 1.0
    now[0] += 1
    assert await clients() == 2
    await live.client(node, "c")
    now[0] += 99
    assert await clients() == 2, "it took a second or more"
    now[0] += 1000
    assert await clients() == 3


async def test_a_broker_without_it_samples_nothing(live: Live) -> None:
    node = await live.node(path_network(1), "b1")
    assert node.door is None
    assert node.host.samples is None


# --- samples -------------------------------------------------------------------------------------


async def test_one_read_is_looked_at_and_then_none_for_a_while(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "PAUSE_S", 3600.0)
    node = await live.node(with_admin(path_network(1)), "b1")
    samples = node.host.samples
    assert samples is not None
    async with reefcast.connect(url(node)) as client:
        subscription = await client.subscribe("a > 0")
        await subscription.settled()
        await client.advertise("TRUE")
        for number in range(1, 21):
            await client.publish(a=number)
            await anext(subscription)
            assert samples.delivery.count == 1
        assert samples.matching.count == 1
        samples._arm()
        await client.publish(a=21)
        await anext(subscription)
        assert samples.delivery.count == samples.matching.count == 2
        assert not samples.armed
        assert not samples.watching


async def test_confirmations_are_awaited_once_and_not_for_ever() -> None:
    samples = Samples()
    for seq in range(1, 10):
        samples.expect(("p", seq), 10.0)
    samples.expect(("p", 1), 12.0)  # sent again
    samples.confirmed(Confirmed("p", 1, 1, more=1), 13.0)
    assert samples.confirmation.count == 2
    assert samples.confirmation.total == pytest.approx(6.0)
    samples.confirmed(Confirmed("q", 3, 1), 13.0)
    samples.confirmed(Confirmed("p", 1, 1, more=99), 14.0)
    assert samples.confirmation.count == MOST_AWAITED
    assert not samples._awaited


async def test_what_is_never_confirmed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, now = Samples(), [1000.0]
    monkeypatch.setattr(sampling, "monotonic", lambda: now[0])
    for publisher in range(1000):
        samples.expect((f"p{publisher}", 1), 1000.0)
    samples.tick()
    assert samples._awaited
    now[0] += sampling.FORGET_S + 1
    samples.tick()
    assert not samples._awaited
    assert samples.confirmation.count == sampling.MOST_PUBLISHERS


@pytest.mark.parametrize("seed", range(5))
def test_a_histogram_counts_as_a_list_does(seed: int) -> None:
    import random

    rng = random.Random(seed)
    histogram, plain = Histogram((0.1, 0.5, 1.0)), list[float]()
    for _ in range(200):
        one, times = rng.choice((0.0, 0.1, 0.100001, 0.7, 1.0, 9.0)), rng.randrange(3)
        histogram.observe(one, times)
        plain += [one] * times
    assert dict(histogram.buckets()) == {
        "0.1": sum(each <= 0.1 for each in plain),
        "0.5": sum(each <= 0.5 for each in plain),
        "1.0": sum(each <= 1.0 for each in plain),
        "+Inf": len(plain),
    }
    assert histogram.count == len(plain)
    assert histogram.total == pytest.approx(sum(plain))


def test_each_metric_has_a_name_of_its_own_by_the_conventions() -> None:
    names = Counter(name for metric in METRICS for name in metric.sample_names)
    assert set(names.values()) == {1}
    for metric in METRICS:
        assert metric.name.startswith("reefcast_")
        assert metric.name.endswith("_total") is (metric.kind == "counter"), metric
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")
        assert not any(part in metric.name for part in ("_ms", "_us", "_mb", "_kb", "_percent"))
        assert not metric.help.endswith(".")
