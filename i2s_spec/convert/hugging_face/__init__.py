"""Checkpoints of Hugging Face: safetensors, packed ternary weights, names of tensors."""
