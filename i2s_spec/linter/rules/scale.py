"""Rules about the tails of I2_S tensors."""
