"""This module says which keys change when a file's tensors are converted, or when its architecture is renamed.

Programs choose the graph by the name of the architecture. A file may get another name only if the tensors are the same:
BitNet b1.58 2B-4T is `bitnet-25`, `bitnet-b1.58` and (in upstream llama.cpp) `bitnet`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.convert.container.rewrite import Value
from i2s_spec.errors import quote
from i2s_spec.schema.architectures.architecture import PREFIXES, declared_architecture
from i2s_spec.schema.architectures.keys import FILE_TYPES, MODEL, OWN_FILE_TYPES, REQUIRED, file_type_of
from i2s_spec.schema.numbers import file_types
from i2s_spec.schema.types import BY_NAME, ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: The allowed values of `<architecture>.hidden_activation`.
ACTIVATIONS: Final = next(key.values for key in MODEL if key.name.endswith(".hidden_activation"))

_FILE_TYPE, _QUANTIZATION = "general.file_type", "general.quantization_version"

_PAIRS: Final = {"neox": "the halves of a head", "norm": "neighboring rows of a head"}

#: The meanings of `general.file_type` on which the two lineages disagree.
_UPSTREAM: Final = {38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0"}


def renamed_keys(file: File, former: str | None, arch: str | None) -> dict[str, str]:
    """New names of the keys to rename if the architecture is renamed from `former` to `arch`."""
    if arch is None or former in (None, arch):
        return {}
    return {key: arch + key[len(former) :] for key in file.metadata if key.startswith(f"{former}.")}


def changed_keys(
    file: File,
    former: str | None,
    arch: str | None,
    activation: str | None,
    types: Counter[str],
    converted: bool,
) -> tuple[dict[str, Any], tuple[int | None, int | None]]:
    """Keys to set, and `general.file_type` before and after.

    :param former: the architecture in the file
    :param arch: its new name
    :param activation: the activation of the feed-forward network to store
    :param types: the types of the matrices in the copy, with their counts
    :param converted: whether tensors were converted
    :raises ValueError: for an architecture with other tensors, and an activation that does not exist
    """
    values: dict[str, Any] = {}
    if arch is not None:
        check_architecture(file, former, arch)
        values["general.architecture"] = Value(ValueType.STRING, arch)
    if activation is not None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"{quote(activation)} is not an activation; there are: {', '.join(map(str, ACTIVATIONS))}")
        name = arch or former
        if name is None:
            raise ValueError("the file has no architecture to store an activation for")
        values[f"{name}.hidden_activation"] = Value(ValueType.STRING, activation)
    before = file.metadata.get(_FILE_TYPE)
    before = before if isinstance(before, int) else None
    after = before
    if converted and types:
        ((commonest, _),) = types.most_common(1)
        number = file_type_of(commonest)
        if before is not None and number is not None and number != before:
            after = number
            values[_FILE_TYPE] = Value(ValueType.UINT32, number)
        quantized = any(BY_NAME[name].is_quantized for name in types if name in BY_NAME)
        if quantized and _QUANTIZATION not in file.metadata:
            values[_QUANTIZATION] = Value(ValueType.UINT32, 2)
    return values, (before, after)


def check_architecture(file: File, former: str | None, arch: str) -> None:
    """Refuse an architecture that has other tensors, or the same ones with their rows in another order.

    :raises ValueError: with the reason
    """
    pooling = {f"{arch}.pooling_type"} if f"{former}.pooling_type" in file.metadata else ()
    new = declared_architecture(arch, pooling, file.tensors)
    if new is None:
        raise ValueError(f"unknown architecture {quote(arch)}; there are: {', '.join(PREFIXES)}")
    if former is None:
        raise ValueError("the file has no architecture that could be renamed")
    old = declared_architecture(former, file.metadata, file.tensors)
    if old is not None and old.rope != new.rope:
        raise ValueError(
            f"{former} rotates {_PAIRS[old.rope]} and {arch} {_PAIRS[new.rope]}: the rows of attn_q and attn_k would "
            "have to be put in another order"
        )
    for tensor in file.tensors.values():
        if new.match(tensor.name) is None:
            raise ValueError(
                f"a file of architecture {arch} has no tensor {quote(tensor.name)}: loaders would refuse it"
            )
    for spec in new.inventory:
        name = spec.name.replace("{i}", "0")
        if spec.need == REQUIRED and not spec.when and name not in file.tensors:
            raise ValueError(f"a file of architecture {arch} needs tensor {name}, which this one does not have")


def file_type_words(number: int | None, kind: str | None = None) -> str:
    """The meaning of `general.file_type` in each lineage.

    :param kind: the type of most matrices of the file: if a fork has the number for it, that meaning applies
    """
    if number is None:
        return "none"
    if kind is not None and OWN_FILE_TYPES.get(kind) == number:
        whose = next(each.whose for each in file_types(number) if kind in each.tensors)
        return f"{number} ({kind} to {whose}, {FILE_TYPES[number]} to upstream llama.cpp)"
    name = FILE_TYPES.get(number, "unknown")
    upstream = f", {_UPSTREAM[number]} to upstream llama.cpp" if number in _UPSTREAM else ""
    return f"{number} ({name}{' to the BitNet forks' if upstream else ''}{upstream})"
