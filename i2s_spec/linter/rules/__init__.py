"""All rules, by subject. Whoever imports this package has them all in `REGISTRY`: each module registers its own.

    the form of the file        header, keys, tensor_infos, placement, files
    I2_S tensors                i2s_extent, i2s_codes, i2s_scale, i2s_layout
    other ternary types         groups
    what an architecture needs  model_keys, hyperparameters, inventory
    texts                       tokenizer, template
    folders of safetensors      checkpoint
    programs                    programs: commands of this package, and runtimes

`linter.engine` asks them; they ask `linter.analysis`, and `programs` asks `linter.runtimes`.
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
