"""Tensors that are not a whole number of blocks, or whose rows are not.

dropped     the elements of an incomplete last block: what is refused, and what is written or read with a warning
readers     what programs read from such tensors, right or wrong
"""
