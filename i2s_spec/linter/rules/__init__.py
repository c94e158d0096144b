"""Every rule, by what it looks at; importing this package registers them all.

inputs        files of other formats, which conversions read
identity      what the file is instead of a GGUF file, and whether it can be read
header        magic, version, byte order, counts
keys          the names of key-values
values        their types and values, alignment
split         split files
infos         the tensor table, one tensor at a time
placement     where tensors lie: overlaps, gaps, truncation
slack         bytes that belong to no tensor
extent        the size and shape of I2_S tensors
payload       codes, constant and unwritten regions, repeated tensors
scale         the tail
in_front      scales in front of codes
reference     what only another file of the same model tells
metadata      keys of the architectures
sizes         the sizes and numbers that metadata give a model
numbers       numbers that mean different things in different forks
inventory     tensors of the architectures
roles         what tensors are for: types, activations, permutations
tokenizer     keys of the tokenizer
vocabulary    tokens and merges
template      text that somebody may run or print
runtimes      what runtimes make of the file
use           what programs refuse that use a model
bounds        unusual amounts
"""

from i2s_spec.linter.rule import REGISTRY, Rule
from i2s_spec.linter.rules import (
    bounds,
    extent,
    header,
    identity,
    in_front,
    infos,
    inputs,
    inventory,
    keys,
    metadata,
    numbers,
    payload,
    placement,
    reference,
    roles,
    runtimes,
    scale,
    sizes,
    slack,
    split,
    template,
    tokenizer,
    use,
    values,
    vocabulary,
)

__all__ = [
    "REGISTRY", "all_rules", "bounds", "extent", "header", "identity", "in_front", "infos", "inputs", "inventory", "keys",
    "metadata", "numbers", "payload", "placement", "reference", "roles", "runtimes", "scale", "sizes", "slack", "split",
    "template", "tokenizer", "use", "values", "vocabulary",
]  # fmt: skip


def all_rules() -> list[Rule]:
    """Every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
