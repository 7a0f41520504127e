"""A client that speaks JSON lines (`json_lines`), with the methods of `RawClient`."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any, Self

from raw_client import PATIENCE_S


class JsonClient:
    """One connection. `inbox`: the lines that came and were not asked for yet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str):
        self.name = name
        self.reader, self.writer = reader, writer
        self.inbox: list[dict[str, Any]] = []
        self.numbers, self.tokens, self.seqs = (itertools.count(1) for _ in range(3))
        self.welcome: dict[str, Any] = {}

    @classmethod
    async def dial(cls, port: int, name: str) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24), name)

    @classmethod
    async def connect(cls, port: int, name: str, **wishes: Any) -> Self:
        client = await cls.dial(port, name)
        client.say_hello(**wishes)
        client.welcome = await client.next("welcome", "close")
        return client

    def say_hello(self, **wishes: Any) -> None:
        self.say(**{"hello": self.name, "session": "s", **wishes})

    def say(self, **said: Any) -> None:
        self.writer.write(json.dumps(said).encode() + b"\n")

    def publish(self, count: int = 1, **attributes: Any) -> None:
        for seq in itertools.islice(self.seqs, count):
            self.say(publish={"n": seq, **attributes}, seq=seq)

    async def ask(self, **said: Any) -> int:
        """Send a request and return its number. Raises `ValueError` if it is refused."""
        number, token = said.get("number") or next(self.numbers), next(self.tokens)
        self.say(**{**said, "number": number, "token": token})
        answer = await self.next("settled", "refused")
        if "refused" in answer:
            raise ValueError(answer["reason"])
        return number

    async def subscribe(self, filter: str = "TRUE") -> int:
        return await self.ask(subscribe=filter)

    async def unsubscribe(self, number: int) -> None:
        await self.ask(unsubscribe=True, number=number)

    async def advertise(self, filter: str = "TRUE") -> None:
        await self.ask(advertise=filter)

    async def next(self, *kinds: str) -> dict[str, Any]:
        """Return the next line with one of these keys. Raises `ConnectionError` at the end."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for said in self.inbox:
                    if any(kind in said for kind in kinds):
                        self.inbox.remove(said)
                        return said
                data = await self.reader.readline()
                if not data:
                    raise ConnectionResetError
                self.inbox.append(json.loads(data))
