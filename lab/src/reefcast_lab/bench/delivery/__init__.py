"""What confirmed delivery costs: brokers that keep what is owed on disk, ours beside others."""
