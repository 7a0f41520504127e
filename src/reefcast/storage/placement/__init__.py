"""Where storages stand, and which topics each keeps."""
