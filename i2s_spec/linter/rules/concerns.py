"""This module says to which files the rules of a module apply, so that the module is imported only for them.

Half of a short run is imports. A module that is not named here applies to every file. This only saves work: the rules
of a module find nothing in a file to which it does not apply, and a test checks that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import FormatError
from i2s_spec.inspect.placement import LEGACY_I2_S
from i2s_spec.schema import limits
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.subject import Subject

#: For a file with more keys or tensors, all modules are imported: examining the file would take longer.
_MOST: Final = 4096
_ROTATED: Final = frozenset({142, 143})
#: Types without groups of weights: F32, F16, BF16 and I2_S.
_NO_GROUPS: Final = frozenset({0, 1, 30, I2_S.number})


def _declared(subject: Subject) -> bool:
    """Whether the architecture is declared."""
    return subject.declared is not None


def _tokenizer(subject: Subject) -> bool:
    return _declared(subject) or _has_key(subject, b"tokenizer.")


def _rotation(subject: Subject) -> bool:
    return not _ROTATED.isdisjoint(subject.type_numbers) or _has_key(subject, b"prism.")


def _split(subject: Subject) -> bool:
    return any(name.startswith(b"split.") for name in subject.places)


def _i2s(subject: Subject) -> bool:
    return I2_S.number in subject.type_numbers or not LEGACY_I2_S.isdisjoint(subject.type_numbers)


def _i2s_codes(subject: Subject) -> bool:
    """Whether there are I2_S payloads with anomalies, or of a size that is compared with others."""
    if not _i2s(subject):
        return False
    from i2s_spec.linter.analysis.payload_stats import compared, payload_anomalies

    found = payload_anomalies(subject)
    return compared(subject) or (found is not None and found.concern_codes)


def _unusual_sizes(subject: Subject) -> bool:
    """Whether the file has more of something than is usual, which can stop the reader."""
    file = subject.file
    keys, tensors, alignment = file.index.key_count or 0, file.index.tensor_count or 0, file.alignment or 0
    many = keys > limits.MANY_KEYS or tensors > limits.MANY_TENSORS
    return many or alignment > limits.USUAL_ALIGNMENT or file.fault is not None


def _i2s_layers(subject: Subject) -> bool:
    """Whether there are I2_S tensors and names of layers."""
    tensor = subject.file.index.tensor
    return _i2s(subject) and any(tensor(i).name.startswith(b"blk.") for i in range(subject.file.index.tensors))


def _groups(subject: Subject) -> bool:
    return not subject.type_numbers <= _NO_GROUPS


def _groups_of_128(subject: Subject) -> bool:
    return 42 in subject.type_numbers


def _has_key(subject: Subject, prefix: bytes) -> bool:
    return any(name.startswith(prefix) for _, name in subject.key_names())


#: Modules of rules, each with its condition on a file.
_CONCERNS: Final[dict[str, Callable[[Subject], bool]]] = {
    "architecture.file_types": _declared,
    "architecture.hyperparameters": _declared,
    "architecture.norm_gains": _declared,
    "architecture.tensor_inventory": _declared,
    "architecture.tensor_roles": _declared,
    "architecture.rotation": _rotation,
    "container.split_files": _split,
    "container.type_numbers": _groups_of_128,
    "container.unusual_sizes": _unusual_sizes,
    "ternary.group_rules": _groups,
    "ternary.i2s_codes": _i2s_codes,
    "ternary.i2s_layout": _i2s_layers,
    "ternary.i2s_scale": _i2s,
    "tokenizer.token_lists": _tokenizer,
    "tokenizer.tokenizer_keys": _tokenizer,
    "tokenizer.vocabulary_use": _tokenizer,
}


def concerned(home: str, subject: Subject) -> bool:
    """Whether a module of rules, by its full name, applies to a file; True if that cannot be decided."""
    ask = _CONCERNS.get(home.removeprefix("i2s_spec.linter.rules."))
    index = subject.file.index
    if ask is None or index.keys > _MOST or index.tensors > _MOST:
        return True
    try:
        return ask(subject)
    except FormatError:  # the rules will meet the fault themselves
        return True
