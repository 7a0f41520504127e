"""MQTT clients of a live broker: the asyncio shell around `reefcast.mqtt`."""
