"""All rules, by subject; a module of this package is imported when one of its rules is requested.

container/     the form of the file: header, key-values, tensor table, positions of bytes, unusual sizes
ternary/       I2_S tensors: extent, codes, layout, scale, and comparisons with a reference file
architecture/  the keys and tensors that an architecture declares, and their values
tokenizer/     keys of the tokenizer, tokens and merges, the chat template
checkpoint/    folders of safetensors: index, names, shapes, packing, scales
programs/      what runtimes and conversions do with a file, and what stops a program that uses a model

`index` gives the module of each rule and the facts by which it is selected; `concerns` says to which files a module
applies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from i2s_spec.linter.rule import REGISTRY, Facts, Needs, Rule, Severity
from i2s_spec.linter.rules.index import INDEX

__all__ = ["REGISTRY", "all_rules"]

_SEVERITIES, _NEEDS = {each.value: each for each in Severity}, {each.name: each for each in Needs}

#: Every start makes all of these, which calls of the class take twice as long for.
_NEW: Callable[[type[Facts], tuple[Any, ...]], Facts] = tuple.__new__


def _attach() -> None:
    homes, indexed, new, severities, kinds = {}, {}, _NEW, _SEVERITIES, _NEEDS
    for module, facts in INDEX:
        home = f"i2s_spec.linter.rules.{module}"
        for code, slug, severity, needs, payload, late, weakness, checked, general in facts:
            homes[code] = home
            indexed[code] = new(
                Facts, (code, slug, severities[severity], kinds[needs], payload, late, weakness, checked, general)
            )
    REGISTRY.attach(homes, indexed)


_attach()


def all_rules() -> list[Rule]:
    """Every rule, in the order of the codes."""
    return [REGISTRY[code] for code in sorted(REGISTRY)]
