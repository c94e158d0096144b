"""Annexes that repeat whole declarations.

registry_page   every meaning of every type number
decoders_page   who decodes what, from records of runs
vectors_page    the test vectors, and how to interpret them
register        every requirement with its rules, vectors and tests
"""
