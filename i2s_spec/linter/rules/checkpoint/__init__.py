"""Rules about folders of safetensors: their files, their tensors, and their weights."""
