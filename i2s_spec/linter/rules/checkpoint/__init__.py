"""Rules about folders of safetensors: which files and tensors there are, and what the weights say."""
