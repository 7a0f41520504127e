"""Machine code of kernels: compiled with numba and LLVM once, kept, and run without either."""
