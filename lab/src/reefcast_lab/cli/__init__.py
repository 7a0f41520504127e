"""The command `reefcast-lab`; one module per sub-command."""
