"""The HTTP listener of a broker for operators: who may ask (`proving`), limits on connections
(`visits`), and what there is (`door`). It needs aiohttp."""
