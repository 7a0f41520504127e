"""The placement of storages, and the topics that each keeps.

- `inputs`: what is asked for where, and the limits. Rates come from a file (`rates_file`) or a log
  of requests (`request_rates`), and count for what storages keep (`kept`);
- `steps`: the plan; `greedy`: its first step; `baselines`, `optimum`: what to compare it with;
- `figure` draws it, `network.plan_file` writes it.
"""
