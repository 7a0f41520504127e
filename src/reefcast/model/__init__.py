"""Values, publications, filters, protocol messages, wire codec, trace vocabulary.

The lowest layer: it imports nothing of Reefcast but `errors`.
"""
