"""Rules about the keys and tensors that an architecture declares."""
