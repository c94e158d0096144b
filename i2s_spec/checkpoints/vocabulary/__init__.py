"""Tokenizers of checkpoints as keys of a GGUF file."""
