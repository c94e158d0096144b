"""Conversion of a GGUF file to a checkpoint."""
