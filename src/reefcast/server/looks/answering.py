"""Answering what operators' programs ask of a broker (`model.looks`), whether they come by an admin
connection or by HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from reefcast.errors import LocalError, ProtocolError
from reefcast.model.effort import admit_filter
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.grants import Grant
from reefcast.model.looks import Advertised, AnyLook, Page, Sightings, Summary
from reefcast.network.sections import LimitsSection
from reefcast.protocol.principal import Principal
from reefcast.server.asking import filter_limits
from reefcast.server.looks.advertised import advertised_of
from reefcast.server.looks.pages import page_of
from reefcast.server.looks.summary import summary_of
from reefcast.server.metrics.observed import ObservedBroker
from reefcast.server.metrics.summing import Sums
from reefcast.server.rights import require_status, subject_of

FAILED = "the broker failed on this question; its log says how"


class Looks:
    """Answers for one broker. `sums`: those over its clients and sessions, also for `/metrics`."""

    def __init__(self, broker: ObservedBroker) -> None:
        self.sums = Sums(broker)
        self._broker = broker

    def grant_of(self, principal: Principal) -> Grant | None:
        """Return what a user may do; None: everything."""
        return self._broker.host.core.granting.of(subject_of(principal))

    async def answer(self, look: AnyLook, principal: Principal) -> dict[str, Any]:
        """Return what a user asks for. He needs the right `status`, unless he asks what is
        advertised; of publications and advertisements, he is shown those that he may see. Raises
        `LocalError` for what there is not, and `ProtocolError` for what he may not ask."""
        if not isinstance(look, Advertised):
            require_status(principal, self._broker.host.core.granting.grants)
        try:
            if isinstance(look, Advertised):
                core, limits = self._broker.host.core, self._broker.host.limits
                asked = narrowed(look.filter, self.grant_of(principal), limits)
                return await advertised_of(core, asked)
            if isinstance(look, Summary):
                return summary_of(self._broker, await self.sums.figures())
            if isinstance(look, Page):
                return await page_of(self._broker, look)
            return self._sightings(look, self.grant_of(principal))
        except (LocalError, ProtocolError):
            raise
        except Exception:
            self._broker.host.journal.failed("to answer an operator's program")
            raise LocalError(FAILED) from None

    def _sightings(self, asked: Sightings, grant: Grant | None) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        filter = narrowed(asked.filter, grant, self._broker.host.limits)
        return self._broker.host.watching.asked(asked, filter, now)


def narrowed(text: str, grant: Grant | None, limits: LimitsSection) -> Filter:
    """Return a filter as far as a user may see what it matches; an empty one matches everything.
    Raises `LocalError` if that is nothing, or the filter is wrong or too much work."""
    text = text.strip() or "TRUE"
    kept = admit_filter(text, filter_limits(limits))
    filter = kept or parse_filter(text)
    return filter if grant is None else grant.narrowed(filter)
