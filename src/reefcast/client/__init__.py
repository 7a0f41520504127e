"""Client libraries: asyncio, and a synchronous twin."""
