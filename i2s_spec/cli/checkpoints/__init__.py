"""Verbs on checkpoints of Hugging Face."""
