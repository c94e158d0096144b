"""Rules about the sizes and numbers that metadata give a model, and about what `general.file_type` means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.placement import sound_shape
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.analysis.conditions import (
    declared_models,
    declared_or_known_models,
    known_models,
    ternary_by_type_or_key,
    ternary_embedding_models,
    ternary_models,
)
from i2s_spec.linter.analysis.context import LintContext, analysis, split_set
from i2s_spec.linter.analysis.loader_view import ceiling, loader_view, refuses
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema import keys, limits
from i2s_spec.schema.faults import KEY_COUNT_SPAN
from i2s_spec.schema.inventory import TERNARY_TYPES
from i2s_spec.schema.keys import HEAD_GROUPS, HEADS, KEY_VALUE, LAYER_ARRAY, ROPE_DIMENSIONS, Key
from i2s_spec.schema.types import BY_NAME, ValueType

if TYPE_CHECKING:
    from i2s_spec.schema.releases import Release


def _words(value: Any) -> Any:
    """Return a value for a message: numbers unchanged; text is quoted later."""
    return TrustedText(f"{value:g}") if isinstance(value, float) else value


@analysis
def _usable_values(subject: LintContext) -> list[tuple[Key, Any]]:
    """Return the keys of sizes and of the graph that have a usable value, with the value; none of other architectures."""
    known = architecture_view(subject)
    if not known.is_declared:
        return []
    declared, value = known.keys.declared, known.keys.value
    named = (name for name in known.keys.places if name.startswith(f"{known.name}.") and name in declared)
    return [(declared[name], found) for name in named if (found := value(name)) is not None]


_ROPE_BASE: Final = ".rope.freq_base"
#: The default of loaders if rope.freq_base is missing.
DEFAULT_ROPE_BASE: Final = 10000.0
#: Keys whose list of values applies to the declared graphs only; other architectures may have other values.
_OPEN: Final = (".hidden_activation",)


def _impossible(key: Key, value: Any) -> tuple[Any, str] | None:
    """Return the impossible value, and what is required; for an array, the first impossible element."""
    for item in value if isinstance(value, tuple) else (value,):
        if key.values and item not in key.values and not key.name.endswith(_OPEN):
            return item, " or ".join(map(str, key.values))
        if isinstance(item, str | bool):
            continue
        if not isfinite(item) or (key.above is not None and not item > key.above):
            return item, "a finite number" + (f" above {key.above:g}" if key.above is not None else "")
        if key.least is not None and item < key.least:
            return item, f"at least {key.least}"
        if key.most is not None and item > key.most:
            return item, f"at most {key.most}"
    return None


@rule(KEY_VALUE, clause="3.2", fix=Fix.UNSAFE, cwe=1284, when=declared_or_known_models,
      provenance=("CVE-2024-8063", "ggml-org/llama.cpp#25821"))  # fmt: skip
def key_value(subject: LintContext) -> Iterator[Finding]:
    """A key has a value that is impossible for any model.

    Why: loaders divide by sizes, fail an assertion at an unknown scaling type, and refuse more layers than they
    support. They do not check a base or an epsilon; if it is not above 0, every output is NaN.

    Example: attention.head_count = 0, rope.scaling.type = 'other', or an epsilon of 0.

    Fix: write the value from the config.json of the model.
    """
    known = architecture_view(subject)
    reported = set()
    for key, value in _usable_values(subject):
        wrong = _impossible(key, value)
        if wrong is not None:
            reported.add(key.name)
            got, want = wrong
            yield key_value.at(
                known.keys.value_span(key.name), got=_words(got), want=TrustedText(want), key=TrustedText(key.name)
            )
    error = known.sizes
    if isinstance(error, FormatError) and error.fault is KEY_VALUE and str(error.details["key"]) not in reported:
        name = str(error.details["key"])
        reported.add(name)
        yield key_value.at(known.keys.value_span(name), got=error.got, want=error.want, **error.details)
    loader = loader_view(subject)
    for name in () if loader is None else loader.keys:
        value = loader.number(name) if loader is not None and name not in reported else None
        if isinstance(value, float) and (not isfinite(value) or (name.endswith(_ROPE_BASE) and value <= 0)):
            want = TrustedText("a finite number" + " above 0" * name.endswith(_ROPE_BASE))
            span = subject.file.metadata.entry(name).value_span
            yield key_value.at(span, got=_words(value), want=want, key=TrustedText(name)).at_most(ceiling(subject))


@rule(LAYER_ARRAY, clause="3.2", fix=Fix.UNSAFE, cwe=125, when=declared_or_known_models)
def layer_array_length(subject: LintContext) -> Iterator[Finding]:
    """The length of an array with one number for each layer is not the number of layers.

    Why: loaders compare the length with block_count and refuse: 'key has wrong array length'.

    Example: feed_forward_length of 24 numbers with a block_count of 30.

    Fix: write one number for each layer, or a single number for all layers.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    if loader is not None:
        for each in loader.wrong_lengths:
            span = subject.file.metadata.entry(each.name).value_span
            yield layer_array_length.at(
                span, got=each.got, want=each.want, key=TrustedText(each.name)
            ).at_most(ceiling(subject))  # fmt: skip
        return
    layers = known.keys.own("block_count")
    if not isinstance(layers, int):
        return
    for key in known.model.keys.values():
        if len(key.types) > 1 and key.types[0] == "u32" and known.keys.has(key.name):
            i = known.keys.places[key.name]
            count = known.keys.count(key.name)
            if known.file.index.key(i).type == ValueType.ARRAY and count != layers:
                yield layer_array_length.at(
                    known.keys.value_span(key.name), got=count, want=layers, key=TrustedText(key.name)
                )


def _each(value: Any) -> tuple[int, ...]:
    """Return a number for all layers, or one for each, if they are above 0."""
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, int) and item > 0)


@rule("M023", "condition-broken", "{condition} does not hold: {values}{by}", clause="3.2", when=known_models, cwe=617)
def condition_broken(subject: LintContext) -> Iterator[Finding]:
    """The numbers of the metadata contradict each other, or what the loader supports.

    Why: llama.cpp checks such conditions when it loads a model, and refuses the file or ends the process; some it
    checks only when it builds the graph for the first token. A condition whose keys another rule reports is not
    repeated.

    Example: expert_used_count is greater than expert_count.

    Fix: write the values from the config.json of the model.
    """
    known, loader = architecture_view(subject), loader_view(subject)
    broken = [] if loader is None else loader.contradictions
    if not broken:
        return
    reported = set()
    for other in (key_value, heads_do_not_fill, head_groups, rope_dimensions, experts_used):
        for finding in other.findings(subject):
            reported |= {finding.details.get("key") or finding.span.path, finding.span}
    metadata = subject.file.metadata
    for each in broken:
        spans = [metadata.entry(key).value_span for key in each.keys if key in metadata]
        if reported.intersection(each.keys) or reported.intersection(spans):
            continue
        values = [f"{key} is {_value_words(known, key)}" for key in each.keys if key in metadata]
        yield condition_broken.at(
            spans[0] if spans else KEY_COUNT_SPAN, condition=TrustedText(each.words),
            values=TrustedText(", ".join(values) or "its keys are missing"), by=refuses(subject),
        ).at_most(ceiling(subject))  # fmt: skip


def _value_words(known: ArchitectureView, key: str) -> str:
    """Return the value of a key, for a message."""
    entry = known.file.metadata.entry(key)
    if entry.label.startswith("arr"):
        return f"an array of {entry.count:,}"
    value = known.keys.decoded(entry.index)
    return quote(value, 40) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else f"{value:,}"


@rule(HEADS, clause="3.3", fix=Fix.UNSAFE, cwe=369, when=declared_models)
def heads_do_not_fill(subject: LintContext) -> Iterator[Finding]:
    """embedding_length is not a multiple of head_count, and no other key gives the width of a head.

    Why: without key_length and value_length, loaders take embedding_length / head_count, rounded down. They then expect
    narrower tensors than the file has.

    Example: head_count = 3 with embedding_length = 2,560.

    Fix: write the right head_count. If the heads do not fill the hidden state, write key_length and value_length.
    """
    known = architecture_view(subject)
    embd, heads = known.keys.own("embedding_length"), _each(known.keys.own("attention.head_count"))
    if not isinstance(embd, int) or embd < 1:
        return
    if known.keys.own("attention.key_length") is not None and known.keys.own("attention.value_length") is not None:
        return
    wrong = next((count for count in heads if embd % count), None)
    if wrong is not None:
        span = known.keys.value_span(f"{known.name}.attention.head_count")
        yield heads_do_not_fill.at(span, got=wrong, want=embd)


@rule(HEAD_GROUPS, clause="3.3", fix=Fix.UNSAFE, when=declared_models)
def head_groups(subject: LintContext) -> Iterator[Finding]:
    """head_count is not a multiple of head_count_kv.

    Why: each key head serves the same number of query heads. Loaders divide, and fail an assertion when they build the
    graph.

    Example: head_count_kv = 3 with head_count = 20.

    Fix: write the number of key heads from the config.json of the model.
    """
    known = architecture_view(subject)
    name = f"{known.name}.attention.head_count_kv"
    many, few = _each(known.keys.own("attention.head_count")), _each(known.keys.own("attention.head_count_kv"))
    if not many or not few:
        return
    layers = max(len(many), len(few))
    if len(many) in (1, layers) and len(few) in (1, layers):
        for query, key in zip(many * (layers // len(many)), few * (layers // len(few)), strict=False):
            if query % key:
                yield head_groups.at(known.keys.value_span(name), got=key, want=query)
                return


def _head_width(known: ArchitectureView) -> int | None:
    """Return the width of a query head, as loaders derive it."""
    width, embd = known.keys.own("attention.key_length"), known.keys.own("embedding_length")
    heads = _each(known.keys.own("attention.head_count"))
    if isinstance(width, int) and width > 0:
        return width
    fills = isinstance(embd, int) and embd > 0 and heads and embd % heads[0] == 0
    return embd // heads[0] if fills else None


def rotated_whole(subject: LintContext) -> bool:
    """models of architectures whose heads are rotated whole"""
    return declared_models(subject) and architecture_view(subject).model.whole_head_rope


@rule(ROPE_DIMENSIONS, clause="3.4", fix=Fix.SAFE,
      when=rotated_whole)  # fmt: skip
def rope_dimensions(subject: LintContext) -> Iterator[Finding]:
    """rope.dimension_count is not the width of a head.

    Why: for bitnet-25, bitnet-b1.58 and llama loaders compare the two and refuse: 'invalid n_rot'.

    Example: rope.dimension_count = 64 with heads of 128.

    Fix: write the width of a head, or remove the key.
    """
    known = architecture_view(subject)
    got, want = known.keys.own("rope.dimension_count"), _head_width(known)
    if isinstance(got, int) and got > 0 and want is not None and got != want:
        yield rope_dimensions.at(known.keys.value_span(f"{known.name}.rope.dimension_count"), got=got, want=want)


@rule("M009", "rope-dimensions-unsaid", "heads are {got} wide, embedding_length / head_count is {want}, and no "
      "rope.dimension_count says how much of a head is rotated", severity=WARNING, clause="3.4",
      fix=Fix.UNSAFE, when=ternary_by_type_or_key)  # fmt: skip
def rope_dimensions_unsaid(subject: LintContext) -> Iterator[Finding]:
    """The heads do not fill the hidden state, and rope.dimension_count is missing.

    Why: some loaders then rotate embedding_length / head_count dimensions, others the whole head. The file runs
    everywhere, but gives two different results.

    Example: key_length = 128 with embedding_length / head_count = 64.

    Fix: write rope.dimension_count.
    """
    known = architecture_view(subject)
    embd, heads = known.keys.own("embedding_length"), _each(known.keys.own("attention.head_count"))
    width = known.keys.own("attention.key_length")
    if not isinstance(width, int) or not isinstance(embd, int) or not heads:
        return
    if f"{known.name}.rope.dimension_count" not in known.keys.places and width != embd // heads[0]:
        span = known.keys.value_span(f"{known.name}.attention.key_length")
        yield rope_dimensions_unsaid.at(span, got=width, want=embd // heads[0])


def with_rope_base(subject: LintContext) -> bool:
    """ternary models of architectures whose published models have another base than 10000"""
    return ternary_models(subject) and architecture_view(subject).model.rope_base is not None


@rule("M010", "rope-base-missing", "rope.freq_base is missing: loaders take 10000, and the published models of "
      "{name} have {want}", severity=WARNING, clause="3.4", fix=Fix.UNSAFE,
      when=with_rope_base)  # fmt: skip
def rope_base_missing(subject: LintContext) -> Iterator[Finding]:
    """rope.freq_base is missing where the architecture's published models need it.

    Why: loaders silently take 10000. Every position is then rotated by other angles, and the logits change. Without the
    key, the official loader ran BitNet b1.58 and gave logits that differ by 2.

    Example: a bitnet-b1.58 file without bitnet-b1.58.rope.freq_base.

    Fix: write the base that the model was trained with (rope_theta in its config.json).
    """
    known = architecture_view(subject)
    if not any(name.endswith(b".rope.freq_base") for _, name in subject.key_names()):  # M018 reports other prefixes
        want = TrustedText(f"{known.model.rope_base:g}")
        yield rope_base_missing.at(KEY_COUNT_SPAN, want=want, name=TrustedText(known.name))


def of_one_byte_level_model(subject: LintContext) -> bool:
    """bitnet-25 and bitnet-b1.58 with a byte-level vocabulary"""
    known = architecture_view(subject)
    return known.is_declared and known.model.one_model and known.tokenizer == "gpt2"


@rule("M022", "rope-base-default", "rope.freq_base is {got}, the default of loaders; the published models of "
      "{name} have {want}", severity=WARNING, clause="3.4",
      when=of_one_byte_level_model)  # fmt: skip
def rope_base_default(subject: LintContext) -> Iterator[Finding]:
    """rope.freq_base is the default of loaders, and not the base of the architecture's published models.

    Why: a converter that does not find rope_theta writes 10000. Every position is then rotated by other angles: the
    model still writes text, but its perplexity rises by half. 'i2s identify FILE --likelihood' finds the base that a
    trained model needs.

    Example: bitnet-b1.58.rope.freq_base = 10000.

    Fix: write the base that the model was trained with (rope_theta in its config.json).
    """
    known = architecture_view(subject)
    base = known.keys.own("rope.freq_base")
    if base == DEFAULT_ROPE_BASE and known.model.rope_base not in (None, DEFAULT_ROPE_BASE):
        yield rope_base_default.at(
            known.keys.value_span(f"{known.name}.rope.freq_base"), got=_words(base), name=TrustedText(known.name),
            want=TrustedText(f"{known.model.rope_base:g}"),
        )  # fmt: skip


@rule("M011", "unusual-value", "the key {key} is {got}; more than {want} is unusual", severity=WARNING, clause="3.2",
      cwe=1284, when=declared_models)  # fmt: skip
def unusual_value(subject: LintContext) -> Iterator[Finding]:
    """A key has a value that is far from those of all known models.

    Why: loaders do not check such values. With a huge context_length they reserve a cache of that size. An epsilon
    above 0.0001 weakens the norms; published models have 0.00001 or less.

    Example: an epsilon of 0.1, or a context_length of 2^31.

    Fix: write the value from the config.json of the model.
    """
    known = architecture_view(subject)
    for key, value in _usable_values(subject):
        items = [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, int | float)]
        if key.unusual is None or not items or _impossible(key, value) is not None:
            continue
        if max(items) > key.unusual:
            want = TrustedText(f"{key.unusual:g}") if isinstance(key.unusual, float) else key.unusual
            yield unusual_value.at(
                known.keys.value_span(key.name), got=_words(max(items)), want=want, key=TrustedText(key.name)
            )  # fmt: skip


@rule("M013", "vocabulary-size", "vocab_size is {got}, but the vocabulary has {want:token}", clause="3.2",
      fix=Fix.UNSAFE, cwe=125, when=declared_models)  # fmt: skip
def vocabulary_size(subject: LintContext) -> Iterator[Finding]:
    """vocab_size is not the number of tokens in the vocabulary.

    Why: loaders compare the two and refuse the file: 'vocab size mismatch'. A loader that does not would look up rows
    that the embedding does not have. Where the embedding has as many rows as the key says, M105 reports the tokens.

    Example: vocab_size = 128,256 with 128,000 tokens.

    Fix: write the number of rows of token_embd.weight, and add filler tokens up to this number.
    """
    known = architecture_view(subject)
    size = known.keys.own("vocab_size")
    if not isinstance(size, int) or size < 1:  # M004 reports a 0
        return
    if known.tokens is not None and size != known.tokens and not known.without_tokens:
        yield vocabulary_size.at(known.keys.value_span(f"{known.name}.vocab_size"), got=size, want=known.tokens)


@rule("M014", "experts-used", "expert_used_count is {got}, and expert_count is {want}", clause="3.2",
      fix=Fix.UNSAFE, cwe=617, when=declared_models)  # fmt: skip
def experts_used(subject: LintContext) -> Iterator[Finding]:
    """expert_used_count does not fit expert_count.

    Why: loaders fail an assertion if the model has experts and uses none, if it uses more than it has, or if it uses
    some and has none.

    Example: expert_count = 8 without expert_used_count.

    Fix: write both, or neither.
    """
    known = architecture_view(subject)
    if known.experts_contradict:
        count, used = known.keys.own("expert_count") or 0, known.keys.own("expert_used_count") or 0
        name = next(n for n in ("expert_used_count", "expert_count") if f"{known.name}.{n}" in known.keys.places)
        yield experts_used.at(known.keys.value_span(f"{known.name}.{name}"), got=used, want=count)


@rule("M015", "rope-scaling-twice", "the file has both rope.scaling.factor, {got}, and its old name "
      "rope.scale_linear, {want}", severity=WARNING, clause="3.4", fix=Fix.UNSAFE, when=declared_models)  # fmt: skip
def rope_scaling_twice(subject: LintContext) -> Iterator[Finding]:
    """The factor of rope scaling is given under its current and under its old name.

    Why: loaders that know the current name use it; older ones use the other.

    Example: rope.scaling.factor = 1 and rope.scale_linear = 4.

    Fix: remove rope.scale_linear.
    """
    known = architecture_view(subject)
    factor, older = known.keys.own("rope.scaling.factor"), known.keys.own("rope.scale_linear")
    if factor is not None and older is not None:
        span = known.keys.value_span(f"{known.name}.rope.scale_linear")
        yield rope_scaling_twice.at(span, got=_words(factor), want=_words(older))


@analysis
def _published(subject: LintContext) -> Release | None:
    """Return the published model of these sizes; not for llama, which many models are. None for the epsilon of the
    family.
    """
    known = architecture_view(subject)
    eps = known.keys.own("attention.layer_norm_rms_epsilon")
    if not known.is_declared or known.name == "llama" or not isinstance(eps, float) or eps <= 0:
        return None
    usual = known.model.eps
    if len(usual) == 1 and abs(eps / usual[0] - 1) < 1e-3:
        return None
    from i2s_spec.schema.releases import RELEASES  # few models have another epsilon

    own = (release for release in RELEASES if release.architecture == known.name)
    return next((each for each in own if all(known.keys.own(name) == size for name, size in each.model.items())), None)


def of_published_sizes(subject: LintContext) -> bool:
    """models of the sizes of a published one"""
    return _published(subject) is not None


@rule("M020", "epsilon-of-family", "the epsilon is {got}; sources give {want} for {name}, which has these sizes: "
      "only its config.json decides", severity=NOTE, clause="3.3",
      when=of_published_sizes)  # fmt: skip
def epsilon_of_family(subject: LintContext) -> Iterator[Finding]:
    """The epsilon may not be the one that the model was trained with.

    Why: sources give 1e-6 and 1e-5 for the models of 1bitLLM, and converters wrote both. The file alone does not show
    which one the model was trained with. A wrong epsilon costs quality but breaks nothing.

    Example: bitnet_b1_58-large with either value, or a model with the sizes of 2B-4T and 1e-6.

    Fix: compare with rms_norm_eps in the config.json of the model.
    """
    known, release = architecture_view(subject), _published(subject)
    assert release is not None
    name = f"{known.name}.attention.layer_norm_rms_epsilon"
    want = TrustedText(" or ".join(f"{value:g}" for value in known.model.eps))
    got = _words(known.keys.value(name))
    yield epsilon_of_family.at(known.keys.value_span(name), got=got, want=want, name=TrustedText(release.name))


@rule("M021", "pooling", "pooling_type is {got}; the published ternary embedding models were trained with 3, the "
      "last token: only the model's settings decide", severity=NOTE, clause="3.6",
      when=ternary_embedding_models)  # fmt: skip
def pooling(subject: LintContext) -> Iterator[Finding]:
    """The pooling type may not be the one that the model was trained with.

    Why: the converter writes 1, the mean, if it finds no settings of sentence-transformers, and the graph follows the
    key. With the wrong pooling the vectors are useless, and no program reports it.

    Example: bitnet-embedding-0.6b converted without its modules.json.

    Fix: compare with the pooling that the model card gives, and write 3 for the last token.
    """
    known = architecture_view(subject)
    name = f"{known.name}.pooling_type"
    kind = known.keys.value(name)
    if name not in known.keys.places:
        yield pooling.at(KEY_COUNT_SPAN, got=TrustedText("missing"), want=3)
    elif kind in (0, 1, 2):
        yield pooling.at(known.keys.value_span(name), got=kind, want=3)


# --- numbers of file types that mean different things in different forks ---------------------------------------------

_FILE_TYPE: Final = "general.file_type"

#: The last number that means the same to all programs.
LAST_COMMON: Final = 32
#: The share of the weights of layers that have the type of the number in every file of llama-quantize, with room: mixtures
#: for the number of a type give others more bits (`keys.MOSTLY`), at most to two thirds of them.
LEAST_SHARE: Final = 0.25


@analysis
def _weights(subject: LintContext) -> Counter[tuple[str, int]]:
    """Count the weights of the matrices of layers by type and by the width of their rows."""
    found: Counter[tuple[str, int]] = Counter()
    if subject.file.fault is not None or subject.file.index.tensors > limits.MANY_TENSORS:
        return found
    index, name_of = subject.file.index, subject.file.tensors.common_type
    for i in range(index.tensors):
        info = index.tensor(i)
        name, ne = info.name, info.ne
        if len(ne) < 2 or not name.endswith(b".weight") or not (name.startswith(b"blk.") or b".blk." in name):
            continue
        kind = name_of(info.type)
        if kind is not None and sound_shape(ne):
            found[kind.name, ne[0]] += prod(ne)
    whole = architecture_view(subject).whole
    for other in whole.tensors if whole is not None else ():
        if other.part and other.type and len(other.ne) > 1 and "blk." in other.name and other.name.endswith(".weight"):
            found[other.type, other.ne[0]] += prod(other.ne)
    return found


def _commonest(subject: LintContext) -> tuple[str, int, int] | None:
    """Return the type of most weights of the layers, how many have it, and how many there are."""
    counts: Counter[str] = Counter()
    for (kind, _), count in _weights(subject).items():
        counts[kind] += count
    if not counts:
        return None
    name = max(counts, key=counts.__getitem__)  # the first of equals
    return name, counts[name], sum(counts.values())


def _fits(subject: LintContext, kinds: tuple[str, ...]) -> bool:
    """Whether enough weights have one of some types, or what writers give to rows that are not whole blocks of it."""
    fitting = total = 0
    for (kind, width), count in _weights(subject).items():
        total += count
        whole = [each for each in kinds if each in BY_NAME and width % BY_NAME[each].block == 0]
        instead = {each for base in kinds if base not in whole for each in keys.INSTEAD.get(base, keys.FLOATS)}
        if kind in whole or kind in instead or (width % 32 and kind in keys.FLOATS):
            fitting += count
    return fitting >= LEAST_SHARE * total


def _stated(known: ArchitectureView) -> tuple[int, Span] | None:
    """Return `general.file_type` and its position; None if it is missing, or a rule on types reports it."""
    value = known.keys.value(_FILE_TYPE)
    return (value, known.keys.value_span(_FILE_TYPE)) if isinstance(value, int) else None


def with_file_type(subject: LintContext) -> bool:
    """files with layers whose file_type is not the usual one for their type"""
    whole = split_set(subject)
    if whole is not None and not whole.complete:
        return False  # the number says what most tensors of all parts are
    stated = _stated(architecture_view(subject))
    common = _commonest(subject) if stated is not None else None
    return stated is not None and common is not None and (stated[0], common[0]) not in keys.USUAL_FILE_TYPES


def of_ambiguous_number(subject: LintContext) -> bool:
    """models whose file_type means different things to different forks"""
    known = architecture_view(subject)
    stated = _stated(known)
    if not known.is_declared or stated is None or stated[0] <= LAST_COMMON or not with_file_type(subject):
        return False
    from i2s_spec.schema import type_registry

    return len(type_registry.file_types(stated[0])) > 1


@rule("M030", "file-type-contents", "general.file_type is {got} ({meaning}), and {share} of the weights of the layers are "
      "{kind}: {want}", severity=WARNING, clause="3.1", fix=Fix.SAFE, when=with_file_type,
      provenance=("microsoft/BitNet#621", "microsoft/BitNet#620"))  # fmt: skip
def file_type_contents(subject: LintContext) -> Iterator[Finding]:
    """general.file_type names another type than the weights of the layers have, or is unknown.

    Why: loaders only print the number, but people and programs choose files by it. BitNet's converter writes 40
    although the tensors are F16 when it fails to quantize a Llama model: 14.9 GB instead of 2.7 GB. The same number
    means different types in different forks; the message lists the meanings. Mixtures of llama-quantize, such as Q4_K
    with some Q6_K, are no fault: only a file of which less than a quarter has the type is reported.

    Example: 40 in a file whose projections are F16.

    Fix: write the number of the type that most weights have, and find out why they have this type.
    """
    known = architecture_view(subject)
    stated, common = _stated(known), _commonest(subject)
    assert stated is not None
    assert common is not None
    value, span = stated
    kind, count, total = common
    if any(found.type is not None and found.type.name == kind for found in subject.second_readings.values()):
        return  # G322 names the type; `general.file_type` has no number for it
    usual = keys.MOSTLY.get(value) or ((keys.FILE_TYPES[value],) if value in keys.FILE_TYPES else ())
    if usual and _fits(subject, usual):
        return  # without the registry, whose import takes longer than the rules run
    from i2s_spec.schema import type_registry

    numbers, meanings = type_registry.file_types_of(kind), type_registry.file_types(value)
    kinds = tuple(each for meaning in meanings for each in meaning.tensors)
    if (meanings and _fits(subject, kinds)) or (not numbers and kind in TERNARY_TYPES):
        return
    want = f"{kind} is {' or '.join(map(str, numbers))}" if numbers else f"there is no number for {kind}"
    yield file_type_contents.at(
        span, got=value, want=TrustedText(want), meaning=TrustedText(type_registry.file_type_words(value)),
        share=TrustedText(f"{100 * count / total:.0f} %"), kind=TrustedText(kind),
    )  # fmt: skip


@rule("M031", "file-type-collision", "general.file_type is {got}: {meaning}; the tensors are {kind}", severity=NOTE,
      clause="3.1", when=of_ambiguous_number,
      provenance=("microsoft/BitNet#620",))  # fmt: skip
def file_type_collision(subject: LintContext) -> Iterator[Finding]:
    """general.file_type is a number that several forks use for different types.

    Why: other programs display another type. No program computes anything from the number, so the only harm is
    confusion. The number 40 in I2_S files is not reported: every published I2_S file has it, and upstream displays Q1_0
    for all of them.

    Example: 39 in a TL2 file, which upstream llama.cpp calls NVFP4.

    Fix: the file needs no repair. Tell its users which fork wrote it.
    """
    known = architecture_view(subject)
    stated, common = _stated(known), _commonest(subject)
    assert stated is not None
    assert common is not None
    from i2s_spec.schema import type_registry

    value, span = stated
    if known.is_ternary and any(common[0] in meaning.tensors for meaning in type_registry.file_types(value)):
        words = TrustedText(type_registry.file_type_words(value))
        yield file_type_collision.at(span, got=value, meaning=words, kind=TrustedText(common[0]))
