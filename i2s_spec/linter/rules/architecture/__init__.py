"""Rules about the keys and tensors that an architecture declares."""

from i2s_spec.linter.rules.architecture import (
    file_types,
    hyperparameters,
    model_keys,
    norm_gains,
    rotation,
    tensor_inventory,
    tensor_roles,
)

__all__ = [
    "file_types",
    "hyperparameters",
    "model_keys",
    "norm_gains",
    "rotation",
    "tensor_inventory",
    "tensor_roles",
]
