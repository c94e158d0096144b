"""Rules about I2_S tensors: extent, codes, layout, scale, and what only a reference file tells; and about block types."""

from i2s_spec.linter.rules.ternary import (
    against_reference,
    group_rules,
    i2s_codes,
    i2s_extent,
    i2s_layout,
    i2s_scale,
)

__all__ = [
    "against_reference",
    "group_rules",
    "i2s_codes",
    "i2s_extent",
    "i2s_layout",
    "i2s_scale",
]
