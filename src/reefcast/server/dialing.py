"""Dialling other brokers, once or repeatedly with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from reefcast.logs import part
from reefcast.server.connection import Connection
from reefcast.server.shared import Shared
from reefcast.timing import Backoff
from reefcast.tls.transport import over
from reefcast.tls.wording import in_words, of_tls

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.5
CONNECT_S = 5.0
ANSWER_AGAIN_S = 2.0
"""The time to answer for a broker that could not be reached before. A broker behind a partition
must be found soon after the partition ends, also if attempts do not fail, but hang."""

log = part("connections")


async def keep_connected(
    shared: Shared,
    address: tuple[str, int],
    new_connection: Callable[[], Connection],
    rng: random.Random,
    connection: Connection | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Keep a connection until cancelled, which leaves the present one open, or as long as it is
    `wanted`, which is asked before each attempt. `connection`: one that exists already. After a
    connection that was greeted, pauses start short again."""
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, rng)
    while wanted():
        if connection is None:
            connection = await dial(shared, address, new_connection)
        if connection is not None:
            await connection.closed.wait()
            if connection.greeted:
                backoff.reset()
            if connection.refusal:
                words, peer, refusal = "%s refused us: %s", connection.peer, connection.refusal
                connection.note(
                    "refused_us", words, peer, refusal, level=logging.WARNING, reason=refusal
                )
            connection = None
        await asyncio.sleep(backoff.pause_s())


async def dial(
    shared: Shared,
    address: tuple[str, int],
    new_connection: Callable[[], Connection],
    within_s: float = CONNECT_S,
) -> Connection | None:
    """Return a connection that has not been greeted yet; None if nobody answers, or not in a way
    that can be trusted."""
    made: list[Connection] = []

    def make() -> Connection:
        made.append(new_connection())
        return made[-1]

    try:
        async with asyncio.timeout(within_s):
            loop = asyncio.get_running_loop()
            context = None if shared.tls is None else shared.tls.value.dialling
            _, connection = await loop.create_connection(make, *address, **over(context, within_s))
            return connection
    except (OSError, TimeoutError) as error:
        if of_tls(error):
            _say_no_tls(shared, "{}:{}".format(*address), error)
        log.debug("cannot reach %s:%s: %s", *address, error)
        return None
    except asyncio.CancelledError:
        for connection in made:
            connection.given_up()
        raise


def _say_no_tls(shared: Shared, other: str, error: Exception) -> None:
    words = "no connection to %s: %s"
    reason = in_words(error, other)
    about = {"connection": other, "reason": reason}
    shared.floods.log(log, logging.WARNING, "no_tls", words, other, reason, about=about)
