"""Ten times the papers' sizes: how tables, ways and messages grow with the brokers."""
