"""Rules about the codes of I2_S payloads."""
