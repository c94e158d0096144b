"""Whether an engine's loader accepts the model in a sound container: architecture, keys, tensors, tokenizer.

`schema.architectures` declares what a model needs, `schema.runtimes` what differs between engines. `reasons` compares a
file with the first; what a loader does with wrong values, as the second has it, follows below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from math import isinf, prod
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.linter.analysis.architecture_view import architecture_view, stripped
from i2s_spec.linter.analysis.loader_view import loader_view
from i2s_spec.linter.runtimes import records
from i2s_spec.linter.runtimes.records import Reason
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture, Hyperparameters, hyperparameters, names_a_bitnet
from i2s_spec.schema.keys import (
    DEFAULT_SPECIAL_TOKENS,
    KEY_MISSING,
    KEY_TYPE,
    MERGES,
    NEWER_PRE_TOKENIZERS,
    PRE_TOKENIZERS,
    REQUIRED,
    TOKENIZER_MODEL,
    TOKENIZERS,
    TOKENS,
)
from i2s_spec.schema.runtimes import (
    FAMILY_LOADER,
    HALF_NORMS_SOURCE,
    LOOKED_UP,
    ROPE_SCALINGS,
    RUNTIME,
    VOCABULARIES_SOURCE,
    Runtime,
)

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import Tensor
    from i2s_spec.linter.analysis.context import LintContext
    from i2s_spec.linter.analysis.loader_differences import LoaderView
    from i2s_spec.schema.architectures import Placed

#: The runtime that takes most variants of a model.
_LENIENT: Final = "bitnet.cpp-2026"


def reasons(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield why the loader refuses the model or crashes; nothing if it loads. Ends where the loader stops."""
    makes = dict(runtime.loader)
    for reason in _reasons(subject, runtime):
        if not reason.check:
            yield reason
        elif reason.check in makes:
            yield reason._replace(source=makes[reason.check])
        else:
            text = f"not tried: loaders of llama.cpp's family refuse the file ({reason.text})"
            yield Reason(text, FAMILY_LOADER, "unknown", reason.span)


def _reasons(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    source = runtime.source
    place = subject.key_index.get(b"split.count")
    if place is not None and (label := subject.file.index.key(place).label) != "u16":
        text = f"the loader stops at the metadata: split.count has type {label} but expected type u16"
        yield Reason(text, "", "no", _key_span(subject, "split.count"), "keys")
        return
    parts = _value(subject, "split.count")
    if isinstance(parts, int) and parts > 1:
        text = f"the file is one of the {counted(parts, 'part')} of a model; the other parts were not checked"
        yield Reason(text, source, "unknown", _key_span(subject, "split.count"))
        return
    name = _text(subject, "general.architecture")
    if name is None:
        yield Reason(
            "general.architecture is missing or no text: unknown model architecture ''", "", "no", check="keys"
        )
        return
    span = _key_span(subject, "general.architecture")
    if is_vocabulary(subject):
        yield _vocabulary(subject, runtime, name)
        return
    if runtime.loader_table and (view := loader_view(subject)) is not None:
        of_table = list(_by_table(view, name in runtime.architectures, span))
        yield from of_table
        if of_table:
            return
    if name not in runtime.architectures:
        source = _architecture_source(runtime, name) if records.was_examined(subject) else ""
        if (name in LOOKED_UP or (subject.declared is None and names_a_bitnet(name))) and name not in runtime.unsure:
            yield Reason(f"it does not know the architecture {quote(name, 64)}", source, "no", span)
        else:
            yield Reason(f"not tried: the architecture {quote(name, 64)}", source, "unknown", span)
        return
    architecture = subject.declared
    assert architecture is not None, "a runtime knows none but declared architectures"
    ended = next(of_metadata(subject, runtime, architecture), None)
    if ended is not None:
        yield ended
        return
    problem = _hyperparameters(subject, architecture, tolerated(subject, runtime, architecture))
    if isinstance(problem, FormatError):
        where = problem.span if problem.span.stop else None
        yield Reason(f"the loader stops at the metadata: {problem.message}", "", "no", where, "keys")
        return
    ended = next(chain(_tokenizer(subject, runtime, architecture), of_vocabulary(subject, runtime)), None)
    if ended is not None:
        yield ended
        return
    if subject.file.index.tensors <= limits.MANY_TENSORS:
        for found in _tensors(subject, runtime, architecture, problem):
            yield found
            if found.effect != "wrong":
                return
    yield from of_evaluation(subject, runtime, architecture)


def unsound(subject: LintContext) -> Reason | None:
    """Return why no loader that asks for the declared keys and tensors takes the model, if the architecture is declared."""
    architecture = subject.declared
    if architecture is None or not subject.file.index.tensors:
        return None
    sizes = _hyperparameters(subject, architecture, subject.file.metadata)
    if isinstance(sizes, FormatError):
        return Reason(sizes.message, "", "no", sizes.span if sizes.span.stop else None, "keys")
    found = _tensors(subject, RUNTIME[_LENIENT], architecture, sizes)
    return next((reason for reason in found if reason.check in ("missing", "shape")), None)


def _by_table(view: LoaderView, examined: bool, span: Span | None) -> Iterator[Reason]:
    """Yield what the table of the loader says of a model; nothing if it loads and more is known of its architecture."""
    source = f"{view.table.source}@{view.table.commit[:8]}:src/models/{view.architecture.file}"
    stopped = view.refusal()
    if stopped is not None:
        words, where, at_first_token = stopped
        yield Reason(words + "; it stops at the first token" * at_first_token, source, "no", where)
    elif not examined:
        text = f"the file has the keys and tensors that it asks of architecture {quote(view.architecture.name, 64)}"
        yield Reason(text, source, "note", span)


def is_vocabulary(subject: LintContext) -> bool:
    """Whether a file has tokens but no tensors: such files only serve to test tokenizers."""
    return subject.file.index.tensor_count == 0 and TOKENS in subject.file.metadata


def _vocabulary(subject: LintContext, runtime: Runtime, name: str) -> Reason:
    """Return what an engine does with a vocabulary without tensors."""
    span = _key_span(subject, "general.architecture")
    if not runtime.vocabularies:
        return Reason("the file has a vocabulary and no tensors: there is no model in it", runtime.source, "no")
    if name not in runtime.vocabularies and name not in runtime.architectures:
        text = f"not tried: a vocabulary of architecture {quote(name, 64)}, without tensors"
        return Reason(text, runtime.source, "unknown", span)
    if subject.declared is not None:
        problem = _hyperparameters(subject, subject.declared, subject.file.metadata)
        if isinstance(problem, FormatError) and problem.code == KEY_TYPE.code:
            where = problem.span if problem.span.stop else None
            return Reason(f"the loader stops at the metadata: {problem.message}", "", "no", where, "keys")
        stopped = next(_tokenizer(subject, runtime, subject.declared), None)
        if stopped is not None:
            return stopped
    text = "a vocabulary without tensors: it loads if only that is requested (vocab_only), and is refused as a model"
    return Reason(text, VOCABULARIES_SOURCE, "vocabulary")


def _architecture_source(runtime: Runtime, name: str) -> str:
    declared = ARCHITECTURES.get(name)
    return runtime.bitnet_names if declared is not None and declared.one_model else runtime.source


def _value(subject: LintContext, key: str) -> Any:
    """Return a value that is not an array."""
    metadata = subject.file.metadata
    if key not in metadata:
        return None
    entry = metadata.entry(key)
    return None if entry.label.startswith("arr") or entry.count > 1 << 16 else metadata.decode(entry)


def _text(subject: LintContext, key: str) -> str | None:
    value = _value(subject, key)
    return value if isinstance(value, str) else None


def _number(subject: LintContext, key: str) -> float | None:
    value = _value(subject, key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _key_span(subject: LintContext, key: str) -> Span | None:
    metadata = subject.file.metadata
    return metadata.entry(key).value_span if key in metadata else None


def _hyperparameters(
    subject: LintContext, architecture: Architecture, values: Mapping[str, Any]
) -> Hyperparameters | FormatError:
    """Return the sizes of the model, or the error that stops the loader: a required key is missing, or a key has a
    wrong type.

    :param values: the metadata, as the loader reads them
    """
    metadata = subject.file.metadata
    for key in architecture.keys.values():
        if key.name.startswith("tokenizer."):
            continue
        if key.name not in metadata:
            if key.need == REQUIRED and not key.when:
                return FormatError(KEY_MISSING, Span(0, 0, key.name), key=TrustedText(key.name), by=TrustedText(""))
            continue
        entry = metadata.entry(key.name)
        typed = "loader" in key.readers or "graph" in key.readers or key.name == "general.file_type"
        if typed and entry.label not in key.types:
            want = TrustedText(" or ".join(key.types))
            return FormatError(KEY_TYPE, entry.span, got=TrustedText(entry.label), want=want, key=TrustedText(key.name))
    try:
        return hyperparameters(values, metadata.entry(TOKENS).count if TOKENS in metadata else 0)
    except FormatError as error:
        return error


def _tokenizer(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    metadata = subject.file.metadata
    model = _text(subject, TOKENIZER_MODEL)
    if model is None:
        yield Reason("tokenizer.ggml.model is missing or no text", "", "no", check="vocabulary")
        return
    if model not in TOKENIZERS:
        text = f"unknown tokenizer: {quote(model, 40)}"
        yield Reason(text, "", "no", _key_span(subject, TOKENIZER_MODEL), "vocabulary")
        return
    for key in architecture_view(subject).vocabulary_keys(REQUIRED):
        if key.name not in metadata:
            yield Reason(f"the loader stops at the vocabulary: {key.name} is missing", "", "no", check="vocabulary")
        elif metadata.entry(key.name).label not in key.types:
            text = f"the loader stops at the vocabulary: {key.name} is {metadata.entry(key.name).label}"
            ended = token_array(subject, runtime, key.name)
            yield ended or Reason(text, "", "no", metadata.entry(key.name).span, "vocabulary")
    vocab = f"{architecture.prefix}.vocab_size"
    if vocab in metadata and TOKENS in metadata:
        size, tokens = _value(subject, vocab), metadata.entry(TOKENS).count
        if isinstance(size, int) and size != tokens:
            text = f"vocab size mismatch: {vocab} is {size:,}, and there are {counted(tokens, 'token')}"
            yield Reason(text, "", "no", _key_span(subject, vocab), "count")


def _tensors(
    subject: LintContext, runtime: Runtime, architecture: Architecture, h: Hyperparameters
) -> Iterator[Reason]:
    """Yield tensors that are missing, unknown, or have a wrong shape: loaders count tensors."""
    if h.layers * 20 > limits.MANY_TENSORS:
        return
    there: dict[bytes, Tensor] = {tensor.raw_name: tensor for tensor in subject.file.tensors.rows}
    expected: set[bytes] = set()
    for placed in architecture.tensors(h):
        raw = placed.name.encode()
        expected.add(raw)
        if raw not in there:
            if placed.spec.need == REQUIRED and runtime.without is not None and raw.endswith(runtime.without[0]):
                yield Reason(f"it computes without {quote(raw, 64)}, which is missing", runtime.without[1], "wrong")
            elif placed.spec.need == REQUIRED:
                yield Reason(f"tensor {quote(raw, 64)} is not found", "", "no", check="missing")
                return
            continue
        tensor = there[raw]
        if placed.spec.role in ("scale", "input scale"):
            taken = _takes_scale(placed, raw, there, runtime, architecture)
            if taken == "unknown":
                text = f"not tried: {quote(raw, 64)} in a model of architecture {architecture.name}"
                yield Reason(text, "", "unknown", tensor.info_span)
                return
            if taken == "no":
                expected.discard(raw)
                continue
        if stripped(tensor.ne) != stripped(placed.ne):
            got, want = ", ".join(map(str, tensor.ne)), ", ".join(map(str, placed.ne))
            text = f"tensor {quote(raw, 64)} has wrong shape; expected {want}, got {got}"
            yield Reason(text, "", "no", tensor.info_span, "shape")
            return
        if placed.spec.role == "norm" and tensor.number == 1 and runtime.half_norms == "crash":
            text = f"norms are F16 ({quote(raw, 64)}): it loads, and aborts at the first evaluation"
            yield Reason(text, HALF_NORMS_SOURCE, "crash", tensor.info_span)
            return
    extra = [tensor for raw, tensor in there.items() if raw not in expected]
    if extra:
        text = f"wrong number of tensors: it does not know {quote(extra[0].raw_name, 64)}"
        yield Reason(text, "", "no", extra[0].info_span, "count")
        return
    fact = runtime.fact("norm-in")
    if fact is not None and runtime.norm_in != "yes":
        for raw, tensor in there.items():
            if raw.endswith(b"_norm_in.weight"):
                yield Reason(fact.text, fact.source, runtime.norm_in, tensor.info_span)
                return
    yield from _roles(subject, runtime, there)


def _takes_scale(
    placed: Placed, raw: bytes, there: dict[bytes, Tensor], runtime: Runtime, architecture: Architecture
) -> str:
    """Whether the loader takes a tensor of `inventory.BESIDE`: `yes`, `no` or `unknown`."""
    weight = there.get(raw.rpartition(b".")[0] + b".weight")
    kind = weight.type.name if weight is not None and weight.type is not None else None
    if kind is None or (not placed.spec.per_layer and kind != "NVFP4"):
        return "no"
    if runtime.scales == "everywhere" or (architecture.prefix, placed.spec.role) == ("bitnet", "scale"):
        return "yes"
    return "no" if runtime.scales == "bitnet" else "unknown"


def _roles(subject: LintContext, runtime: Runtime, there: dict[bytes, Tensor]) -> Iterator[Reason]:
    """Yield I2_S tensors where a loader or a graph needs another type."""
    for raw, tensor in there.items():
        if tensor.number != 36:
            continue
        if prod(tensor.ne) == max(tensor.ne, default=0):
            text = f"{quote(raw, 64)} is I2_S but has one dimension: vectors must be floats"
            yield Reason(text, runtime.source, "crash", tensor.info_span)
            return
        if raw == b"token_embd.weight" and runtime.i2s == "computes" and not runtime.embeddings:
            text = "token_embd.weight is I2_S, but it cannot look up rows of that type"
            yield Reason(text, "microsoft/BitNet@16da220:src/README.md", "crash", tensor.info_span)
            return


# --- wrong values in a valid header ----------------------------------------------------------------------------------
# A loader refuses them, aborts, or loads the file: `schema.runtimes` declares which. Faults that the table of a runtime
# does not name are left to the comparison with the architecture's declarations, above.

_PRE: Final = "tokenizer.ggml.pre"
_KNOWN_PRE: Final = frozenset({*PRE_TOKENIZERS, *NEWER_PRE_TOKENIZERS})

#: Values that a loader accepts although no model can have them, and the values with which sizes are derived instead.
_TOLERATED: Final = (
    ("context-length", "context_length", 1),
    ("rope-base", "rope.freq_base", 10000.0),
    ("epsilon", "attention.layer_norm_rms_epsilon", 1e-5),
)


class _Tolerated(Mapping[str, Any]):
    """Metadata with some values replaced; their positions stay the same."""

    def __init__(self, metadata: Any, values: Mapping[str, Any]) -> None:
        self._metadata, self._values, self.entry = metadata, values, metadata.entry

    def __getitem__(self, key: str) -> Any:
        return self._values[key] if key in self._values else self._metadata[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metadata)

    def __len__(self) -> int:
        return len(self._metadata)

    def __contains__(self, key: object) -> bool:
        return key in self._metadata


def _strange(subject: LintContext, runtime: Runtime, architecture: Architecture) -> dict[str, tuple[str, float, Any]]:
    """Return values that the loader accepts although no model can have them: fault to key, value, and replacement."""
    endings, found = dict(runtime.endings), {}
    for fault, name, instead in _TOLERATED:
        key = f"{architecture.prefix}.{name}"
        value = _number(subject, key)
        if fault in endings and value is not None and (not value > 0 or isinf(value)):
            found[fault] = (key, value, instead)
    return found


def tolerated(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Mapping[str, Any]:
    """Return the metadata with which sizes are derived as in the loader."""
    strange = _strange(subject, runtime, architecture)
    if not strange:
        return subject.file.metadata
    return _Tolerated(subject.file.metadata, {key: instead for key, _, instead in strange.values()})


def of_metadata(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """Yield what a loader does with wrong values of keys, in its order."""
    for name, key, source in runtime.required:
        if architecture.prefix == name and key not in subject.file.metadata:
            yield Reason(f"the loader stops at the metadata: the key {key} is missing", source, "no")
    endings, metadata, prefix = dict(runtime.endings), subject.file.metadata, architecture.prefix
    if "file-type" in endings and "general.file_type" in metadata:
        label = metadata.entry("general.file_type").label
        if label != "u32":
            yield _ended(subject, runtime, "file-type", "general.file_type", f"general.file_type is {label}, not u32")
    used, there = (_number(subject, f"{prefix}.{name}") or 0 for name in ("expert_used_count", "expert_count"))
    if "experts" in endings and (used > there or (there and not used)):
        key = f"{prefix}.expert_{'used_' if used > there else ''}count"
        yield _ended(
            subject, runtime, "experts", key, f"expert_used_count is {used:,.0f}, and expert_count is {there:,.0f}"
        )
    key = f"{prefix}.rope.scaling.type"
    if "rope-scaling" in endings and key in metadata and metadata.entry(key).label == "str":
        value = metadata[key]
        if value not in ROPE_SCALINGS:
            yield _ended(subject, runtime, "rope-scaling", key, f"it does not know {key} {quote(value, 40)}")
    key = f"{prefix}.block_count"
    if "no-layers" in endings and _number(subject, key) == 0:
        yield _ended(
            subject, runtime, "no-layers", key, f"{key} is 0, and it reads the number of heads of the first layer"
        )


def of_vocabulary(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield what a loader does with a wrong vocabulary, in its order."""
    known, endings = architecture_view(subject), dict(runtime.endings)
    if "merge-empty" in endings and known.tokenizer == "gpt2" and known.merges is not None and known.merges.empty:
        span = known.item_span(MERGES, known.merges.first_empty)
        yield _ended(subject, runtime, "merge-empty", MERGES, f"merge {known.merges.first_empty:,} is empty", span)
    pre = known.keys.value(_PRE) if known.tokenizer == "gpt2" else None
    names, source = runtime.pre_unknown
    if isinstance(pre, str) and pre in names:
        yield Reason(f"unknown pre-tokenizer type: {quote(pre, 40)}", source, "no", _key_span(subject, _PRE))
    elif isinstance(pre, str) and pre and pre not in _KNOWN_PRE:
        text = f"unknown pre-tokenizer type: {quote(pre, 40)}"
        yield Reason(text, "", "no", _key_span(subject, _PRE), "vocabulary")
    same = known.vocabulary.same if "token-twice" in endings and known.vocabulary is not None else None
    if same is not None:
        text = f"tokens {same[0]:,} and {same[1]:,} have the same text"
        yield _ended(subject, runtime, "token-twice", TOKENS, text, known.item_span(TOKENS, same[1]))
    metadata = subject.file.metadata
    for name in known.keys.places:
        if name.startswith("tokenizer.ggml.") and name.endswith("_token_id") and metadata.entry(name).label != "u32":
            text = f"key {quote(name, 64)} has wrong type {metadata.entry(name).label} but expected type u32"
            yield Reason(text, "", "no", metadata.entry(name).span, "vocabulary")
    if "special-token" in endings and known.tokens is not None:
        for name, number in DEFAULT_SPECIAL_TOKENS.get(known.tokenizer, {}).items():
            stated = known.keys.value(name)
            beyond = not isinstance(stated, int) or stated >= known.tokens
            if beyond and number >= known.tokens:
                text = f"its {name} is {number}, but there are {counted(known.tokens, 'token')}: it reads past the end"
                yield _ended(subject, runtime, "special-token", TOKENS, text)


def token_array(subject: LintContext, runtime: Runtime, key: str) -> Reason | None:
    """Return what a loader does with tokens or merges that are not arrays of text; None if its table does not say."""
    if key not in (TOKENS, MERGES) or "token-arrays" not in dict(runtime.endings):
        return None
    label = subject.file.metadata.entry(key).label
    return _ended(subject, runtime, "token-arrays", key, f"{key} is {label}, and it reads it as an array of text")


def of_evaluation(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """Yield what happens when a model that was loaded with such values is evaluated."""
    for fault, (key, value, _) in _strange(subject, runtime, architecture).items():
        ending = dict(runtime.endings)[fault]
        if ending.outcome == "crash" and not value > 0:
            text = f"{key} is {value}: it loads, and aborts at the first evaluation"
            yield Reason(text, ending.source, "crash", _key_span(subject, key))
        elif fault != "context-length":
            text = f"{key} is {value}: it loads, but it is not defined what to compute with that"
            yield Reason(text, ending.source, "doubt", _key_span(subject, key))
        else:
            yield Reason(f"{key} is 0: it loads", ending.source, "note", _key_span(subject, key))


def _ended(
    subject: LintContext, runtime: Runtime, fault: str, key: str, text: str, span: Span | None = None
) -> Reason:  # fmt: skip
    ending = dict(runtime.endings)[fault]
    words = f"{text}: it aborts" if ending.outcome == "crash" else text
    return Reason(words, ending.source, ending.outcome, span or _key_span(subject, key))
