"""GET /v1/openapi.json."""

from __future__ import annotations

from functools import cache

import msgspec
from aiohttp import web

from reefcast.http.openapi import document
from reefcast.http.routes import ROUTES
from reefcast.model.json_attributes import JSON_TYPE
from reefcast.server.http.asking import HEADERS, Asked
from reefcast.server.metrics.collecting import own_version


async def openapi(asked: Asked) -> web.StreamResponse:
    """Answer with the OpenAPI document of this listener."""
    asked.query()
    headers = {**HEADERS, **asked.headers}
    return web.Response(body=_document(), content_type=JSON_TYPE, headers=headers)


@cache
def _document() -> bytes:
    return msgspec.json.encode(document(ROUTES, own_version()))
