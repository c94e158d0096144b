"""How a GGUF file becomes a checkpoint."""
