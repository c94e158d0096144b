"""Every rule, by what it looks at; importing this package registers them all.

identity      what the file is instead of a GGUF file, and whether it can be read
header        magic, version, byte order, counts
keys          the names of key-values
values        their types and values, alignment
split         split files
infos         the tensor table, one tensor at a time
placement     where tensors lie: overlaps, gaps, truncation
slack         bytes that belong to no tensor
extent        the size and shape of I2_S tensors
bounds        unusual amounts
"""

from i2s_spec.linter.rule import REGISTRY, Rule
from i2s_spec.linter.rules import (
    bounds,
    extent,
    header,
    identity,
    infos,
    keys,
    metadata,
    placement,
    slack,
    split,
    values,
)

__all__ = [
    "REGISTRY", "all_rules", "bounds", "extent", "header", "identity", "infos", "keys", "metadata", "placement", "slack",
    "split", "values",
]  # fmt: skip


def all_rules() -> list[Rule]:
    """Every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
