"""The forward pass: what a correct runtime computes from a file of ternary weights.

bitlinear     activation quantisation, the integer dot product, the epilogue: the definition
"""
