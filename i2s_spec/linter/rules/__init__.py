"""Every rule, by what it looks at; importing this package registers them all.

container/     the form of the file: header, key-values, tensor table, where bytes lie, unusual sizes
ternary/       I2_S tensors: extent, codes, layout, scale, and what only a reference file tells
architecture/  the keys and tensors that an architecture declares, and what they say
tokenizer/     keys of the tokenizer, tokens and merges, the chat template
checkpoint/    folders of safetensors: index, names, shapes, packing, scales
programs/      what runtimes and conversions make of a file, and what stops a program that uses a model
"""

from i2s_spec.linter.rule import REGISTRY, Rule
from i2s_spec.linter.rules import architecture, checkpoint, container, programs, ternary, tokenizer

__all__ = ["REGISTRY", "all_rules", "architecture", "checkpoint", "container", "programs", "ternary", "tokenizer"]


def all_rules() -> list[Rule]:
    """Every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
