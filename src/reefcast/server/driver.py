"""The live driver of the core: passes inputs one at a time, and carries out their effects.

The core is never entered twice: what an effect causes (for example, a client that must be
disconnected has left) becomes an input after the effects at hand. A failure of the core affects
only its input."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from reefcast.errors import InternalError, ProtocolError
from reefcast.logs import about, part
from reefcast.model.messages import (
    Effect,
    Fetched,
    Input,
    Kept,
    LinkName,
    Publish,
    Send,
    SetTimer,
    TakenOut,
    Timer,
    Wish,
)
from reefcast.protocol.credit import CongestionControl
from reefcast.routing.broker import Broker
from reefcast.routing.failures import PartlyFailed
from reefcast.server.effects import Effector, LinkOpener, fed_links
from reefcast.server.keeper import Keeping
from reefcast.server.looks.watching import Watching
from reefcast.server.metrics.sampling import Samples, Timable
from reefcast.server.outputs import Outputs
from reefcast.server.passage import Output, Run
from reefcast.server.tracing import Journal

log, routing = part("broker"), part("routing")


class Driver:
    """Calls `core` for connections and timers, and has its effects carried out. `samples`: measures
    delays, None where nobody can see them; `watching`: what operators watch for."""

    def __init__(
        self,
        core: Broker,
        outputs: Outputs,
        congestion: CongestionControl,
        journal: Journal,
        samples: Samples | None,
        watching: Watching,
    ) -> None:
        self._core = core
        self._clients = outputs.clients
        self._congestion = congestion
        self._journal = journal
        self._samples = samples
        self._watching = watching
        self._effector = Effector(outputs, journal, self._set_timer)
        self._loop = asyncio.get_running_loop()
        self._busy = self._closed = False
        self._later: deque[tuple[Input, LinkName]] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._background: set[str] = set()

    def open_links_with(self, opener: LinkOpener) -> None:
        """Set what opens soft links, before the first input."""
        self._effector.opener = opener

    def keep_with(self, keeper: Keeping) -> None:
        """Set what writes to the broker's disk; before the first input."""
        self._effector.keeper = keeper
        keeper.listen(
            lambda token: self._said_by_disk(Kept(token)),
            lambda bodies: self._said_by_disk(Fetched(bodies.found, bodies.missing)),
        )

    def _said_by_disk(self, item: Kept | Fetched) -> None:
        if not self._closed:
            self.handle(item, "")

    # --- publications -----------------------------------------------------------------------------

    def handle_publications(self, batch: list[Publish], link: LinkName) -> None:
        """Handle publications that came by `link`, and their effects. Raises `InternalError` if the
        core failed on one of them (the others are done).

        A failing effect is not reported to the sender: it did nothing wrong, and a link between
        brokers must not end because of it."""
        self._busy = True
        try:
            effects, failures = self._publications(batch, link)
            if self._congestion.targets:
                self._congestion.fed(link, fed_links(effects), self._loop.time())
        finally:
            self._busy = False
        self._end_input(failures)

    def handle_run(self, run: Run, path: Timable, link: LinkName) -> None:
        """Handle publications that have a compiled path; some of them may not be plain."""
        failures = 0
        effects: list[Effect] = []
        outputs: list[Output] = []
        if self._samples is not None and self._samples.armed:
            path = self._samples.timed(path)
        self._busy = True
        try:
            for part in path.parts(run, link, self._loop.time):
                if isinstance(part, tuple):
                    self._effector.hand_out(part)
                    outputs += part
                elif part:
                    more, failed = self._publications(part, link)
                    effects += more
                    failures += failed
        except Exception:
            failures += 1
            self._journal.failed(f"to pass on publications from {link!r}")
        else:
            if self._congestion.targets:
                fed = fed_links(effects) | {name for name, _, _ in outputs}
                self._congestion.fed(link, fed, self._loop.time())
        finally:
            self._busy = False
        self._end_input(failures)

    def _publications(self, batch: list[Publish], link: LinkName) -> tuple[list[Effect], int]:
        """Handle publications in the core, and carry out the effects; return the effects, and on
        how many publications the core failed."""
        if self._journal.details is not None and link in self._clients:
            self._journal.details.published(batch)
        if self._samples is not None and link in self._clients:
            self._samples.came(batch)
        failures = 0
        try:
            effects = self._ask(self._core.handle_publications, batch, link)
        except PartlyFailed as partly:
            effects, failures = self._the_rest(partly, link), len(partly.failures)
        except Exception:
            effects, failures = [], len(batch)
            self._journal.failed(f"on {failures} publications from {link!r}")
        self._effector.carry_out(effects)
        return effects, failures

    def _end_input(self, failures: int) -> None:
        if self._later:
            self._run_later()
        if failures:
            raise InternalError(
                f"the broker failed on {failures} of the publications; its log says how"
            )

    def _the_rest(self, partly: PartlyFailed, link: LinkName) -> list[Effect]:
        """Log on which publications the core failed, and why; return the effects of the others."""
        for publish, error in partly.failures:
            # Neither its attributes nor its body: what is in events is not for logs.
            what = "afterwards" if publish is None else f"on publication {_named(publish)}"
            self._journal.failed(f"{what} from {link!r}", error)
        return partly.effects

    # --- all other inputs -------------------------------------------------------------------------

    def handle(self, item: Input, link: LinkName) -> bool:
        """Handle one input of the core and its effects; return False if the core failed on it, or
        an effect could not be carried out."""
        if self._busy:
            self._later.append((item, link))
            return True
        done = self._run(item, link)
        self._run_later()
        return done

    def wish(self, item: Wish | TakenOut) -> None:
        """Handle an operator's wish. Raises `LocalError` if it cannot be met."""
        self._enter(item, "")
        self._run_later()

    def _run(self, item: Input, link: LinkName) -> bool:
        try:
            return not self._enter(item, link)
        except ProtocolError as error:
            words = "broker %s: %s"
            self._journal.floods.log(
                log, logging.WARNING, "out_of_place", words, self._core.name, error
            )
            return False
        except Exception:
            self._journal.failed(f"on input {item!r:.500} from {link!r}")
            return False

    def _enter(self, item: Input, link: LinkName) -> int:
        """Handle one input in the core, and carry out its effects; return how many of these
        failed."""
        self._busy = True
        try:
            try:
                effects = self._ask(self._core.handle, item, link)
            except PartlyFailed as partly:  # publications that were held failed, not this item
                effects = self._the_rest(partly, link)
            if routing.isEnabledFor(logging.DEBUG):
                _log_routing(self._core.name, item, link, effects)
            return self._effector.carry_out(effects)
        finally:
            self._busy = False

    def _run_later(self) -> None:
        while self._later:
            self._run(*self._later.popleft())

    def _ask(self, ask: Callable[..., list[Effect]], what: Any, link: LinkName) -> list[Effect]:
        started_ns = time.perf_counter_ns()
        effects = ask(what, link, self._loop.time())
        if self._samples is not None and self._samples.watching:
            took_ns = time.perf_counter_ns() - started_ns
            self._samples.see(what, effects, took_ns, self._clients, self._core.last_routed)
        if self._watching.active:
            took_ns = time.perf_counter_ns() - started_ns
            self._watching.see(what, link, self._core.last_routed, effects, took_ns)
        if self._journal.details is not None and self._core.last_routed:
            took_ns = time.perf_counter_ns() - started_ns
            self._journal.details.matched(self._core.last_routed, took_ns)
        return effects

    # --- timers -----------------------------------------------------------------------------------

    @property
    def awaits_timer(self) -> bool:
        """Return whether a timer is set other than the periodic ones."""
        return not self._timers.keys() <= self._background

    def _set_timer(self, timer: SetTimer) -> None:
        if timer.background:
            self._background.add(timer.key)
        before = self._timers.pop(timer.key, None)
        if before is not None:
            before.cancel()
        self._timers[timer.key] = self._loop.call_at(timer.at_s, self._timer_due, timer.key)

    def _timer_due(self, key: str) -> None:
        del self._timers[key]
        self.handle(Timer(key), "")

    def close(self) -> None:
        """Cancel all timers, because the broker ends."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()


def _named(publish: Publish) -> str:
    return f"{publish.publication.publisher}#{publish.publication.seq}"


def _log_routing(broker: str, item: Input, link: LinkName, effects: list[Effect]) -> None:
    """Log what a control message led to: what was sent, and to whom."""
    sends = [each for each in effects if isinstance(each, Send)]
    sent = ", ".join(f"{type(each.message).__name__} to {each.link}" for each in sends)
    names = type(item).__name__, link or "this broker", sent or "sends nothing"
    routing.debug("%s from %s: %s", *names, extra=about(broker=broker, link=link))
