"""Ternary weights to bytes and back: `pack` and `unpack` for every dialect.

    reference   the definition, in NumPy, derived from the formulas that the schema declares

Fast codecs are added beside the definition and are held to it, bit for bit.
"""
