"""The fast forward pass: a compiled program over compiled kernels."""
