"""Sessions: what a broker owes to consumers, attached or not. No I/O, no clock."""
