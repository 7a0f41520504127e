"""Values, publications, filters, protocol messages, wire codec.

The lowest layer: it imports nothing of Reefcast but `errors`.
"""
