"""All rules, by subject. Whoever imports this package has them all in `REGISTRY`: each module registers its own.

    the form of the file        header, keys, tensor_infos, placement, files
    I2_S tensors                i2s_extent, i2s_codes, i2s_scale, i2s_layout
    other ternary types         groups
    what an architecture needs  model_keys, hyperparameters, inventory, rotary
    files beside a model        companions, projectors
    tokens and templates        tokenizer, template
    folders of safetensors      checkpoint
    what programs do            programs: commands of this package, and runtimes

`linter.engine` asks them; they ask `linter.analysis`, and `programs` asks `linter.runtimes`.
"""

import os
from importlib import import_module

from i2s_spec.linter.rule import REGISTRY, Rule

__all__ = ["REGISTRY", "all_rules"]

for _file in sorted(os.listdir(os.path.dirname(__file__))):  # `pkgutil` costs as much as all of these modules
    if _file.endswith(".py") and not _file.startswith("_"):
        import_module(f"{__name__}.{_file.removesuffix('.py')}")


def all_rules() -> list[Rule]:
    """Return every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
