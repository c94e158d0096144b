"""Tensors that are not a whole number of blocks, or whose rows are not.

dropped     the elements that no whole block holds; what is refused, and what is written or read with a warning
readers     what programs read from such tensors, right or wrong
"""
