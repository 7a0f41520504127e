"""Torture: brokers with disks, publishers and durable sessions under kills, cuts and power
failures, step by step, and checkers outside the brokers that hold them to `delivery.md`."""
