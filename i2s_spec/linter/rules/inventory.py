"""Rules about the tensors that an architecture needs."""
