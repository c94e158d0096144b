"""What a model of each architecture holds: keys, tensors, sizes, rotations."""
