"""Verbs that read, check, change or make a GGUF file."""
