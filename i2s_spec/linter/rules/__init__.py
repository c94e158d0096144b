"""All rules, by subject. Whoever imports this package has them all in `REGISTRY`: each module registers its own.

container/     the form of the file: header, key-values, tensor table, positions of bytes, unusual sizes
ternary/       I2_S tensors: extent, codes, layout, scale, and comparisons with a reference file
architecture/  the keys and tensors that an architecture declares, and their values
tokenizer/     keys of the tokenizer, tokens and merges, the chat template
checkpoint/    folders of safetensors: index, names, shapes, packing, scales
programs/      what runtimes and conversions do with a file, and what stops a program that uses a model
"""

from importlib import import_module
from pkgutil import iter_modules

from i2s_spec.linter.rule import REGISTRY, Rule

__all__ = ["REGISTRY", "all_rules"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def all_rules() -> list[Rule]:
    """Every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
