"""GET /v1/history and POST /v1/explain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import msgspec
from aiohttp import web

from reefcast.client.event import Event
from reefcast.client.history import History
from reefcast.errors import FilterWarning, ReefcastError
from reefcast.http.bodies import Explained, ExplainQuestion, HistoryQuery
from reefcast.http.content import NDJSON_TYPE
from reefcast.http.problems import error_of
from reefcast.http.reading import time_of
from reefcast.model.doubts import doubts_about
from reefcast.model.explanation import explain as explained
from reefcast.model.explanation import record_of
from reefcast.model.flat import as_sent
from reefcast.server.http.asking import Asked
from reefcast.server.http.filters import admitted
from reefcast.server.http.writing import Writer


async def history(asked: Asked) -> web.StreamResponse:
    """Answer with past events, one a line."""
    query: HistoryQuery = asked.query()
    since, until = time_of(query.since, "from"), time_of(query.until, "to")
    kept = admitted(asked.front, [query.filter])
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FilterWarning)
            past = client.history(query.filter, since=since, until=until, limit=query.limit)
        first = await _next(past)  # what is wrong with the question is told before the answer
        del kept
        try:
            return await _written(asked, past, first)
        finally:
            past.cancel()


async def _written(asked: Asked, past: History, first: Sequence[Event]) -> web.StreamResponse:
    writer = Writer(asked.request, asked.streams(NDJSON_TYPE))
    await writer.begin()
    try:
        while first:
            await writer.write(b"".join([asked.front.encoded(each) + b"\n" for each in first]))
            first = await _next(past)
    except ReefcastError as error:
        broken = error_of(error)
        if broken is not None:
            await writer.write(msgspec.json.encode(broken.problem) + b"\n")
    await writer.response.write_eof()
    return writer.response


async def _next(past: History) -> Sequence[Event]:
    """Return further events, none at the end."""
    try:
        return await past.next_batch()
    except StopAsyncIteration:
        return ()


async def explain(asked: Asked) -> web.StreamResponse:
    """Answer why a filter matches an event, or does not."""
    asked.query()
    question = await asked.body_as(ExplainQuestion)
    (filter,) = admitted(asked.front, [question.filter])
    found = explained(filter, as_sent(question.event), question.topics)
    doubts = [str(each) for each in doubts_about(filter)]
    told = Explained(matches=found.matches, explanation=record_of(found), doubts=doubts)
    return asked.json(told)
