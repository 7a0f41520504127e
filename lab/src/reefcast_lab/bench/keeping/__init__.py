"""The store of a broker's sessions, beside LMDB with the same contents."""
