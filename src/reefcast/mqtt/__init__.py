"""MQTT 5.0 and 3.1.1 without I/O, clock or tasks: packets, and their bytes.

`packets` defines the control packets, one set of types for both versions, with their `properties`;
`reasons` defines the reason codes and the error that carries one. `decoding` makes packets of the
bytes that arrive, strictly; `encoding` makes bytes of packets. `topics` checks topic names and
filters. Sections and statements in docstrings ("MQTT-3.3.1-4") are those of the OASIS standards
"MQTT Version 5.0" (7 March 2019) and "MQTT Version 3.1.1" (29 October 2014)."""
