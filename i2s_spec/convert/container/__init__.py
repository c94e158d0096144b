"""Changes to a GGUF file as a container: edits, rewriting, byte order, names of keys."""
