"""Publications from the bytes of a read to the bytes of each connection, in compiled calls.

A *run* is a row of PUBLISH frames that came together. `cut` finds where each begins and ends, and
whether it is *plain*: its body is what a publisher's client writes, whole and well formed. What is
not plain, Python decodes. `pass_on` has the index match one plain publication after the other,
finds where the rows lead (`leads`), and writes the frames of each connection one behind the other
(`writing`). It changes nothing that others see: who calls it may throw away what it made.

The layout of frames and bodies is that of `model.wire`; `layout` says what lies where in the memory
that Python and the kernels share."""
