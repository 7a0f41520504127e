"""Machine code of kernels: made with numba and LLVM once, kept, and run without either."""
