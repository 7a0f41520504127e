"""HTTP clients of a live broker: the asyncio shell, by aiohttp, around `reefcast.http`."""
