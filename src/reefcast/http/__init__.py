"""HTTP without I/O: what bodies, queries and headers mean, and how answers, events and errors are
written. Who serves them is `reefcast.server.http`.

`routes` is the table of all that can be asked; the OpenAPI document is made of it (`openapi`)."""
