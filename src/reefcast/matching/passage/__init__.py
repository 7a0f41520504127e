"""Publications from the bytes of a read to the bytes of each connection, in compiled calls.

A *run* is a sequence of PUBLISH frames from one read. `cut` finds where each begins and ends, and
whether it is *plain*: its body is as a publisher's client writes it, complete and well formed.
Python decodes the others. `pass_on` matches one plain publication after the other, finds the
destinations of the matching rows (`leads`), and writes the frames of each connection one after the
other (`writing`). It changes nothing that others see: its caller may discard the result.

Frames and bodies are those of `model.wire`; `layout` describes the memory that Python and the
kernels share."""

import reefcast.matching.engine
import reefcast.matching.passage.kernels  # noqa: F401  # batches are made in this order
