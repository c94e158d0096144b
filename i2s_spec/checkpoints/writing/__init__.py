"""How a checkpoint becomes a GGUF file."""
