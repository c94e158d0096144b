"""Checkpoints in safetensors, the container beside GGUF.

    files    the container: read in ranges, written as tensors are made
    packed   the packed ternary weights in it, and their scales
    names    its tensor names as those of GGUF files, and the order of rows

`packed` reads and writes through `files`.
"""
