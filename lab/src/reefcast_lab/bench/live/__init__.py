"""Measure live brokers under load: CPU time per publication and per delivery, rates and delays, for
Reefcast beside mosquitto and NATS.

Each load is a point of a plan (`points`). For each broker it gets a fresh broker process
(`brokers`), a process that publishes (`publisher`) and one that receives (`receiver`), all on this
machine. The baselines carry the same events to the same connections; each of these gets everything,
and would have to filter by itself.

The broker is to be the limit. So the publisher sends frames that it has prepared, many at a time,
and the receiver counts frames in compiled code, where they lie (`native`, `heads`). What is said on
a connection to each of the brokers is in `wires`."""
