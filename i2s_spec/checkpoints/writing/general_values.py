"""This module makes the keys `general.*` and `<architecture>.*` of a GGUF file, as llama.cpp's converter names them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
from i2s_spec.checkpoints.source.config_sizes import ModelSizes
from i2s_spec.checkpoints.source.families import Family
from i2s_spec.checkpoints.source.recognition import Recognized
from i2s_spec.checkpoints.writing.tensor_plan import PlannedTensor
from i2s_spec.errors import quote
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.architectures.keys import file_type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The values that llama.cpp's converter takes from the front matter of README.md, by key.
_CARD: Final = {
    "license": "general.license",
    "license_name": "general.license.name",
    "license_link": "general.license.link",
}


def model_values(
    folder: CheckpointFolder,
    recognized: Recognized,
    sizes: ModelSizes,
    tensors: list[PlannedTensor],
    name: str | None,
    source: str | None,
) -> dict[str, Any]:
    """The keys and their values, in the order of files.

    :param name: `general.name`; by default the folder's name
    :param source: the address or repository of the checkpoint; for a hub, by default the repository
    :raises FormatError: H104 for an activation that the architecture does not have
    """
    family, h, rope = recognized.family, sizes.h, sizes.rope
    arch = family.architecture
    _check_activation(family, sizes)
    count = sum(int(np.prod(tensor.shape)) for tensor in tensors)
    values: dict[str, Any] = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": name or folder.title,
        "general.size_label": size_label(count),
    }
    values |= {key: folder.card[word] for word, key in _CARD.items() if word in folder.card}
    source = folder.repository if source is None else source
    if source is not None:
        key = "general.source.url" if "://" in source else "general.source.huggingface.repository"
        values[key] = source
    values |= {
        f"{arch}.block_count": h.layers,
        f"{arch}.context_length": h.context,
        f"{arch}.embedding_length": h.embd,
        f"{arch}.feed_forward_length": h.ff,
        f"{arch}.attention.head_count": h.heads,
        f"{arch}.attention.head_count_kv": h.heads_kv,
        f"{arch}.rope.freq_base": np.float32(rope.base),
        f"{arch}.attention.layer_norm_rms_epsilon": np.float32(h.eps),
        f"{arch}.attention.key_length": h.head_dim,
        f"{arch}.attention.value_length": h.value_dim,
        f"{arch}.vocab_size": h.vocab,
        f"{arch}.rope.dimension_count": h.rope_dims,
    }
    if rope.scaling in ("linear", "yarn"):
        values |= {f"{arch}.rope.scaling.type": rope.scaling, f"{arch}.rope.scaling.factor": np.float32(rope.factor)}
        original = rope.settings.get("original_max_position_embeddings")
        if isinstance(original, int) and original > 0:
            values[f"{arch}.rope.scaling.original_context_length"] = original
    if family.pooling is not None:
        values[f"{arch}.pooling_type"] = family.pooling
    values["general.file_type"] = file_type(tensors)
    values["general.quantization_version"] = 2
    return values


def file_type(tensors: list[PlannedTensor]) -> int:
    """`general.file_type`: the type of most matrices."""
    types = Counter(tensor.type.removesuffix("_G128") for tensor in tensors if len(tensor.shape) > 1)
    ((commonest, _),) = types.most_common(1)
    number = file_type_of(commonest)
    assert number is not None
    return number


def size_label(count: int) -> str:
    """The number of weights in the form of llama.cpp's converter: `2.4B`, `620M`."""
    for unit, word in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count >= unit:
            scaled = count / unit
            return f"{scaled:.1f}{word}" if scaled < 10 else f"{round(scaled)}{word}"
    return f"{round(count / 1000)}K"


def rope_factors(sizes: ModelSizes) -> NDArray[np.float32] | None:
    """The divisor of each frequency of Llama 3.1's rotation, float32 [pairs]; None for other rotations.

    Short wavelengths stay, long ones are stretched by the factor, those between are interpolated.

    :raises FormatError: H104 for settings that are missing
    """
    rope, h = sizes.rope, sizes.h
    if rope.scaling != "llama3":
        return None
    low, high, old = (
        rope.settings.get(key) for key in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    if not all(isinstance(each, int | float) and each > 0 for each in (low, high, old)) or low == high:
        raise refused("rope_type llama3 needs low_freq_factor, high_freq_factor, original_max_position_embeddings")
    assert low is not None
    assert high is not None
    assert old is not None
    pairs = np.arange(0, h.head_dim, 2, dtype=np.float64) / h.head_dim
    wave = 2 * np.pi * rope.base**pairs
    smooth = (old / wave - low) / (high - low)
    mixed = 1 / ((1 - smooth) / rope.factor + smooth)
    factors = np.where(wave < old / high, 1.0, np.where(wave > old / low, rope.factor, mixed))
    return factors.astype(np.float32)


def _check_activation(family: Family, sizes: ModelSizes) -> None:
    """Check the activation: graphs have a fixed activation, so every runtime would compute another one wrongly."""
    if sizes.activation not in family.activations:
        declared = ARCHITECTURES.get(family.architecture)
        word = declared.activation if declared is not None else family.activations[0]
        raise refused(
            f"hidden_act is {quote(sizes.activation)}; the graph of {family.architecture} computes {word}, in every runtime"
        )
