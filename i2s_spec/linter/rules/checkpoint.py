"""Rules about a checkpoint, a folder of safetensors: its files and tensors, and its ternary weights.

First index and shards, the family, names, shapes and the head; then packing, the meaning of `weight_scale`, weights
that would be quantized twice, and values that are not finite.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Span, TrustedText, counted, quote
from i2s_spec.linter.analysis.checkpoint_facts import PIECE, WORDS, CheckpointFacts, FamilyFacts, as_floats
from i2s_spec.linter.analysis.conditions import checkpoints
from i2s_spec.linter.rule import WARNING, Finding, WeightUse, rule

if TYPE_CHECKING:
    from i2s_spec.safetensors.files import Stored

INDEX: Final = "model.safetensors.index.json"
HEAD: Final = "lm_head.weight"

_CONFIG: Final = Span(0, 0, "config.json")


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


@rule("H215", "checkpoint-weights-chosen", "{reason}", severity=WARNING, clause="12.1",
      when=checkpoints, provenance=("ggml-org/llama.cpp#10756",))  # fmt: skip
def weights_chosen(facts: CheckpointFacts) -> Iterator[Finding]:
    """It is not clear from the folder which of its files are the model.

    Why: transformers takes model.safetensors before the parts that an index names, and other programs take the parts.
    If the two are of different trainings, programs compute different models. Only the chosen files are checked. Parts
    without an index are whole, but transformers does not load them.

    Example: `model.safetensors` beside `model-00001-of-00002.safetensors`.

    Fix: remove the files that are not the model, or fetch the index.
    """
    for reason in facts.notes:
        yield weights_chosen.at(Span(0, 0, INDEX), reason=TrustedText(reason))


@rule("H216", "checkpoint-code", "{name} {what}", severity=WARNING, clause="12.1", cwe=502, when=checkpoints)  # fmt: skip
def executed_code(facts: CheckpointFacts) -> Iterator[Finding]:
    """The folder has files that execute code when a program loads them.

    Why: a pickle is a program, and loading it runs it. Python modules that auto_map names are run by transformers with
    trust_remote_code. No finding says whether they are harmful: they are not opened. The safetensors need neither.

    Example: `pytorch_model.bin` beside `model.safetensors`; an `auto_map` to `modeling_x.Model` in config.json.

    Fix: remove the files, or load the model with a class of transformers and without trust_remote_code.
    """
    for name, what in facts.code:
        yield executed_code.at(Span(0, 0, name), name=name, what=TrustedText(what))


@rule("H202", "checkpoint-family", "no import takes the checkpoint, and its names and shapes were not checked: {reason}",
      clause="12.1", when=checkpoints)  # fmt: skip
def checkpoint_family(facts: CheckpointFacts) -> Iterator[Finding]:
    """The checkpoint belongs to no known family of ternary models.

    Why: the family determines which tensors a checkpoint must have, and their shapes. The rules about them do not apply
    to other checkpoints, and `i2s import` refuses these: the folder may be sound, and is nothing that i2s can check.

    Example: `architectures` names a class that no declared family has, or the weights are ordinary floats.

    Fix: nothing has to be done if the model is not ternary: among other folders, `--severity H202=note` lets the run
    succeed. `i2s import` lists the known families.
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
    for family, name in _missing(facts):
        if name not in family.sub_norms:
            yield tensor_missing.at(_CONFIG, name=name, family=TrustedText(family.name))


def _missing(facts: CheckpointFacts) -> Iterator[tuple[FamilyFacts, str]]:
    """Yield the missing tensors of the family; none if all names have a prefix."""
    family = facts.family
    if family is not None and not facts.prefix:
        yield from ((family, name) for name in family.expected if name not in facts.tensors)


@rule("H214", "checkpoint-prefix", "the name of every tensor begins with {prefix}, which no model class expects; "
      "{count:tensor is|tensors are} concerned, and missing and unknown tensors are not listed one by one", clause="12.1",
      when=checkpoints, provenance=("ServeurpersoCom/acestep.cpp#31",))  # fmt: skip
def checkpoint_prefix(facts: CheckpointFacts) -> Iterator[Finding]:
    """Every tensor's name has a prefix that a training program left.

    Why: wrappers of training programs put themselves before all names. transformers then finds none of the tensors,
    fills the model with random values and only warns; converters find nothing to convert.

    Example: `base_model.model.model.layers.0.mlp.up_proj.weight`, or `_orig_mod.` after `torch.compile`.

    Fix: save the unwrapped model, after adapters are merged; or rename the tensors.
    """
    if facts.prefix:
        first = next(iter(facts.tensors))
        yield checkpoint_prefix.at(facts.span(first), prefix=facts.prefix, count=len(facts.tensors))


@rule("H204", "checkpoint-sub-norm-missing", "the checkpoint has no {name}, which {family} models need", clause="12.1",
      when=checkpoints, provenance=("huggingface/transformers#47957",))  # fmt: skip
def sub_norm_missing(facts: CheckpointFacts) -> Iterator[Finding]:
    """A norm inside the attention or the feed-forward block is missing.

    Why: BitNet models normalize the inputs of the output projection and of the down projection. Without the gains a
    runtime leaves the norm out, or uses random gains, and the text is wrong although every matrix is right.

    Example: a fine-tune was saved by a class without `attn_sub_norm`.

    Fix: take the gains from the model that the checkpoint was made from.
    """
    for family, name in _missing(facts):
        if name in family.sub_norms:
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
    if family is None or facts.prefix:
        return
    for name in facts.tensors:
        if name != HEAD and name not in family.expected and name not in family.optional:
            yield tensor_unknown.at(facts.span(name), name=name, family=TrustedText(family.name))


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
            yield tensor_shape.at(facts.span(name), got=stored.shape, want=want or shape, name=name)


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
    if family is None or facts.prefix:
        return
    tied, stored = facts.config.get("tie_word_embeddings"), facts.tensors.get(HEAD)
    if stored is None:
        if tied is False and not family.headless:
            reason = f"config.json says tie_word_embeddings false, and there is no {HEAD}"
            yield head.at(_CONFIG, reason=TrustedText(reason))
        return
    if (tied is True or family.tied or family.headless) and not _equals_embedding(facts, family.embedding):
        why = f"{family.name} models have no separate head"
        if tied is True:
            why = "config.json says tie_word_embeddings true"
        yield head.at(facts.span(HEAD), reason=TrustedText(f"{why}, and {HEAD} differs from the embedding"))


def _equals_embedding(facts: CheckpointFacts, embedding: str) -> bool:
    """Whether the head equals the embedding byte for byte, as far as weights are read."""
    stored, table = facts.tensors[HEAD], facts.tensors.get(embedding)
    if table is None:
        return True  # another rule reports that it is missing
    if (stored.dtype, stored.shape) != (table.dtype, table.shape):
        return False
    places = {"none": range(0), "sample": range(0, min(PIECE, stored.nbytes), PIECE)}
    ends = ((at, min(at + PIECE, stored.nbytes)) for at in places.get(facts.reading, range(0, stored.nbytes, PIECE)))
    return all(stored.read(start, stop) == table.read(start, stop) for start, stop in ends)


# --- ternary weights -------------------------------------------------------------------------------------------------

#: Classes of linear modules that transformers knows, and whether `weight_scale` multiplies.
MULTIPLIES: Final = {"bitlinear": False, "autobitlinear": True}
_MODES: Final = ("online", "offline")
#: Scales of trained models are below these; a larger one whose reciprocal is between them was inverted.
LARGE: Final = 8.0
LIKELY: Final = (1e-3, 0.125)


@rule("H207", "checkpoint-packing", "tensor {name} of the checkpoint {reason}", clause="12.1",
      when=checkpoints)  # fmt: skip
def packing(facts: CheckpointFacts) -> Iterator[Finding]:
    """A packed matrix and its scale are not a pair.

    Why: packed weights are trits, and `weight_scale` gives the value of +1. Without it the size of every output is
    unknown. With a `weight_scale` beside float weights, it is unclear whether they must still be multiplied by it.

    Example: `q_proj.weight` in uint8, and no `q_proj.weight_scale`.

    Fix: write the checkpoint again with the library that made it.
    """
    for name in facts.packed:
        for reason in _pair(facts, name):
            yield packing.at(facts.span(name), name=name, reason=TrustedText(reason))
    for name, stored in facts.tensors.items():
        if name.endswith(".weight_scale"):
            weight = facts.tensors.get(name.removesuffix("_scale"))
            if weight is None or weight.dtype != "U8":
                there = "there is no such matrix" if weight is None else f"that is {quote(weight.dtype)}"
                reason = f"belongs to a packed matrix, and {there}"
                yield packing.at(facts.span(stored.name), name=name, reason=TrustedText(reason))


def _pair(facts: CheckpointFacts, name: str) -> Iterator[str]:
    stored = facts.tensors.get(f"{name}_scale")
    if stored is None:
        yield f"is packed, and there is no {quote(name + '_scale')}"
        return
    scale = facts.scale(name)
    if scale is None:
        yield f"is packed, and its scale is {quote(stored.dtype)} of shape {list(stored.shape)}, not one float"
    elif not 0 < scale < float("inf"):
        yield f"is packed, and its scale is {scale}, not a positive number"


@rule("H208", "checkpoint-code-3", "packed tensor {name} has {got:weight} of code 3, which stands for no trit",
      clause="12.1", when=checkpoints, weights=WeightUse.PART)  # fmt: skip
def code_3(facts: CheckpointFacts) -> Iterator[Finding]:
    """A packed matrix has a code that stands for no trit.

    Why: two bits hold four codes, and only three are used. A program that does not check this unpacks the fourth as a
    weight of +2.

    Example: bytes of another layout under the name of a packed matrix.

    Fix: write the checkpoint again with the library that made it.
    """
    import numpy as np

    for name in facts.packed:
        found = 0
        for piece in facts.pieces(facts.tensors[name]):
            data = np.frombuffer(piece, np.uint8)
            both = data & (data >> np.uint8(1)) & np.uint8(0x55)
            if both.any():
                found += int(np.unpackbits(both).sum())
        if found:
            yield code_3.at(facts.span(name), got=found, name=name)


@rule("H209", "checkpoint-quantization", "quantization_config of config.json does not fit the weights: {reason}",
      clause="12.1", when=checkpoints, provenance=("microsoft/BitNet#588",))  # fmt: skip
def quantization(facts: CheckpointFacts) -> Iterator[Finding]:
    """config.json does not say how to read the packed weights.

    Why: `linear_class` states whether `weight_scale` multiplies or divides, and `quantization_mode` whether it is read
    at all: the mode online quantizes float weights in every pass, and ignores the scale of packed weights.

    Example: packed matrices, and `quantization_mode: online`.

    Fix: write `quant_method`, the `linear_class` that the weights were packed with, and `quantization_mode: offline`.
    """
    if facts.foreign:
        yield quantization.at(_CONFIG, reason=TrustedText(facts.foreign))
        return
    about = facts.config.get("quantization_config")
    if about is None:
        if facts.packed:
            reason = "it is missing, and nothing else says whether weight_scale multiplies or divides"
            yield quantization.at(_CONFIG, reason=TrustedText(reason))
        return
    if not isinstance(about, dict):
        yield quantization.at(_CONFIG, reason=TrustedText("it is not an object"))
        return
    for key, known in (("linear_class", tuple(MULTIPLIES)), ("quantization_mode", _MODES)):
        if about.get(key) is not None and about[key] not in known:
            reason = f"{key} is {quote(str(about[key]))}; known are {', '.join(known)}"
            yield quantization.at(_CONFIG, reason=TrustedText(reason))
    if facts.packed and about.get("quantization_mode") == "online":
        reason = (
            f"quantization_mode is online, which reads no weight_scale, and "
            f"{counted(len(facts.packed), 'matrix is', 'matrices are')} packed"
        )
        yield quantization.at(_CONFIG, reason=TrustedText(reason)).at_most(WARNING)  # an import takes their scales


@rule("H210", "checkpoint-scale-convention", "according to config.json weight_scale {word}, but scales are about "
      "{got}; their reciprocals are about {want}, like the scales of trained models", severity=WARNING, clause="12.1",
      when=checkpoints, provenance=("microsoft/BitNet#616",))  # fmt: skip
def scale_convention(facts: CheckpointFacts) -> Iterator[Finding]:
    """Scales look like the reciprocals of what config.json says.

    Why: transformers' AutoBitLinear multiplies by `weight_scale`, its BitLinear divides. With the wrong choice the
    trits are right, but every output is wrong by the square of the scale. Scales near 1 fit both, so the absence of
    this finding proves nothing.

    Example: a model that was packed by BitLinear, with scales of 60, under `linear_class: autobitlinear`.

    Fix: correct `linear_class` in config.json, or pass --weight-scale to `i2s import`.
    """
    word = facts.quantization.get("linear_class") or "bitlinear"
    if not facts.quantization or not isinstance(word, str) or word not in MULTIPLIES:
        return
    stored = [scale for name in facts.packed if (scale := facts.scale(name)) is not None and 0 < scale < float("inf")]
    if not stored:
        return
    from statistics import median  # brings fractions and random

    usual = median(stored)
    scale = usual if MULTIPLIES[word] else 1 / usual
    if scale > LARGE and LIKELY[0] < 1 / scale < LIKELY[1]:
        got, want = TrustedText(f"{scale:.3g}"), TrustedText(f"{1 / scale:.3g}")
        words = TrustedText("multiplies" if MULTIPLIES[word] else "divides")
        yield scale_convention.at(_CONFIG, got=got, want=want, word=words)


@rule("H211", "checkpoint-quantized-twice", "{got:matrix is|matrices are} already ternary, the first is {name}, "
      "and quantization_mode online would quantize them again", clause="12.1",
      when=checkpoints, weights=WeightUse.PART)  # fmt: skip
def quantized_twice(facts: CheckpointFacts) -> Iterator[Finding]:
    """Weights that are already ternary would be quantized again.

    Why: the mode online takes the mean of the absolute weights as the scale. For floats that are -s, 0 and +s, this
    mean is s times the share of nonzero weights: the trits stay the same, but every scale shrinks by a third to a half.

    Example: weights of a ternary model in bf16, under `quantization_mode: online`.

    Fix: pack the weights and write `offline`, as `i2s export` does; or leave quantization_config out.
    """
    family = facts.family
    if family is None or not family.absmean or facts.quantization.get("quantization_mode") != "online":
        return
    found = [name for name in family.expected if name in family.matrices and _is_ternary(facts.tensors.get(name))]
    if found:
        yield quantized_twice.at(facts.span(found[0]), got=len(found), name=found[0])


def _is_ternary(stored: Stored | None) -> bool:
    """Whether the first rows of floats have only 0 and one magnitude, the same in each row."""
    import numpy as np

    if stored is None or stored.dtype not in WORDS:
        return False
    width = WORDS[stored.dtype]
    size = np.abs(as_floats(stored.read(0, min(stored.nbytes, 4096 * width)), stored.dtype))
    present = size[size != 0]
    return bool(present.size > 1 and (present == present[0]).all())


@rule("H213", "checkpoint-not-finite", "tensor {name} of the checkpoint has "
      "{got:value that is|values that are} infinite or NaN",
      clause="12.1", when=checkpoints, weights=WeightUse.PART)  # fmt: skip
def not_finite(facts: CheckpointFacts) -> Iterator[Finding]:
    """Weights are infinite or NaN.

    Why: one such weight in a matrix makes its mean and therefore its scale infinite or NaN, and with it every output.

    Example: the training diverged, or float16 overflowed when the weights were cast.

    Fix: go back to an earlier checkpoint, or cast to bfloat16 instead.
    """
    import numpy as np

    for name, stored in facts.tensors.items():
        if stored.dtype in WORDS:
            found = sum(int(np.count_nonzero(~np.isfinite(part))) for part in facts.floats(stored))
            if found:
                yield not_finite.at(facts.span(name), got=found, name=name)
