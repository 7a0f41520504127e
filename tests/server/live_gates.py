"""Brokers that reach some of the others only through gates, which can be shut."""

from __future__ import annotations

import asyncio

from live_brokers import Live, Proxy, as_seen

from reefcast.network.file import NetworkFile


class Gate(Proxy):
    """A proxy that can be `shut`, and opened again with `reopen`. `late_s`: how much later the
    second end of a connection learns that the first one has ended it."""

    def __init__(self, target: tuple[str, int], late_s: float) -> None:
        super().__init__(target)
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._late_s = late_s
        self._dialled: set[asyncio.StreamWriter] = set()

    def shut(self, *, ends: bool, refuses: bool) -> None:
        """Shut the gate. `ends`: break the connections; otherwise nothing passes any more, not even
        their end. `refuses`: new connections end at once; otherwise they are never answered."""
        self._refuses = refuses
        self._open.clear()
        if ends:
            self.cut()

    def reopen(self) -> None:
        self._open.set()

    def reset(self) -> None:
        """Break all connections; the dialling ends learn of it first."""
        for writer in self._dialled:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open.is_set():
            self._dialled.add(writer)
            await super()._serve(reader, writer)
            self._dialled.discard(writer)
            return
        while not self._refuses and await reader.read(4096):
            pass
        writer.transport.abort()

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        await super()._pass_on(data, writer)

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        await asyncio.sleep(self._late_s)
        await super()._end(writer)


class Gates:
    """The brokers of `network`; those outside a broker's part reach it through a gate. `parts`:
    strings of names; a broker that is in none is a part of its own."""

    def __init__(self, live: Live, network: NetworkFile, *parts: str, late_s: float = 0.0) -> None:
        self._live = live
        self._network = network
        self._parts = parts
        self._gates = {name: Gate(network.address(name), late_s) for name in network.names}

    async def __aenter__(self) -> Gates:
        for gate in self._gates.values():
            await gate.start()
        for name in self._network.names:
            others = {x: gate.port for x, gate in self._gates.items() if self._apart(x, name)}
            await self._live.node(as_seen(self._network, others), name)
        return self

    async def __aexit__(self, *error: object) -> None:
        for gate in self._gates.values():
            gate.reopen()
            await gate.stop()

    def _apart(self, one: str, other: str) -> bool:
        return one != other and not any(one in part and other in part for part in self._parts)

    def shut(self, *, ends: bool, refuses: bool) -> None:
        for gate in self._gates.values():
            gate.shut(ends=ends, refuses=refuses)

    def reopen(self) -> None:
        for gate in self._gates.values():
            gate.reopen()

    def reset(self) -> None:
        for gate in self._gates.values():
            gate.reset()
