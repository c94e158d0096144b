"""Golden records: recording, storing and reading the values of a forward pass."""
