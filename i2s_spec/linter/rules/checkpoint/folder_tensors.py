"""Rules about the files and tensors of a checkpoint's folder: index and shards, names, shapes, the head."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import Span, TrustedText, counted, quote
from i2s_spec.linter.analysis.checkpoint_facts import PIECE, CheckpointFacts
from i2s_spec.linter.analysis.conditions import checkpoints
from i2s_spec.linter.rule import NOTE, Finding, rule

INDEX: Final = "model.safetensors.index.json"
HEAD: Final = "lm_head.weight"

_CONFIG: Final = Span(0, 0, "config.json")
#: The file names of the shards of a model.
_NUMBERED: Final = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors", re.ASCII)


@rule("H201", "checkpoint-index", "the shards of the checkpoint do not fit: {reason}", clause="12.1",
      when=checkpoints)  # fmt: skip
def checkpoint_index(facts: CheckpointFacts) -> Iterator[Finding]:
    """The index of a checkpoint and its shards differ.

    Why: a loader takes every tensor from the shard that the index names. If a shard is missing, or a tensor is in
    another shard, layers keep their random initial values, and some loaders only warn.

    Example: `model.safetensors.index.json` names two shards, and one was not downloaded.

    Fix: fetch the shards and the index again, all of one revision.
    """
    for reason in _index_reasons(facts):
        yield checkpoint_index.at(Span(0, 0, INDEX), reason=TrustedText(reason))


def _index_reasons(facts: CheckpointFacts) -> Iterator[str]:
    for name, shard in facts.shard_of.items():
        again = [other for other, tensors in facts.shards.items() if other != shard and name in tensors]
        if again:
            yield f"tensor {quote(name)} is in {quote(shard)} and in {quote(again[0])}"
    if facts.index is None:
        yield from _numbered(facts)
        return
    places = facts.index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        yield f"{INDEX} has no weight_map from tensors to files"
        return
    if not places:
        yield f"{INDEX} names no tensor: its weight_map is empty"
        return
    named = set(places.values())
    for shard in sorted(named - facts.files):
        if os.path.basename(shard) != shard:
            yield f"{INDEX} names the shard {quote(shard)}, which is not the name of a file"
        else:
            yield f"{INDEX} names the shard {quote(shard)}, which is missing"
    for name, shard in places.items():
        found = facts.shards.get(shard)
        if found is not None and name not in found:
            other = facts.shard_of.get(name)
            where = "no shard has" if other is None else f"is in {quote(other)}"
            yield f"{INDEX} says that {quote(shard)} has tensor {quote(name)}, which {where}"
    for shard in sorted(facts.shards.keys() & named):
        for name in facts.shards[shard]:
            if name not in places:
                yield f"tensor {quote(name)} of {quote(shard)} is not in {INDEX}"


def _numbered(facts: CheckpointFacts) -> Iterator[str]:
    """Numbered shards of which some are missing."""
    for shard in sorted(facts.files):
        match = _NUMBERED.fullmatch(shard)
        if match is None or int(match[3]) < 2:
            continue
        yield f"{quote(shard)} is one of {counted(int(match[3]), 'shard')}, and there is no {INDEX}"
        return


@rule("H202", "checkpoint-family", "names and shapes of the checkpoint were not checked: {reason}", severity=NOTE,
      clause="12.1", when=checkpoints)  # fmt: skip
def checkpoint_family(facts: CheckpointFacts) -> Iterator[Finding]:
    """The checkpoint belongs to no known family of ternary models.

    Why: the family determines which tensors a checkpoint must have, and their shapes. The rules about them do not apply
    to other checkpoints, so a report without findings then means little.

    Example: `architectures` names a class that no declared family has, or the weights are ordinary floats.

    Fix: nothing has to be done if the model is not ternary. `i2s import` lists the known families.
    """
    if facts.family is None and facts.unknown:
        yield checkpoint_family.at(_CONFIG, reason=TrustedText(facts.unknown))


@rule("H203", "checkpoint-tensor-missing", "the checkpoint has no tensor {name}, which {family} models have", clause="12.1",
      when=checkpoints)  # fmt: skip
def tensor_missing(facts: CheckpointFacts) -> Iterator[Finding]:
    """A tensor of the model is missing.

    Why: transformers fills a missing tensor with random values and only warns. A converter that skips it writes a file
    that no program loads, or that computes something else.

    Example: `model.layers.3.mlp.up_proj.weight` was not saved.

    Fix: save the model again, or fetch the shard that has the tensor.
    """
    family = facts.family
    if family is None:
        return
    for name in family.expected:
        if name not in facts.tensors and name not in family.sub_norms:
            yield tensor_missing.at(_CONFIG, name=name, family=TrustedText(family.name))


@rule("H204", "checkpoint-sub-norm-missing", "the checkpoint has no {name}, which {family} models need", clause="12.1",
      when=checkpoints, provenance=("huggingface/transformers#47957",))  # fmt: skip
def sub_norm_missing(facts: CheckpointFacts) -> Iterator[Finding]:
    """A norm inside the attention or the feed-forward block is missing.

    Why: BitNet models normalize the inputs of the output projection and of the down projection. Without the gains a
    runtime leaves the norm out, or uses random gains, and the text is wrong although every matrix is right.

    Example: a fine-tune was saved by a class without `attn_sub_norm`.

    Fix: take the gains from the model that the checkpoint was made from.
    """
    family = facts.family
    if family is None:
        return
    for name in family.expected:
        if name not in facts.tensors and name in family.sub_norms:
            yield sub_norm_missing.at(_CONFIG, name=name, family=TrustedText(family.name))


@rule("H205", "checkpoint-tensor-unknown", "tensor {name} does not belong to {family} models; a conversion cannot keep it",
      clause="12.1", when=checkpoints)  # fmt: skip
def tensor_unknown(facts: CheckpointFacts) -> Iterator[Finding]:
    """The model's graph does not use a tensor.

    Why: converters silently leave it out. If the tensor matters, the converted file is another model. Typical cases are
    adapters of a fine-tune that were not merged, and more layers than config.json states.

    Example: `model.layers.0.self_attn.q_proj.lora_A.weight` in a folder with the matrices of the base model.

    Fix: merge adapters before the model is saved; correct `num_hidden_layers` in config.json.
    """
    family = facts.family
    if family is None:
        return
    for name in facts.tensors:
        if name != HEAD and name not in family.expected and name not in family.optional:
            yield tensor_unknown.at(Span(0, 0, facts.shard_of[name]), name=name, family=TrustedText(family.name))


@rule("H206", "checkpoint-shape", "tensor {name} of the checkpoint has the shape {got}; config.json gives {want}",
      clause="12.1", when=checkpoints)  # fmt: skip
def tensor_shape(facts: CheckpointFacts) -> Iterator[Finding]:
    """A tensor has another shape than config.json gives.

    Why: programs take the sizes from config.json and read the weights accordingly. A packed matrix has a quarter of the
    rows. Another shape gives wrong weights, or ends the program that reads it.

    Example: `vocab_size` was increased in config.json, but the embedding was not.

    Fix: correct config.json, or fetch the files again, all of one revision.
    """
    family = facts.family
    if family is None:
        return
    for name, shape in family.expected.items():
        stored = facts.tensors.get(name)
        if stored is None:
            continue
        want: tuple[int, ...] = shape
        if stored.dtype == "U8" and name in family.matrices:
            want = (shape[0] // 4, shape[1]) if shape[0] % 4 == 0 else ()
        if stored.shape != want:
            yield tensor_shape.at(Span(0, 0, facts.shard_of[name]), got=stored.shape, want=want or shape, name=name)


@rule("H212", "checkpoint-head", "the head of the checkpoint does not fit: {reason}", clause="12.1",
      when=checkpoints)  # fmt: skip
def head(facts: CheckpointFacts) -> Iterator[Finding]:
    """The head and config.json contradict each other.

    Why: with `tie_word_embeddings` the embedding is also the head, and `lm_head.weight` is not read; without it,
    `lm_head.weight` is required. If the two contradict each other, programs choose differently and compute different
    logits.

    Example: `tie_word_embeddings` is true, but lm_head.weight was trained separately.

    Fix: set `tie_word_embeddings` to the value that the model was trained with, and save it again.
    """
    family = facts.family
    if family is None:
        return
    tied, stored = facts.config.get("tie_word_embeddings"), facts.tensors.get(HEAD)
    if stored is None:
        if tied is False and not family.headless:
            reason = f"config.json says tie_word_embeddings false, and there is no {HEAD}"
            yield head.at(_CONFIG, reason=TrustedText(reason))
        return
    if (tied is True or family.tied or family.headless) and not _equals_embedding(facts, family.embedding):
        why = (
            "config.json says tie_word_embeddings true"
            if tied is True
            else f"{family.name} models have no separate head"
        )
        yield head.at(
            Span(0, 0, facts.shard_of[HEAD]), reason=TrustedText(f"{why}, and {HEAD} differs from the embedding")
        )


def _equals_embedding(facts: CheckpointFacts, embedding: str) -> bool:
    """Whether the head equals the embedding byte for byte, as far as weights are read."""
    stored, table = facts.tensors[HEAD], facts.tensors.get(embedding)
    if table is None:
        return True  # another rule reports that it is missing
    if (stored.dtype, stored.shape) != (table.dtype, table.shape):
        return False
    places = {"none": range(0), "sample": range(0, min(PIECE, stored.nbytes), PIECE)}
    return all(
        stored.read(place, min(place + PIECE, stored.nbytes)) == table.read(place, min(place + PIECE, stored.nbytes))
        for place in places.get(facts.reading, range(0, stored.nbytes, PIECE))
    )
