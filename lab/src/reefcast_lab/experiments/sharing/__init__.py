"""OctopiA's burst with other senders: what the links of a broker, or of a machine, share."""
