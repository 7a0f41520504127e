"""The store of a broker: what must outlive its process, in one directory."""
