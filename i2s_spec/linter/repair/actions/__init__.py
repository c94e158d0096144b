"""The repairs, by what they change; importing this package registers them all."""

from i2s_spec.linter.repair.actions import (
    key_repairs,
    metadata_repairs,
    padding_and_tails,
    realign,
    tensor_info_repairs,
    tensor_layout,
    tensor_repairs,
    tokenizer_repairs,
    vocabulary_repairs,
)

__all__ = [
    "key_repairs",
    "metadata_repairs",
    "padding_and_tails",
    "realign",
    "tensor_info_repairs",
    "tensor_layout",
    "tensor_repairs",
    "tokenizer_repairs",
    "vocabulary_repairs",
]
