"""The covering index against its baselines."""
