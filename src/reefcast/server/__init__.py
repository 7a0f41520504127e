"""The live broker: an asyncio shell around the broker core."""
