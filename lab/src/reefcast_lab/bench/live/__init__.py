"""Live brokers under load: what a publication and a delivery cost a broker's processor, how many of
them pass in a second, and how long they take. Reefcast's, beside mosquitto and NATS.

One point of the plan (`points`) at a time, for each broker: a fresh broker process (`brokers`), one
process that publishes (`publisher`) and one that receives (`receiver`), all on this machine. Topic
brokers carry the same events to the same connections, every one of which gets everything and would
filter at its own end. Publisher and receiver are compiled where they touch events (`native`,
`heads`), so that the broker is the limit: frames are made before, sent many at a time, and counted
where they lie. What is said on a connection differs between the brokers (`wires`).
"""
