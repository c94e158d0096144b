"""What the writer makes bytes of: encode_value the values of keys, encode_tensor tensors."""
