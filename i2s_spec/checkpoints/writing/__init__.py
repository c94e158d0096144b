"""Conversion of a checkpoint to a GGUF file."""
