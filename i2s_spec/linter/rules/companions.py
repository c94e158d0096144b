"""Rules about files that are used beside a model: LoRA adapters, importance matrices and control vectors.

They follow the readers of llama.cpp at 0c1e57098: src/llama-adapter.cpp, common/imatrix-loader.cpp, tools/quantize, and
common/common.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite, prod
from typing import Final

from i2s_spec.errors import TrustedText, counted, quote
from i2s_spec.linter.analysis.companion_view import NamedTensor, own_records
from i2s_spec.linter.analysis.conditions import (
    adapters,
    adapters_with_base,
    base_model,
    control_vectors,
    importance_matrices,
)
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.rule import WARNING, Finding, Rule, WeightUse, rule
from i2s_spec.schema import kinds
from i2s_spec.schema.faults import TENSOR_COUNT_SPAN
from i2s_spec.schema.types import BY_NAME

_F32: Final = BY_NAME["F32"].number

# --- adapters --------------------------------------------------------------------------------------------------------

#: The keys that an adapter needs, with the value that llama.cpp compares them with.
_NEEDED: Final = {"general.type": "adapter", "adapter.type": "lora", "general.architecture": ""}


@rule("M201", "adapter-key", "{key} is {got}; an adapter needs {want}", clause="3.9", when=adapters)
def adapter_key(subject: LintContext) -> Iterator[Finding]:
    """A key of an adapter is missing or has another value.

    Why: llama.cpp loads a file as an adapter only if general.type is adapter and adapter.type is lora ('expect
    adapter.type to be ...'), and compares general.architecture with that of the model.

    Example: a LoRA adapter whose adapter.type is dora.

    Fix: write the key; convert_lora_to_gguf.py of llama.cpp writes all of them.
    """
    found = own_records(subject)
    for key, want in _NEEDED.items():
        if key not in found.places:
            got: str | TrustedText = TrustedText("missing")
        elif (value := found.value(key, "str")) is None or (value == want or (not want and value)):
            continue
        else:
            got = value
        wanted = TrustedText(f"'{want}'" if want else "the architecture of its base model")
        yield adapter_key.at(found.value_span(key), got=got, want=wanted, key=TrustedText(key))


@rule("M202", "adapter-key-type", "{key} has type {got}; llama.cpp reads only {want}", clause="3.9", cwe=843,
      when=adapters)  # fmt: skip
def adapter_key_type(subject: LintContext) -> Iterator[Finding]:
    """A key of an adapter has another type than llama.cpp reads.

    Why: the reader compares types strictly; its process ends at another one. Without adapter.lora.alpha an adapter
    loads, with a factor of 1.

    Example: adapter.lora.alpha as u32 16.

    Fix: write the key with that type.
    """
    for key, span, got, want in own_records(subject).of_another_type(kinds.KEYS[kinds.ADAPTER]):
        yield adapter_key_type.at(span, got=got, want=want, key=key)


@rule("M203", "adapter-alpha", "adapter.lora.alpha is {got}; every weight that the adapter changes becomes NaN or "
      "infinite", clause="3.9", when=adapters)  # fmt: skip
def adapter_alpha(subject: LintContext) -> Iterator[Finding]:
    """The factor of an adapter is NaN or infinite.

    Why: llama.cpp multiplies the adapter's product by alpha divided by the rank, without a check.

    Example: an alpha of NaN, from a scaling that was computed with a rank of 0.

    Fix: write the lora_alpha of adapter_config.json.
    """
    found = own_records(subject)
    value = found.value("adapter.lora.alpha", "f32")
    if value is not None and not isfinite(value):
        yield adapter_alpha.at(found.value_span("adapter.lora.alpha"), got=value)


@analysis
def _pairs(subject: LintContext) -> dict[str, dict[str, NamedTensor]]:
    """Return the tensors of an adapter or an importance matrix by the name of the weight that they are about, and by the
    ends of their names: `.lora_a` and `.lora_b`, `.in_sum2` and `.counts`.
    """
    of_adapter = adapters(subject)
    pairs: dict[str, dict[str, NamedTensor]] = {}
    for name, tensor in own_records(subject).tensors.items():
        for end in kinds.LORA_ENDS if of_adapter else kinds.IMATRIX_ENDS:
            if name.endswith(end):  # llama.cpp removes all occurrences from the names of an adapter
                weight = name.replace(end, "") if of_adapter else name.removesuffix(end)
                pairs.setdefault(weight, {})[end] = tensor
    return pairs


def _halves(subject: LintContext, ends: tuple[str, str]) -> Iterator[tuple[str, NamedTensor, str]]:
    """Yield the pairs of which a half is missing: the name of the weight, the half that is there, the missing name."""
    for name, pair in _pairs(subject).items():
        if len(pair) == 1:
            (end, there), = pair.items()  # fmt: skip
            yield name, there, name + ends[1 - ends.index(end)]


def _whole(subject: LintContext) -> Iterator[tuple[str, NamedTensor, NamedTensor]]:
    """Yield name, A and B of the pairs that are whole."""
    for name, pair in _pairs(subject).items():
        if len(pair) == len(kinds.LORA_ENDS):
            yield name, pair[".lora_a"], pair[".lora_b"]


def _is_embedding(name: str) -> bool:
    """Whether the pair changes the token embedding, whose rows are taken from A: there A and B are the other way round."""
    return name.endswith("token_embd.weight")


@rule("M204", "adapter-pair-halved", "the pair of {name} lacks {want}", clause="3.9", when=adapters)
def adapter_pair_halved(subject: LintContext) -> Iterator[Finding]:
    """One of the two matrices of a pair is missing.

    Why: the change of a weight is the product of lora_b and lora_a. llama.cpp refuses the file: 'LoRA tensor pair ...
    is missing one component'.

    Example: blk.0.attn_q.weight.lora_a without blk.0.attn_q.weight.lora_b.

    Fix: convert the adapter again.
    """
    for name, there, missing in _halves(subject, kinds.LORA_ENDS):
        yield adapter_pair_halved.at(subject.name_span(there.row), want=missing, name=name)


@rule("M205", "adapter-rank", "the matrices of {name} do not fit each other: {a} and {b} have ranks {got} and {want}",
      clause="3.9", when=adapters)  # fmt: skip
def adapter_rank(subject: LintContext) -> Iterator[Finding]:
    """The two matrices of a pair have different ranks.

    Why: the number of rows of lora_a is the length of the rows of lora_b. llama.cpp refuses the pair: 'lora_a tensor is
    not transposed'. For the token embedding both have rows of that length.

    Example: lora_a with 8 rows beside lora_b with rows of 4, or a lora_a that was not transposed.

    Fix: convert the adapter again.
    """
    for name, a, b in _whole(subject):
        ranks = (a.ne[0], b.ne[0]) if _is_embedding(name) else (a.ne[1], b.ne[0])
        if ranks[0] != ranks[1]:
            yield adapter_rank.at(subject.info_span(b.row, "ne"), got=ranks[0], want=ranks[1], name=name,
                                  a=_shape(a), b=_shape(b))  # fmt: skip


def _shape(tensor: NamedTensor) -> TrustedText:
    """Return the dimensions of a tensor in ggml's order."""
    return TrustedText(" x ".join(f"{n:,}" for n in tensor.ne[: max(tensor.dims, 2)]))


@rule("M206", "adapter-transposed", "the rank of {name} is {got}, which is more than both widths, {a} and {b}: both "
      "matrices may be transposed", severity=WARNING, clause="3.9", when=adapters)  # fmt: skip
def adapter_transposed(subject: LintContext) -> Iterator[Finding]:
    """The rank of a pair is larger than the widths of the matrix that it changes.

    Why: an adapter is small because its rank is. If both matrices were transposed, the widths take the place of the
    rank, and llama.cpp refuses the file beside its model: 'incorrect shape'. `--reference BASE` decides it.

    Example: lora_a of 8 x 256 and lora_b of 256 x 8 for a matrix of 256 x 256.

    Fix: transpose both matrices, or convert the adapter again.
    """
    for name, a, b in _whole(subject):
        rank = a.ne[0] if _is_embedding(name) else a.ne[1]
        widths = (b.ne[1], a.ne[1]) if _is_embedding(name) else (a.ne[0], b.ne[1])
        if rank == b.ne[0] and rank > max(widths):
            yield adapter_transposed.at(subject.info_span(a.row, "ne"), got=rank, name=name, a=widths[0], b=widths[1])


@rule("M207", "adapter-stray-tensor", "{count:tensor is|tensors are} no part of an adapter; the first is {name}",
      clause="3.9", when=adapters)  # fmt: skip
def adapter_stray_tensor(subject: LintContext) -> Iterator[Finding]:
    """An adapter has a tensor that is no half of a pair.

    Why: llama.cpp takes tensors whose names end in .lora_a and .lora_b, leaves norms out, and refuses the file at any
    other: 'has unexpected suffix'.

    Example: rope_freqs.weight, which a converter copied from the base model.

    Fix: write the adapter without these tensors.
    """
    yield from _strays(subject, adapter_stray_tensor, (*kinds.LORA_ENDS, kinds.NORM_END))


def _strays(subject: LintContext, made: Rule, ends: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the finding of a rule on tensors whose names have none of these ends."""
    found = own_records(subject)
    strays = [name for name in found.tensors if not name.endswith(ends)]
    if strays:
        yield made.at(found.name_span(strays[0]), name=strays[0], count=len(strays))


@rule("M208", "adapter-without-effect", "{why}: loaded beside a model, {what}", severity=WARNING, clause="3.9",
      when=adapters)  # fmt: skip
def adapter_without_effect(subject: LintContext) -> Iterator[Finding]:
    """Some or all of an adapter has no effect.

    Why: llama.cpp loads an adapter without pairs, and changes nothing; it leaves whole norms of an adapter out, so a
    model whose norms were trained as well gives other results than in training.

    Example: blk.0.attn_norm.weight in an adapter.

    Fix: train without norms, or merge the adapter into its base model before the conversion.
    """
    names = own_records(subject).tensors
    norms = [name for name in names if name.endswith(kinds.NORM_END)]
    if norms:
        span = subject.name_span(names[norms[0]].row)
        why = f"there {'is' if len(norms) == 1 else 'are'} {counted(len(norms), 'whole norm')}"
        yield adapter_without_effect.at(
            span, why=TrustedText(why), what=TrustedText("norms of an adapter are left out")
        )
    if not _pairs(subject):
        what = TrustedText("it changes nothing")
        yield adapter_without_effect.at(TENSOR_COUNT_SPAN, why=TrustedText("there is no pair of matrices"), what=what)


@rule("M209", "adapter-of-another-model", "llama.cpp refuses the adapter with this base model: {what}", clause="3.9",
      when=adapters_with_base)  # fmt: skip
def adapter_of_another_model(subject: LintContext) -> Iterator[Finding]:
    """The adapter does not fit the base model of --reference.

    Why: llama.cpp compares the architecture, looks for each name among the tensors of the model, and compares the
    widths: 'does not exist in base model', 'has incorrect shape (hint: maybe wrong base model?)'.

    Example: an adapter of a model of 4,096 columns beside one of 2,048.

    Fix: name the model that the adapter was trained on, or convert the adapter again.
    """
    base = base_model(subject)
    assert base is not None
    theirs = base.metadata.get("general.architecture")
    found = own_records(subject)
    mine = found.value("general.architecture", "str")
    if isinstance(mine, str) and isinstance(theirs, str) and mine != theirs:
        span = found.value_span("general.architecture")
        what = _what("the architecture is {} and that of the base model {}", mine, theirs)
        yield adapter_of_another_model.at(span, got=mine, want=theirs, what=what)
    for name, a, b in _whole(subject):
        twin = base.tensors.get(name)
        if twin is None:
            what = _what("the base model has no tensor {}", name)
            yield adapter_of_another_model.at(subject.name_span(a.row), what=what)
            continue
        ne = (*twin.ne, 1, 1)
        got = (b.ne[1], a.ne[1]) if _is_embedding(name) else (a.ne[0], b.ne[1])
        if (ne[0], ne[1]) != got:
            what = _what(f"the pair of {{}} is for {got[0]:,} x {got[1]:,}, and the base model has {ne[0]:,} x {ne[1]:,}",
                         name)  # fmt: skip
            yield adapter_of_another_model.at(subject.info_span(a.row, "ne"), got=got[0], want=ne[0], what=what)


def _what(words: str, *names: str) -> TrustedText:
    """Return words of ours with quoted texts of the file in them."""
    return TrustedText(words.format(*(quote(name, 64) for name in names)))


# --- importance matrices ---------------------------------------------------------------------------------------------


@rule("M221", "imatrix-key", "{key} is {got}; llama-quantize {want}", clause="3.9", when=importance_matrices)
def imatrix_key(subject: LintContext) -> Iterator[Finding]:
    """A key of an importance matrix is missing or has another type.

    Why: llama-quantize ends without all three keys ('missing imatrix metadata'), and its process ends at counts of
    another type than u32.

    Example: a file without imatrix.chunk_size.

    Fix: write the keys: the names of the texts, the number of chunks and the tokens in each.
    """
    found = own_records(subject)
    for key in kinds.IMATRIX_KEYS:
        if key not in found.places:
            yield imatrix_key.at(found.value_span(key), got=TrustedText("missing"), key=TrustedText(key),
                                 want=TrustedText("ends without it"))  # fmt: skip
    for key, span, got, want in found.of_another_type(kinds.KEYS[kinds.IMATRIX]):
        yield imatrix_key.at(span, got=TrustedText(f"of type {got}"), key=key, want=TrustedText(f"reads only {want}"))


@rule("M222", "imatrix-tensor", "no pairs of sums and counts: {what}", clause="3.9", when=importance_matrices)
def imatrix_tensor(subject: LintContext) -> Iterator[Finding]:
    """The tensors of an importance matrix are not pairs of sums and counts.

    Why: for each weight there are sums of squares (NAME.in_sum2) and how many rows were added (NAME.counts, one for each
    expert), both F32. llama-quantize refuses a file without tensors, a half of a pair and another type. Sums that the
    number of counts does not divide are cut.

    Example: blk.0.attn_q.weight.in_sum2 without blk.0.attn_q.weight.counts.

    Fix: write the file again with llama-imatrix.
    """
    if not subject.file.index.tensors:
        what = TrustedText("there are no tensors, so it says nothing of any weight")
        yield imatrix_tensor.at(TENSOR_COUNT_SPAN, what=what)
    for name, there, missing in _halves(subject, kinds.IMATRIX_ENDS):
        what = _what("the sums and counts of {} are not a pair: {} is missing", name, missing)
        yield imatrix_tensor.at(subject.name_span(there.row), what=what)
    for name, pair in _pairs(subject).items():
        if len(pair) == 1:
            continue
        for end, tensor in pair.items():
            if tensor.type != _F32:
                what = _what("{} is not F32, the only type that llama-quantize reads here", name + end)
                yield imatrix_tensor.at(subject.info_span(tensor.row, "type"), what=what)
        sums, counts = (prod(pair[end].ne) for end in kinds.IMATRIX_ENDS)
        if counts == 0 or sums % counts:
            words = f"{{}} has {counted(sums, 'sum')} and {counted(counts, 'count')}, which do not divide them"
            what = _what(words, name)
            yield imatrix_tensor.at(subject.info_span(pair[".counts"].row, "ne"), what=what)


@rule("M223", "imatrix-stray-tensor", "{count:tensor is|tensors are} neither sums nor counts; the first is {name}",
      severity=WARNING, clause="3.9", when=importance_matrices)  # fmt: skip
def imatrix_stray_tensor(subject: LintContext) -> Iterator[Finding]:
    """An importance matrix has other tensors than sums and counts.

    Why: llama-quantize leaves them out, so weights that they are meant for are quantized without importances.

    Example: blk.0.attn_q.weight.in_sum.

    Fix: write the file again with llama-imatrix.
    """
    yield from _strays(subject, imatrix_stray_tensor, kinds.IMATRIX_ENDS)


def imatrix_read(subject: LintContext) -> bool:
    """importance matrices whose values are read"""  # noqa: D401
    return importance_matrices(subject) and subject.reading.mode == "full"


@rule("M224", "imatrix-value", "{name} has {got} that {what}; the first is {first}, element {element}", clause="3.9",
      when=imatrix_read, weights=WeightUse.EVERY_BYTE)  # fmt: skip
def imatrix_value(subject: LintContext) -> Iterator[Finding]:
    """A sum or count of an importance matrix is negative, infinite or NaN.

    Why: sums of squares and numbers of rows are finite and not negative. llama-quantize stops at values that are not
    finite ('imatrix contains non-finite value'); with negative importances it chooses the worst scales in place of the
    best.

    Example: sums that overflowed in a model whose activations did.

    Fix: compute the matrix again, with a model that gives finite logits.
    """
    left = subject.file.size  # tensors that share bytes could ask for any number
    for name, pair in _pairs(subject).items():
        for end in kinds.IMATRIX_ENDS:
            tensor = subject.file.tensors.by_index(pair[end].row) if end in pair else None
            if tensor is None or tensor.number != _F32 or tensor.span.stop > subject.file.size:
                continue
            left -= tensor.nbytes
            if left < 0:
                return
            found = _odd_value(subject, tensor.span.start, tensor.span.stop)
            if found is not None:
                odd, first, element = found
                at = subject.absolute(start := tensor.span.start - (subject.file.data_start or 0) + 4 * element,
                                      start + 4, f"data[{tensor.index}]")  # fmt: skip
                what = TrustedText("is negative or not finite" if odd == 1 else "are negative or not finite")
                yield imatrix_value.at(at, got=TrustedText(counted(odd, "value")), name=name + end, what=what,
                                       first=first, element=element)  # fmt: skip


#: Bytes that are read at a time.
_WINDOW: Final = 1 << 22


def _odd_value(subject: LintContext, start: int, stop: int) -> tuple[int, float, int] | None:
    """Return the number of negative or non-finite float32 in these bytes, the first of them and its place, if any."""
    import numpy as np

    order, count, first, element = ">f4" if subject.file.byte_order == "big" else "<f4", 0, 0.0, 0
    for at in range(start, stop, _WINDOW):
        values = np.frombuffer(subject.file.source.read(at, min(_WINDOW, stop - at)), order)
        odd = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if odd.size and not count:
            first, element = float(values[odd[0]]), (at - start) // 4 + int(odd[0])
        count += int(odd.size)
    return (count, first, element) if count else None


# --- control vectors -------------------------------------------------------------------------------------------------

_DIRECTION: Final = re.compile(r"direction\.(\d{1,9})")


@rule("M226", "control-vector-tensor", "llama.cpp refuses the directions: {what}", clause="3.9", when=control_vectors)
def control_vector_tensor(subject: LintContext) -> Iterator[Finding]:
    """A tensor of a control vector is not a direction of a layer.

    Why: llama.cpp takes one vector of F32 for each layer from 1 on, direction.N, all of the model's width, and leaves the
    whole file out at the first tensor that is anything else: 'invalid direction tensors'. Layer 0 has none.

    Example: direction.0, or a direction of type F16.

    Fix: write the file again with llama-cvector-generator.
    """
    found = own_records(subject)
    width = 0
    if not found.tensors:
        yield control_vector_tensor.at(TENSOR_COUNT_SPAN, what=TrustedText("the file has no tensors"))
    for name, tensor in found.tensors.items():
        number = _DIRECTION.match(name)
        if number is None or not int(number[1]):
            what = _what("{} is not called direction.N with a layer from 1 on", name)
            yield control_vector_tensor.at(subject.name_span(tensor.row), what=what)
        elif tensor.type != _F32:
            what = _what("{} is not F32, the only type that llama.cpp reads here", name)
            yield control_vector_tensor.at(subject.info_span(tensor.row, "type"), what=what)
        elif prod(tensor.ne[1:]) != 1:
            yield control_vector_tensor.at(found.ne_span(name), what=_what("{} is not a vector", name))
        elif width and tensor.ne[0] != width:
            what = _what(f"{{}} has {counted(tensor.ne[0], 'element')}, and the first direction {width:,}", name)
            yield control_vector_tensor.at(found.ne_span(name), got=tensor.ne[0], want=width, what=what)
        else:
            width = width or tensor.ne[0]


@rule("M227", "control-vector-key", "{key} is {got}, and {want}", severity=WARNING, clause="3.9", when=control_vectors)
def control_vector_key(subject: LintContext) -> Iterator[Finding]:
    """A key of a control vector is missing or contradicts its tensors.

    Why: llama.cpp does not read these keys, but people and programs that list files do: without general.architecture
    nothing but the names of the tensors says what the file is, and controlvector.model_hint says for which architecture.

    Example: controlvector.layer_count 3 in a file with two directions.

    Fix: write general.architecture controlvector, controlvector.model_hint and controlvector.layer_count.
    """
    found = own_records(subject)
    for key, want in (
        ("general.architecture", "names the kind of the file"),
        ("controlvector.model_hint", "names the model"),
    ):
        if key not in found.places:
            yield control_vector_key.at(found.value_span(key), got=TrustedText("missing"), key=TrustedText(key),
                                        want=TrustedText(want))  # fmt: skip
    key = "controlvector.layer_count"
    count = found.value(key)
    if isinstance(count, int) and count != len(found.tensors):
        want = f"there {'is' if len(found.tensors) == 1 else 'are'} {counted(len(found.tensors), 'tensor')}"
        yield control_vector_key.at(found.value_span(key), got=count, key=TrustedText(key), want=TrustedText(want))
