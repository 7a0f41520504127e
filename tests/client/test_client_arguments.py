"""Arguments as a new user writes them, and the errors: the asyncio client and its synchronous
twin."""

from __future__ import annotations

import asyncio
import warnings

import pytest
from fake_broker import FakeBroker

import reefcast
from live_networks import path_network, running
from reefcast.model.wire import FrameKind

ADVICE = r"a filter is a text, and this is a list; subscribe takes several .* subscribe\(\*filters"
QUOTED = '"IBM" is the name of an attribute'


async def test_asyncio() -> None:
    async with FakeBroker() as broker, reefcast.connect(broker.url) as client:
        for call in (client.subscribe, client.advertise, client.history):
            with pytest.raises(reefcast.LocalError, match=ADVICE):
                call(["x = 1", "x = 2"])
        with pytest.raises(reefcast.LocalError, match=ADVICE):
            client.subscribe("x = 1", ["x = 2"], replay=True)
        with pytest.raises(reefcast.LocalError, match=r"is a Filter; write its text: filter.text"):
            client.subscribe(reefcast.parse_filter("x = 1"))
        with pytest.raises(reefcast.LocalError, match="this is a int; write it as in"):
            client.subscribe(5)
        with pytest.raises(reefcast.InvalidValueError, match=r"write publish\(text="):
            await client.publish("text")
        assert not broker.controls


async def test_the_twin() -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            for call in (client.subscribe, client.advertise, client.history):
                with pytest.raises(reefcast.LocalError, match=ADVICE):
                    call(["x = 1", "x = 2"])
            with pytest.raises(reefcast.InvalidValueError, match=r"write publish\(text="):
                client.publish("text")
            with pytest.warns(reefcast.FilterWarning, match=QUOTED):
                client.subscribe('symbol = "IBM"')

    async with running(path_network(1)) as [url]:
        await asyncio.to_thread(work, url)


async def test_what_looks_like_a_mistake_is_warned_of_where_it_is_written() -> None:
    async with FakeBroker() as broker, reefcast.connect(broker.url) as client:
        with pytest.warns(reefcast.FilterWarning, match=QUOTED) as told:
            subscription = await client.subscribe("x = 1", 'symbol = "IBM"')
        assert [warning.filename for warning in told] == [__file__]
        with pytest.warns(reefcast.FilterWarning, match="no event can match it"):
            await subscription.add("price > 5 AND price < 3")
        with pytest.warns(reefcast.FilterWarning, match="the number is written 100"):
            client.advertise("price > '100'")
        with pytest.warns(reefcast.FilterWarning, match=QUOTED):
            client.history("topic = 'fx' AND symbol = \"IBM\"")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await client.subscribe("symbol = 'IBM' AND price > 100", "code = '100'")


class Noting(FakeBroker):
    """A broker that notes the kinds of frames in their order."""

    def __init__(self) -> None:
        super().__init__(credit=1)
        self.tops_up = False
        self.kinds: list[int] = []

    def _on_frame(self, kind: int, payload: bytes) -> None:
        self.kinds.append(kind)
        super()._on_frame(kind, payload)


async def test_the_twin_sends_what_was_published_before_an_advertisement_before_it() -> None:
    """Publications that wait for credit would be judged by an advertisement that overtook them."""
    published = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        with reefcast.sync.connect(broker.url) as client:
            for i in range(5):
                client.publish(i=i)
            loop.call_soon_threadsafe(published.set)
            client.advertise("i = 9").settled()

    async with Noting() as broker:
        working = asyncio.create_task(asyncio.to_thread(work))
        await published.wait()
        await asyncio.sleep(0.1)  # time for the advertisement to go wrong
        broker.send(FrameKind.CREDIT, 4)
        await working
    said = [kind for kind in broker.kinds if kind in (FrameKind.PUBLISH, FrameKind.CONTROL)]
    assert said == [FrameKind.PUBLISH] * 5 + [FrameKind.CONTROL]
