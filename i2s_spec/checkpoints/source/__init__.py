"""The parts of a checkpoint: files, family, sizes, weights."""
