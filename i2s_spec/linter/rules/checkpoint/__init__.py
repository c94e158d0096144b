"""Rules about folders of safetensors: which files and tensors there are, and what the weights say."""

from i2s_spec.linter.rules.checkpoint import (
    folder_tensors,
    ternary_weights,
)

__all__ = [
    "folder_tensors",
    "ternary_weights",
]
