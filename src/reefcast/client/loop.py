"""The event loop for programs of ours: uvloop's, if it is installed."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop, uvloop's if it is installed; also a `loop_factory` for
    `asyncio.Runner`."""
    try:
        import uvloop
    except ImportError:  # not installed: the client works without it
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
