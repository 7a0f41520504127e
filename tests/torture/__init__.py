"""Live networks under faults, and an account of what arrived that is kept outside of them.

- `judge`: filters, each with a Python function that says whether it holds; no code of the package.
- `ledger`: what was published, who was owed it, what came, how often, in which order.
- `proxy`, `network`: broker processes, with a proxy between each two that cuts, hangs, delays.
- `workload`: clients that publish and subscribe, and record what they do.
- `faults`: each fault as a script; `run`: one network, some faults, a verdict for each of them.
- `matrix`: every fault on every routing, and the page about it (`tools/torture.py`).
"""
