"""What a checkpoint is: files, family, sizes, weights."""
