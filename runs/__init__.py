"""Runs of other programs on small GGUF files: what they print and compute. `python -m runs` is the command line."""
