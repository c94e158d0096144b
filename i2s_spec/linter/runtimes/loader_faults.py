"""This module says what a loader does with wrong values in a valid header: it refuses them, aborts, or loads the file.

`schema.programs.loader_endings` declares this. Faults that the table of a runtime does not name are left to
`loader_checks`, which compares the file with the architecture's declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import Span, counted, quote
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.runtimes.reason import Reason
from i2s_spec.schema.architectures.architecture import Architecture
from i2s_spec.schema.architectures.keys import DEFAULT_SPECIAL_TOKENS, NEWER_PRE_TOKENIZERS, PRE_TOKENIZERS
from i2s_spec.schema.programs.loader_endings import ROPE_SCALINGS
from i2s_spec.schema.programs.runtimes import Runtime

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.subject import Subject

_PRE, _TOKENS, _MERGES = "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
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


def _number(subject: Subject, key: str) -> float | None:
    metadata = subject.file.metadata
    if key not in metadata or metadata.entry(key).label.startswith(("arr", "str", "bool")):
        return None
    value = metadata.decode(metadata.entry(key))
    return value if isinstance(value, int | float) else None


def _span(subject: Subject, key: str) -> Span | None:
    metadata = subject.file.metadata
    return metadata.entry(key).value_span if key in metadata else None


def _strange(subject: Subject, runtime: Runtime, architecture: Architecture) -> dict[str, tuple[str, float, Any]]:
    """Values that the loader accepts although no model can have them: fault to key, value, and replacement."""
    endings, found = dict(runtime.endings), {}
    for fault, name, instead in _TOLERATED:
        key = f"{architecture.prefix}.{name}"
        value = _number(subject, key)
        if fault in endings and value is not None and (not value > 0 or isinf(value)):
            found[fault] = (key, value, instead)
    return found


def tolerated(subject: Subject, runtime: Runtime, architecture: Architecture) -> Mapping[str, Any]:
    """The metadata with which sizes are derived as in the loader."""
    strange = _strange(subject, runtime, architecture)
    if not strange:
        return subject.file.metadata
    return _Tolerated(subject.file.metadata, {key: instead for key, _, instead in strange.values()})


def of_metadata(subject: Subject, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """What a loader does with wrong values of keys, in its order."""
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


def of_vocabulary(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """What a loader does with a wrong vocabulary, in its order."""
    known, endings = architecture_view(subject), dict(runtime.endings)
    if "merge-empty" in endings and known.tokenizer == "gpt2" and known.merges is not None and known.merges.empty:
        span = known.item_span(_MERGES, known.merges.first_empty)
        yield _ended(subject, runtime, "merge-empty", _MERGES, f"merge {known.merges.first_empty:,} is empty", span)
    pre = known.keys.value(_PRE) if known.tokenizer == "gpt2" else None
    names, source = runtime.pre_unknown
    if isinstance(pre, str) and pre in names:
        yield Reason(f"unknown pre-tokenizer type: {quote(pre, 40)}", source, "no", _span(subject, _PRE))
    elif isinstance(pre, str) and pre and pre not in _KNOWN_PRE:
        text = f"unknown pre-tokenizer type: {quote(pre, 40)}"
        yield Reason(text, "", "no", _span(subject, _PRE), "vocabulary")
    same = known.vocabulary.same if "token-twice" in endings and known.vocabulary is not None else None
    if same is not None:
        text = f"tokens {same[0]:,} and {same[1]:,} have the same text"
        yield _ended(subject, runtime, "token-twice", _TOKENS, text, known.item_span(_TOKENS, same[1]))
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
                yield _ended(subject, runtime, "special-token", _TOKENS, text)


def token_array(subject: Subject, runtime: Runtime, key: str) -> Reason | None:
    """What a loader does with tokens or merges that are not arrays of text; None if its table does not say."""
    if key not in (_TOKENS, _MERGES) or "token-arrays" not in dict(runtime.endings):
        return None
    label = subject.file.metadata.entry(key).label
    return _ended(subject, runtime, "token-arrays", key, f"{key} is {label}, and it reads it as an array of text")


def of_evaluation(subject: Subject, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """What happens when a model that was loaded with such values is evaluated."""
    for fault, (key, value, _) in _strange(subject, runtime, architecture).items():
        ending = dict(runtime.endings)[fault]
        if ending.outcome == "crash" and not value > 0:
            text = f"{key} is {value}: it loads, and aborts at the first evaluation"
            yield Reason(text, ending.source, "crash", _span(subject, key))
        elif fault != "context-length":
            text = f"{key} is {value}: it loads, but it is not defined what to compute with that"
            yield Reason(text, ending.source, "doubt", _span(subject, key))
        else:
            yield Reason(f"{key} is 0: it loads", ending.source, "note", _span(subject, key))


def _ended(
    subject: Subject, runtime: Runtime, fault: str, key: str, text: str, span: Span | None = None
) -> Reason:  # fmt: skip
    ending = dict(runtime.endings)[fault]
    words = f"{text}: it aborts" if ending.outcome == "crash" else text
    return Reason(words, ending.source, ending.outcome, span or _span(subject, key))
