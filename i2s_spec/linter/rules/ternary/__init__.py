"""Rules about I2_S tensors: extent, codes, layout, scale, and what only a reference file tells; and about block types."""
