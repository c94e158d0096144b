"""Rules about I2_S tensors: extent, codes, layout, scale, and comparison with a reference file; and about block types."""
