"""Conversion of tensors: reading and writing arrays, encoding, whole files."""
