"""This module gathers the facts that the linter's rules examine in a checkpoint's folder, as far as they can be read.

An import refuses a folder at the first fault; here every file that cannot be read is one finding, and the rest is still
examined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from i2s_spec.checkpoints.findings.folder_files import FolderFiles
from i2s_spec.checkpoints.source.bounded_json import MOST_CONFIG, refused
from i2s_spec.checkpoints.source.checkpoint_folder import INDEX, MOST_INDEX, PICKLES
from i2s_spec.checkpoints.source.config_sizes import ModelSizes, sizes_of
from i2s_spec.checkpoints.source.families import ABSMEAN, DERIVED, PROJECTIONS, SHAPES, Family
from i2s_spec.checkpoints.source.recognition import family_of
from i2s_spec.checkpoints.source.source_weights import looks_ternary
from i2s_spec.convert.hugging_face.safetensors import Stored
from i2s_spec.errors import FormatError, Span, quote
from i2s_spec.linter.analysis.checkpoint_facts import WORDS, CheckpointFacts, FamilyFacts

#: The norms before the attention output projection and the FFN down projection.
_SUB_NORMS: Final = ("attn_sub_norm", "ffn_sub_norm")

Report = Callable[[FormatError, str], None]


class _Read(NamedTuple):
    """The facts that decide the family: config.json, and the tensors by name."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]


def gathered_facts(folder: FolderFiles, reading: str, report: Report) -> CheckpointFacts:
    """The facts of a folder.

    :param reading: how much of the weights is read: `full`, `sample` or `none`
    :param report: called with each error, and the file's name
    :raises FormatError: if `report` raises it
    """
    files = folder.names

    def json_of(name: str, most: int) -> dict[str, Any] | None:
        try:
            return folder.json(name, most) if name in files else None
        except FormatError as error:
            report(error, name)
        except OSError as error:
            report(refused(f"{quote(name)} cannot be read: {error.strerror}"), name)
        return {}

    config = json_of("config.json", MOST_CONFIG)
    if config is None:
        report(refused("the folder has no config.json"), "config.json")
    index = json_of(INDEX, MOST_INDEX)
    shards: dict[str, Mapping[str, Stored]] = {}
    for name in sorted(each for each in files if each.endswith(".safetensors")):
        try:
            shards[name] = folder.shard(name)
        except FormatError as error:
            report(error, name)
        except OSError as error:
            report(refused(f"{quote(name)} cannot be read: {error.strerror}"), name)
    if not any(each.endswith(".safetensors") for each in files):
        pickles = sorted(each for each in files if each.endswith(PICKLES))
        reason = "the folder has no *.safetensors"
        if pickles:
            reason = f"its weights are pickles ({quote(pickles[0])}), which execute code when they are read"
        report(refused(reason), pickles[0] if pickles else "config.json")
    facts = CheckpointFacts(config or {}, index, files, shards, None, "", reading)
    if config and facts.tensors:
        try:
            facts.family = _family(_Read(config, facts.tensors))
        except _Unknown as reason:
            facts.unknown = str(reason)
        except FormatError as error:
            report(error, "config.json")
    return facts


class _Unknown(Exception):
    """There is no family with ternary weights; the text says why."""


def _family(read: _Read) -> FamilyFacts | None:
    """What a checkpoint of the family must have.

    :raises FormatError: H104 for sizes that no model can have
    :raises _Unknown: where there is no such family
    """
    found = family_of(read)
    if found is None:
        seen = ", ".join(quote(str(read.config.get(key))) for key in ("architectures", "model_type"))
        raise _Unknown(f"no family of ternary models has these architectures and model_type: {seen}")
    prefix = "model." if any(name.startswith("model.") for name in read.tensors) else ""
    if found.rule != ABSMEAN and not _ternary(read, found, prefix):
        raise _Unknown(f"its class can be that of {found.name} models, but its weights are not ternary")
    return _expected(found, sizes_of(read.config), prefix, read)


def _ternary(read: _Read, family: Family, prefix: str) -> bool:
    """Whether any matrix of the first layer is packed, or looks ternary."""
    for module, name in family.layer.items():
        stored = read.tensors.get(f"{prefix}layers.0.{module}.weight")
        if name not in PROJECTIONS or stored is None or len(stored.shape) != 2 or not all(stored.shape):
            continue
        if stored.dtype == "U8":
            return True
        try:
            if stored.dtype in WORDS and looks_ternary(stored):
                return True
        except FormatError:  # another rule reports values that are not finite
            continue
    return False


def _expected(family: Family, sizes: ModelSizes, prefix: str, read: _Read) -> FamilyFacts:
    def shape(words: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(getattr(sizes.h, word) for word in words)

    embedding = f"{prefix}embed_tokens.weight"
    expected = {embedding: shape(("vocab", "embd")), f"{prefix}norm.weight": shape(("embd",))}
    matrices, sub_norms, optional = set(), set(), {f"{prefix}{name}" for name in DERIVED}
    for layer in range(sizes.h.layers):
        at = f"{prefix}layers.{layer}."
        optional |= {f"{at}{name}" for name in DERIVED}
        for module, name in family.layer.items():
            weight = f"{at}{module}.weight"
            if name in family.optional:
                optional.add(weight)
                continue
            expected[weight] = shape(SHAPES[name])
            if name in PROJECTIONS:
                matrices.add(weight)
                optional.add(f"{weight}_scale")
            elif name in _SUB_NORMS:
                sub_norms.add(weight)
            if module in family.biases:
                optional.add(f"{at}{module}.bias")
    return FamilyFacts(
        family.name, expected, frozenset(matrices), frozenset(sub_norms), frozenset(optional), embedding,
        family.tied, family.pooling is not None, family.rule == ABSMEAN,
    )  # fmt: skip


def located(error: FormatError, name: str) -> FormatError:
    """The same error, with the name of the file in the folder."""
    return FormatError(error.fault, Span(0, 0, name), error.got, error.want, **error.details)
