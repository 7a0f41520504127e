"""The live broker: an asyncio shell around the core of `routing.broker`.

`node` assembles a broker. `connection` reads and writes frames; the end of a connection is a
`broker_link`, a `client_session` or an `admin` connection. `supervisor` runs a whole overlay, with
a process for each broker."""
