"""The architectures of models: keys, tensors, sizes, rotations."""
