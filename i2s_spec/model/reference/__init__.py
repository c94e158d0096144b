"""The reference forward pass: every operation as its definition."""
