"""A storage: a client of a broker that keeps what is published under its topics, and answers for
it.

- `node`: the storage, around a store (`history.store`); `answering`: its answer to one request;
  `catching_up`: how it gets what it lacks from others; `upkeep`: cleaning and sealing;
- `process`: the life of a process that is a storage; `following`: one that takes its topics from
  the network file.
"""
