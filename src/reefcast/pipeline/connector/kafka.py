"""Options of Spark's Kafka source and sink that have another name here, or none: what a user who
writes one of them is told."""

from __future__ import annotations

_CONSUMER = "it is about Kafka's client, and readers have no consumers to be set"
_NO_PARTITIONS = "topics have no partitions"
_INSTEAD = {
    "kafka.bootstrap.servers": "it is url here",
    "bootstrap.servers": "it is url here",
    "assign": f"{_NO_PARTITIONS}: name the topics with subscribe",
    "subscribepattern": "subscribe takes MQTT patterns, such as orders/#",
    "kafka.group.id": "with session, a durable session keeps what the query has not had",
    "groupidprefix": "with session, a durable session keeps what the query has not had",
    "includeheaders": (
        "the attributes of an event are what headers are in Kafka: name them in schema, or leave "
        "it out and read the column attributes"
    ),
    "startingoffsetsbytimestampstrategy": "a topic without later events is read from there on",
    "maxrecordsperpartition": "minPartitions says how many tasks read at the same time",
    "fetchoffset.numretries": "a query asks again for a minute before it fails",
    "fetchoffset.retryintervalms": "a query asks again for a minute before it fails",
    "kafkaconsumer.polltimeoutms": _CONSUMER,
    "kafka.security.protocol": "write reefcast+tls:// in url, and authority for its certificate",
    "kafka.ssl.truststore.location": "it is authority here, a PEM file",
    "kafka.ssl.keystore.location": "they are certificate and key here, PEM files",
    "kafka.sasl.jaas.config": "they are user and passwordFile here, or tokenFile",
}


def advice(name: str) -> str:
    """Return what to do instead of an option of the Kafka source; "" if it is none."""
    lower = name.lower()
    if lower in _INSTEAD:
        return _INSTEAD[lower]
    return _CONSUMER if lower.startswith(("kafka.", "kafkaconsumer.")) else ""
