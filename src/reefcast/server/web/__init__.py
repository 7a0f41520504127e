"""The HTTP listener of a broker or a storage for operators: who may ask (`proving`), limits on
connections (`visits`), and what there is (`door`; `broker_door`, with the dashboard). It needs
aiohttp."""
