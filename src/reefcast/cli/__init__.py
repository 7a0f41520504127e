"""The command `reefcast`."""
