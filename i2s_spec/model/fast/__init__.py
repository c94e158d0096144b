"""The fast forward pass: a graph compiled to a program of compiled kernels."""
