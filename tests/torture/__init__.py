"""Live networks under faults, and an account of what came that is kept outside of them.

- `judge`: filters, each with a Python function that says whether it holds; no code of the package.
- `ledger`: what was published, who was owed it, what came, how often, in which order.
- `proxy`, `network`: broker processes, between each two of them a proxy that cuts, hangs, delays.
- `workload`: clients that publish and subscribe, and write down what they do.
- `faults`: each fault as a script; `run`: one network, some faults, a verdict for each of them.
- `matrix`: every fault on every routing, and the page about it (`tools/torture.py`).
"""
