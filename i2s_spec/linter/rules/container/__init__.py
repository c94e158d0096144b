"""Rules about the form of the container: header, key-values, tensor table, where tensors lie, unusual sizes, servers."""
