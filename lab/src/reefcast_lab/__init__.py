"""The laboratory: the papers' experiments, benchmarks against others, demonstrations, workloads.

It is built upon `reefcast`, which never imports it.
"""
