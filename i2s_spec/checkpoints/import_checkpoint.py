"""Convert a checkpoint to a GGUF file: `import_checkpoint`, and the keys that describe the model.

All checks that do not need the weights are made first. Weights are copied one tensor at a time; the file gets its name
when it is complete.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.checkpoints.families import Family, ModelSizes, Recognized, recognize, sizes_of
from i2s_spec.checkpoints.folder import CheckpointFolder, files_read, refused
from i2s_spec.checkpoints.plan import FLOAT_TYPES, Choices, PlannedTensor, planned
from i2s_spec.checkpoints.token_files import token_lists, tokenizer_values
from i2s_spec.convert.encode import TARGETS
from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.atomic_file import refuse_inputs
from i2s_spec.gguf.writer import Progress, Writer
from i2s_spec.schema import keys as declared
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.keys import file_type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.atomic_file import Target


class Imported(NamedTuple):
    """The result of an import.

    :param size: bytes of the file
    :param types: how many tensors have each type
    :param rules: how many matrices were converted by each rule
    :param tied: whether the head is the embedding
    :param notes: notes for users, in sentences
    """

    size: int
    recognized: Recognized
    types: Mapping[str, int]
    rules: Mapping[str, int]
    tied: bool
    notes: tuple[str, ...]


def import_checkpoint(
    checkpoint: str | os.PathLike[str],
    target: Target,
    *,
    to: str = "I2_S",
    embedding: str = "F16",
    fallback: str | None = None,
    family: str | None = None,
    rule: str | None = None,
    weight_scale: str | None = None,
    pre: str | None = None,
    name: str | None = None,
    source: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Convert a checkpoint to a GGUF file: a folder of safetensors with config.json and the files of its tokenizer.

    :param checkpoint: the folder, or a hub's repository (`hf://ORG/REPO@REVISION`), of which only the needed parts are
        read
    :param to: type of the ternary matrices: I2_S, a type with scales for groups, F32, F16, BF16
    :param embedding: type of the embedding and the head: F16, F32, BF16
    :param fallback: type of matrices whose rows are not whole blocks of `to`; without it they are refused
    :param family: a name of `FAMILIES`, for a checkpoint that is not recognized
    :param rule: `absmean` or `ternary`, for floats whose rule the checkpoint does not determine
    :param weight_scale: `multiply` or `divide`; overrides config.json
    :param pre: the pre-tokenizer; overrides the tokenizer's files
    :param name: `general.name`
    :param source: the origin of the checkpoint, for the keys `general.source.*`; for a hub, by default the repository
    :param threads: how many threads work; by default one for each processor
    :param force: replace an existing file
    :param progress: called with (bytes written, bytes of the file)
    :raises FormatError: H101, H102, H104 for a checkpoint that cannot be imported, S903 if a shard changes, S903 and
    S911 to S918 if a hub does not give its files; nothing is written
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    :raises ValueError, SettingError: for choices that do not exist
    :raises OSError: as `Writer` does
    """
    for what, chosen, known in (
        ("matrices", to, TARGETS), ("tables", embedding, FLOAT_TYPES), ("matrices", fallback or to, TARGETS),
        ("floats", rule or "absmean", ("absmean", "ternary")),
    ):  # fmt: skip
        if chosen not in known:
            raise ValueError(f"{what} cannot be converted to {quote(chosen)}; there are: {', '.join(known)}")
    refuse_inputs(target, *files_read(os.fsdecode(checkpoint)))
    choices = Choices(to, embedding, fallback, rule, threads or os.cpu_count() or 1)
    with CheckpointFolder(checkpoint) as folder:
        return import_folder(folder, target, choices, family, weight_scale, pre, name, source, force, progress)


def import_folder(
    folder: CheckpointFolder,
    target: Target,
    choices: Choices,
    family: str | None = None,
    weight_scale: str | None = None,
    pre: str | None = None,
    name: str | None = None,
    source: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Convert a checkpoint that is open, as `import_checkpoint` does."""
    recognized = recognize(folder, family, weight_scale, partial(_fits, folder))
    sizes = sizes_of(folder.config)
    tensors, tied, values, factors = prepared(folder, recognized, sizes, choices, name, source)
    lists = token_lists(folder, sizes.h.vocab, recognized.family.pre, pre)
    values |= tokenizer_values(folder, lists)
    with Writer(target, force=force, progress=progress) as writer:
        for key, value in values.items():
            writer.add(key, value, _kind(key, recognized.family.architecture))
        if factors is not None:
            writer.add_tensor("rope_freqs.weight", factors.shape, "F32", factors)
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.shape, tensor.type, folder.tensors.unchanged(tensor.data))
    read = [f"read from {folder.path}"] if folder.is_remote else []
    for start, what in recognized.family.left_out.items():
        if count := sum(each.startswith(start) for each in folder.tensors):
            read.append(f"left out: {counted(count, 'tensor')} of {what} ({start}*)")
    notes = [*read, *folder.notes, *lists.notes, *_mode_notes(recognized, {tensor.rule for tensor in tensors})]
    if recognized.family.caution and family is None:
        notes.append(recognized.family.caution)
    if recognized.family.weight_only and choices.to not in FLOAT_TYPES:
        notes.append(
            "the model was not trained with quantized activations, but runtimes quantize them if weights are ternary"
        )
    return Imported(
        writer.size,
        recognized,
        dict(Counter(tensor.type for tensor in tensors)),
        dict(Counter(tensor.rule for tensor in tensors if tensor.rule)),
        tied,
        tuple(notes),
    )


def prepared(
    folder: CheckpointFolder,
    recognized: Recognized,
    sizes: ModelSizes,
    choices: Choices,
    name: str | None = None,
    source: str | None = None,
) -> tuple[list[PlannedTensor], bool, dict[str, Any], NDArray[np.float32] | None]:
    """Return the tensors, whether the head is the embedding, the keys of the model, and the divisors of its
    rotation: all that can be refused before weights are read, but for the tokenizer.

    :raises FormatError: H104
    """
    tensors, tied = planned(folder, recognized, sizes, choices)
    values = model_values(folder, recognized, sizes, tensors, name, source)
    factors = rope_factors(sizes)
    if factors is not None and recognized.family.architecture != "llama":
        raise refused(f"files of {recognized.family.architecture} cannot store rope_type llama3")
    return tensors, tied, values, factors


def _fits(folder: CheckpointFolder, recognized: Recognized) -> bool:
    """Whether a folder has what its family needs, whichever type is written."""
    try:
        prepared(folder, recognized, sizes_of(folder.config), Choices("F32", "F32", compare=False))
    except FormatError:
        return False
    return True


def _mode_notes(recognized: Recognized, rules: set[str]) -> list[str]:
    """What `quantization_mode: online` means for weights that were converted by these rules."""
    if recognized.mode != "online":
        return []
    start = "config.json says quantization_mode online"
    if "packed" in rules:
        return [
            f"{start}, with which transformers ignores weight_scale; the packed matrices were converted with theirs"
        ]
    if "absmean" in rules:
        return [f"{start}: transformers quantizes the floats to trits in every pass, and the file holds these trits"]
    return [f"{start}, with which transformers quantizes ternary weights again; they were kept unchanged"]


def _kind(key: str, architecture: str) -> Any:
    """Return the value type of a key, as the schema declares it."""
    pattern = "{arch}" + key.removeprefix(architecture) if key.startswith(f"{architecture}.") else key
    for group in (
        declared.GENERAL, declared.MODEL, declared.EMBEDDING_MODEL, declared.TOKENIZER, declared.DELTA_NETS
    ):  # fmt: skip
        for each in group:
            if each.name == pattern:
                return each.types[0]
    return None


# --- general values --------------------------------------------------------------------------------------------------
# The keys `general.*` and `<architecture>.*` are named and valued as llama.cpp's converter does it.

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
    """Return the keys and their values, in the order of files.

    :param name: `general.name`; by default the folder's name
    :param source: the address or repository of the checkpoint; for a hub, by default the repository
    :raises FormatError: H104 for an activation that the architecture does not have
    """
    family, h, rope = recognized.family, sizes.h, sizes.rope
    arch = family.architecture
    _check_activation(family, sizes)
    if bool(h.net.layers) != bool(family.parameters):
        there = "has" if h.net.layers else "lacks"
        raise refused(f"config.json {there} linear_num_value_heads, a size of delta nets; {family.name} models have "
                      f"{'such layers' if family.parameters else 'no such layers'}")  # fmt: skip
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
    if net := h.net.layers and h.net:
        values |= {
            f"{arch}.rope.dimension_sections": [*rope.sections, 0],
            f"{arch}.ssm.conv_kernel": net.kernel,
            f"{arch}.ssm.state_size": net.width,
            f"{arch}.ssm.group_count": net.key_heads,
            f"{arch}.ssm.time_step_rank": net.value_heads,
            f"{arch}.ssm.inner_size": net.values,
        }
        interval = next((i for i, has_net in enumerate(net.layers) if not has_net), h.layers) + 1
        if all(((i + 1) % interval > 0) == has_net for i, has_net in enumerate(net.layers)):
            values[f"{arch}.full_attention_interval"] = interval
        else:
            values[f"{arch}.attention.recurrent_layers"] = list(net.layers)
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
    """Return the number of weights in the form of llama.cpp's converter: `2.4B`, `620M`."""
    for unit, word in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count >= unit:
            scaled = count / unit
            return f"{scaled:.1f}{word}" if scaled < 10 else f"{round(scaled)}{word}"
    return f"{round(count / 1000)}K"


def rope_factors(sizes: ModelSizes) -> NDArray[np.float32] | None:
    """Return the divisor of each frequency of Llama 3.1's rotation, float32 [pairs]; None for other rotations.

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
