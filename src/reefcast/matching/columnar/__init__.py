"""Events as columns: kernels between the bodies of publications and the memory of Arrow."""
