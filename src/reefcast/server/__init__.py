"""The live broker: an asyncio shell around the core of `routing.broker`.

`node` assembles it; `connection` frames bytes; at the other end is then a `broker_link`, a
`client_session` or an `admin` connection; `supervisor` runs a whole overlay, a process for each
broker.
"""
