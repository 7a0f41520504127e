"""Users, their passwords and tokens, the network's key, and the audit log."""
