"""TLS: which certificates an end shows and trusts, who a certificate is for, and how certificates
are made. What a connection then carries is none of its business."""
