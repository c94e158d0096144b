"""This module converts a checkpoint to a GGUF file: `import_checkpoint`.

All checks that do not need the weights are made first. Weights are copied one tensor at a time; the file gets its name
when it is complete.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
from i2s_spec.checkpoints.source.config_sizes import sizes_of
from i2s_spec.checkpoints.source.recognition import Recognized, recognize
from i2s_spec.checkpoints.vocabulary.tokenizer_values import token_lists, tokenizer_values
from i2s_spec.checkpoints.writing.general_values import model_values, rope_factors
from i2s_spec.checkpoints.writing.target_types import FLOAT_TYPES
from i2s_spec.checkpoints.writing.tensor_plan import Choices, planned
from i2s_spec.convert.tensors.encode import TARGETS
from i2s_spec.errors import quote
from i2s_spec.gguf.writer import Progress, Writer
from i2s_spec.schema.architectures import keys as declared

if TYPE_CHECKING:
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
    with CheckpointFolder(checkpoint) as folder:
        recognized = recognize(folder, family, weight_scale)
        sizes = sizes_of(folder.config)
        choices = Choices(to, embedding, fallback, rule, threads or os.cpu_count() or 1)
        tensors, tied = planned(folder, recognized, sizes, choices)
        values = model_values(folder, recognized, sizes, tensors, name, source)
        lists = token_lists(folder, sizes.h.vocab, recognized.family.pre, pre)
        values |= tokenizer_values(folder, lists)
        factors = rope_factors(sizes)
        if factors is not None and recognized.family.architecture != "llama":
            raise refused(f"files of {recognized.family.architecture} cannot store rope_type llama3")
        with Writer(target, force=force, progress=progress) as writer:
            for key, value in values.items():
                writer.add(key, value, _kind(key, recognized.family.architecture))
            if factors is not None:
                writer.add_tensor("rope_freqs.weight", factors.shape, "F32", factors)
            for tensor in tensors:
                writer.add_tensor(tensor.name, tensor.shape, tensor.type, folder.tensors.unchanged(tensor.data))
        read = [f"read from {folder.path}"] if folder.is_remote else []
        notes = [*read, *lists.notes, *_mode_notes(recognized, {tensor.rule for tensor in tensors})]
        if recognized.family.caution and family is None:
            notes.append(recognized.family.caution)
        if recognized.family.weight_only and to not in FLOAT_TYPES:
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
    """The value type of a key, as the schema declares it."""
    pattern = "{arch}" + key.removeprefix(architecture) if key.startswith(f"{architecture}.") else key
    for group in (declared.GENERAL, declared.MODEL, declared.EMBEDDING_MODEL, declared.TOKENIZER):
        for each in group:
            if each.name == pattern:
                return each.types[0]
    return None
