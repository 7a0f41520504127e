"""A whole overlay on one machine: a process for each broker and each storage, watched.

    async with Overlay(network) as overlay:   # all brokers run, all links are up
        ...
        await overlay.kill("b3")              # as by `kill -9`
        await overlay.start("b3")             # if it is not restarted by itself

A broker that dies is restarted with the links that exist by then; see `child`. Storages start after
the brokers, and stop after them, so that they store what brokers have taken over. They come, go and
change their topics as the network file says (`reefcast network move-storages`)."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reefcast.errors import PeerError, ReefcastError
from reefcast.matching import warm_up
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.listeners import ListenerEntry
from reefcast.network.rewriting import replace_text
from reefcast.network.sections import BrokerEntry, StorageEntry
from reefcast.network.watching import Watched
from reefcast.protocol.proofs import Credentials
from reefcast.server.admin import UNASKED, ask_all, ask_status, asking, operator_of, owner_of
from reefcast.server.child import START_S, Child
from reefcast.server.following import users_of
from reefcast.server.storages import storages_known, unanswered
from reefcast.server.tracing import describe_run
from reefcast.tls.files import NOTHING, TlsFiles
from reefcast.traces.files import remove_former_run, write_run

STOP_S = 5.0
POLL_S = 0.05
PORTS = range(10_000, 32_000)
"""Ports to choose from. Systems use higher ones for outgoing connections, one of which might get
the port of a broker before it listens, or while it restarts."""
_numbers = itertools.count(random.randrange(len(PORTS)))
"""Where in `PORTS` to look next."""
FOLLOW_S = 0.2
"""Seconds between two looks at the network file."""


def free_ports(count: int) -> list[int]:
    """Return ports on loopback that are free now, and that no other call of this process had."""
    numbers = itertools.islice(_numbers, len(PORTS))
    candidates = (PORTS[number % len(PORTS)] for number in numbers)
    return list(itertools.islice(filter(_is_free, candidates), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _no_report(line: str) -> None:
    pass


class Overlay:
    """All brokers and storages of `network`, as processes of this machine.

    `restart`: whether a process that dies is restarted. `file`: the file from which `network` was
    read, if links and storages are to follow it (`reefcast network move-link`, `move-storages`).
    `log`: words of the command line that say how the processes log, beside what the network file
    says. `report` gets a line for each event. Entering raises `PeerError` if a broker does not come
    up in time, and `LocalError` if a process cannot start."""

    def __init__(
        self,
        network: NetworkFile,
        *,
        restart: bool = True,
        file: Path | None = None,
        report: Callable[[str], None] = _no_report,
        log: Sequence[str] = (),
    ) -> None:
        self.network = network
        self._log = log
        self.restart = restart
        self._followed = file
        self._now: NetworkFile | None = None
        self._watched = None if file is None else Watched(file, load_network)
        self._report = report
        self._folder = tempfile.TemporaryDirectory(prefix="reefcast-")
        self._file = Path(self._folder.name) / "network.toml"
        self._brokers = {name: self._child("broker", name) for name in network.names}
        self._storages: dict[str, Child] = {}
        self._kept: dict[str, StorageEntry] = {}
        self._following: asyncio.Task[None] | None = None

    def _child(self, kind: str, name: str) -> Child:
        return Child(
            f"{kind} {name}",
            *(kind, str(self._file), name, *self._log, *self._follows(kind)),
            restart=self.restart,
            before_again=self._before_again,
            report=self._report,
        )

    def _follows(self, kind: str) -> tuple[str, ...]:
        """Return the words that name the file which a process follows besides the one that it is
        started with: brokers say what of it they take over, and what needs a restart."""
        if kind != "broker" or self._followed is None:
            return ()
        return ("--follows", str(self._followed.absolute()))

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Overlay:
        try:
            await self._start_all()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start_all(self) -> None:
        self._file.write_text(dump_network(self.network), encoding="utf-8")
        if self.network.trace.level != "off":
            begin_run(self.network)
        await asyncio.to_thread(warm_up)  # once, here: the brokers load kernels from the cache
        await asyncio.gather(*(child.start() for child in self._brokers.values()))
        await self.linked()
        await asyncio.gather(*(self._added(each).start() for each in self.network.storage))
        await self._stored()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> dict[str, int]:
        """Tell every broker to drain and stop, then every storage; return their exit codes."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        patience_s = self.network.limits.drain_s + STOP_S
        codes = await _stopped(self._brokers, patience_s)
        stored = await _stopped(self._storages, patience_s)
        self._folder.cleanup()
        return codes | {f"storage {name}": code for name, code in stored.items()}

    # --- what the file says now -------------------------------------------------------------------

    def _look(self) -> None:
        """Read links, storages and what running brokers take over (`applying`) from the network
        file again, for processes that are started from now on; its other changes need a restart
        that somebody asks for."""
        try:
            changed = self._watched.look() if self._watched else None
            self._now = self._now if changed is None else changed
            if self._now is not None and (changed is not None or self._one_has_left()):
                self._become(self._taken(self._now).validate())
        except (ReefcastError, OSError) as error:
            self._report(f"links, storages and users are taken as they were before: {error}")

    def _one_has_left(self) -> bool:
        """Return whether a broker that the file no longer has was told to end."""
        names = self._now.names if self._now else []
        return any(child.has_ended for name, child in self._brokers.items() if name not in names)

    def _taken(self, now: NetworkFile) -> NetworkFile:
        """Return what processes are started with from now on; a broker that is no longer in the
        file stays until it ends."""
        names = ("link", "storage", "limits", "trace", "log")
        taken = {name: getattr(now, name) for name in names}
        leaving = [
            entry
            for entry in self.network.broker
            if entry.name not in now.names and not self._brokers[entry.name].has_ended
        ]
        new = [entry for entry in now.broker if entry.name not in self.network.names]
        stay = [entry for entry in self.network.broker if entry.name in now.names]
        brokers = [*stay, *new, *leaving]
        if leaving:  # with their links
            taken["link"] = self.network.link
            brokers = self.network.broker
        taken["listener"] = _listeners_of(brokers, self.network, now)
        return replace(users_of(self.network, now), broker=brokers, **taken)

    def _before_again(self, told: bool) -> None:
        """Prepare the file that a process is started with again: where somebody asked for that, all
        that the network file says by now, but for brokers that come or go."""
        self._look()
        if not told or self._followed is None:
            return
        try:
            now = load_network(self._followed)
            brokers = _same_brokers(self.network, now)
            listeners = _listeners_of(brokers, now, self.network)
            self._become(replace(now, broker=brokers, listener=listeners).validate())
        except (ReefcastError, OSError) as error:
            self._report(f"the network is taken as it was before: {error}")

    def _become(self, network: NetworkFile) -> None:
        if network != self.network:
            replace_text(self._file, dump_network(network))
            self.network = network

    async def _follow(self) -> None:
        """Start and stop storages with their entries, and start new brokers; the running ones watch
        their file themselves."""
        while True:
            self._look()
            now = {entry.name: entry for entry in self.network.storage}
            gone = [name for name, each in self._kept.items() if is_another(each, now.get(name))]
            await asyncio.gather(*(self._removed(name) for name in gone))
            new = [entry for entry in now.values() if entry.name not in self._kept]
            await self._follow_brokers()
            await asyncio.gather(*(self._added(entry).keep_starting() for entry in new))
            await asyncio.sleep(FOLLOW_S)

    async def _follow_brokers(self) -> None:
        """Start brokers that are new in the file; forget those that were taken out of it."""
        for name in [each for each in self._brokers if each not in self.network.names]:
            self._report(f"broker {name} has left the network")
            del self._brokers[name]
        new = [name for name in self.network.names if name not in self._brokers]
        self._brokers |= {name: self._child("broker", name) for name in new}
        await asyncio.gather(*(self._brokers[name].keep_starting() for name in new))

    def _added(self, entry: StorageEntry) -> Child:
        self._kept[entry.name] = entry
        child = self._storages[entry.name] = self._child("storage", entry.name)
        return child

    async def _removed(self, name: str) -> None:
        del self._kept[name]
        await self._storages.pop(name).stop(STOP_S)
        self._report(f"storage {name} has ended")

    def hang_up(self) -> None:
        """Have all brokers read the network file again, as SIGHUP tells them to."""
        self._look()
        for child in self._brokers.values():
            child.hang_up()

    # --- one process ------------------------------------------------------------------------------

    def storage(self, name: str) -> Child:
        """Return one of the present storages."""
        return self._storages[name]

    def pid(self, name: str) -> int:
        return self._brokers[name].pid

    def running(self, name: str) -> bool:
        return self._brokers[name].running

    async def start(self, name: str) -> None:
        """Start a broker that does not run; wait until it listens."""
        self.network.entry(name)
        await self._brokers[name].start()

    async def kill(self, name: str) -> None:
        """Kill a broker as `kill -9` does."""
        await self._brokers[name].kill()

    # --- all of them ------------------------------------------------------------------------------

    async def status(self) -> dict[str, dict[str, Any] | None]:
        """Return the status of each broker; None for one that does not answer."""
        return await overlay_status(self.network, credentials=owner_of(self.network))

    async def linked(self, timeout_s: float = START_S) -> None:
        """Wait until all brokers run, all links are up, and nothing waits on any of them.

        Raises `PeerError` that names what is missing after `timeout_s`.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        missing = ["everything"]
        while missing:
            if loop.time() > until_s:
                raise PeerError(f"after {timeout_s:g} s these are not up: {', '.join(missing)}")
            missing = not_up(await self.status())
            if missing:
                await asyncio.sleep(POLL_S)

    async def _stored(self) -> None:
        """Wait until the brokers know what the storages answer for, except storages that are
        catching up, which may take long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + START_S
        while missing := unanswered(
            self.network,
            self.network.storage,
            await storages_known(self.network, credentials=owner_of(self.network)),
        ):
            if loop.time() > until_s:
                self._report(f"after {START_S:g} s: {missing[0]}; the network is up without")
                return
            await asyncio.sleep(POLL_S)


def _same_brokers(known: NetworkFile, now: NetworkFile) -> list[BrokerEntry]:
    """Return the entries of the known brokers as they are now, where they are."""
    entries = {entry.name: entry for entry in now.broker}
    return [entries.get(entry.name, entry) for entry in known.broker]


def _listeners_of(
    brokers: Iterable[BrokerEntry], first: NetworkFile, second: NetworkFile
) -> list[ListenerEntry]:
    """Return the listeners of brokers, as the first file that has the broker says."""
    wanted, known = {entry.name for entry in brokers}, set(first.names)
    others = [each for each in second.listener if each.broker in wanted - known]
    return [each for each in first.listener if each.broker in wanted] + others


def is_another(entry: StorageEntry, now: StorageEntry | None) -> bool:
    """Return whether the entry needs another process, or none: a running storage can change only
    its topics."""
    return now is None or replace(now, topics=entry.topics, joining=entry.joining) != entry


async def _stopped(children: dict[str, Child], patience_s: float) -> dict[str, int]:
    codes = await asyncio.gather(*(child.stop(patience_s) for child in children.values()))
    return dict(zip(children, codes, strict=True))


def not_up(statuses: dict[str, dict[str, Any] | None]) -> list[str]:
    """Return the brokers that do not answer or still relearn, and the links that are not up and
    empty. Soft links, which come and go, need only be empty."""
    missing = []
    for name, status in statuses.items():
        if status is None:
            missing.append(f"broker {name}")
            continue
        if status["relearning"]:
            missing.append(f"broker {name} (it relearns its tables)")
        for link in status["links"]:
            row = status["lst"][link["link"]]
            down = link["state"] != "up" and row["kind"] != "soft"
            if down or row["queue_len"]:
                missing.append(f"link {name} - {link['link']}")
    return missing


async def overlay_status(
    network: NetworkFile,
    request: StatusRequest = UNASKED,
    own: TlsFiles = NOTHING,
    credentials: Credentials | None = None,
) -> dict[str, dict[str, Any] | None]:
    """Return the status of each broker of `network`; None for one that does not answer. `own`: see
    `admin.asking`; `credentials`: who asks, by default an operator. Raises `RefusedError` if the
    brokers refuse who asks."""
    operator = credentials is None
    tls = {name: asking(network, name, own, operator=operator) for name in network.names}
    shown = operator_of(network) if credentials is None else credentials

    async def ask(name: str) -> dict[str, Any]:
        return await ask_status(*network.address(name), request, tls[name], shown)

    return await ask_all(network, ask)


def begin_run(network: NetworkFile) -> None:
    """Prepare the trace directory for a new run: remove what a former run left there."""
    directory = Path(network.trace.directory)
    remove_former_run(directory)
    write_run(directory, describe_run(network))
