"""Rules about the tokens and merges of a vocabulary."""

from collections.abc import Iterator

from i2s_spec.errors import TrustedText
from i2s_spec.gguf import string_arrays
from i2s_spec.linter.analysis.architecture_view import NEWLINES, architecture_view
from i2s_spec.linter.analysis.conditions import usual_vocabularies
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule

_TOKENS, _MERGES, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"

#: The values that `tokenizer.ggml.token_type` may have, and its value for a token that stands for a byte.
_LEAST_TYPE, _MOST_TYPE, _BYTE = 0, 6, 6


@rule("T003", "merge-form", "merges that are not two tokens joined by one space: {got}; the first is merge {index}, {text}",
      severity=WARNING, clause="3.5", fix=Fix.UNSAFE, when=usual_vocabularies)  # fmt: skip
def merge_form(subject: Subject) -> Iterator[Finding]:
    """A merge is not two tokens joined by one space.

    Why: loaders split a merge at the first space after its first character. If the parts are not two tokens, the merge
    never applies, and text is split into other tokens.

    Example: 'ab', or 'a b c'.

    Fix: write the pair with one space; spaces inside byte-level tokens are written as U+0120.
    """
    known = architecture_view(subject)
    merges = known.merges if known.tokenizer == "gpt2" else None
    if merges is not None and merges.odd_pairs:
        span = known.item_span(_MERGES, merges.first_odd_pair)
        yield merge_form.at(
            span, got=merges.odd_pairs, want=0, index=merges.first_odd_pair, text=known.item(span)
        )  # fmt: skip


def with_token_types(subject: Subject) -> bool:
    """files with tokens"""
    known = architecture_view(subject)
    return known.keys.has(_TYPES) and known.file.fault is None


@rule("T005", "token-type-value", "the type of token {index} is {got}; types are {want}", severity=WARNING, clause="3.5",
      when=with_token_types)  # fmt: skip
def token_type_value(subject: Subject) -> Iterator[Finding]:
    """A token has a type that does not exist.

    Why: loaders treat it as a token without a type, so a control token becomes text, or the model never produces a
    piece of text.

    Example: a token type of 7.

    Fix: write 1 for normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    """
    known = architecture_view(subject)
    i = known.keys.places[_TYPES]
    entry = known.file.index.key(i)
    start, count = entry.value_start, entry.count
    big = known.file.byte_order == "big"
    at = string_arrays.first_outside(known.file.source, start, count, big, _LEAST_TYPE, _MOST_TYPE)
    if at >= 0:
        span = known.keys.value_span(_TYPES)._replace(
            start=start + 4 * at, stop=start + 4 * at + 4, path=f"key_values[{i}].value.items[{at}]"
        )
        value = int.from_bytes(known.file.source.read(span.start, 4), "big" if big else "little", signed=True)
        yield token_type_value.at(span, got=value, want=TrustedText("0 to 6"), index=at)


@rule("T006", "token-twice", "tokens {first} and {second} are both {text}", clause="3.5",
      fix=Fix.UNSAFE, cwe=617, when=usual_vocabularies)  # fmt: skip
def duplicate_token(subject: Subject) -> Iterator[Finding]:
    """Two tokens are the same text.

    Why: loaders build a map from text to token and compare its size with that of the list. If they differ, an assertion
    fails.

    Example: an added token that was already in the vocabulary.

    Fix: give filler tokens unique names, such as [PAD32001].
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.same is not None:
        first, second = seen.same
        span = known.item_span(_TOKENS, second)
        yield duplicate_token.at(
            span,
            got=TrustedText(f"token {second:,}"),
            want=TrustedText(f"not token {first:,} again"),
            first=first,
            second=second,
            text=known.item(span),
        )


@rule("T007", "empty-token", "empty tokens: {got}; the first is token {index}", severity=WARNING, clause="3.5",
      fix=Fix.UNSAFE, when=usual_vocabularies)  # fmt: skip
def empty_token(subject: Subject) -> Iterator[Finding]:
    """A token is an empty text.

    Why: some loaders replace it by a name such as [EMPTY_0] and warn; others loop forever.

    Example: a gap in a list of tokens that was filled with ''.

    Fix: give filler tokens unique names, such as [PAD32001].
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.empty:
        span = known.item_span(_TOKENS, seen.first_empty)
        yield empty_token.at(span, got=seen.empty, want=0, index=seen.first_empty)


@rule("T012", "newline-token-missing", "no token is a newline, {want}", severity=WARNING, clause="3.5",
      when=usual_vocabularies)  # fmt: skip
def newline_token_missing(subject: Subject) -> Iterator[Finding]:
    """No token stands for a newline.

    Why: loaders look it up when they build the vocabulary. Without it they use the padding token, or stop.

    Example: a byte-level vocabulary without U+010A, a SentencePiece one without <0x0A>.

    Fix: convert the tokenizer again; a vocabulary of its kind has a token for every byte.
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.total:
        newline = NEWLINES[known.tokenizer]
        if seen.found[known.sought.index(newline)] < 0:
            shown = "U+010A" if known.tokenizer == "gpt2" else "<0x0A>"
            yield newline_token_missing.at(known.keys.value_span(_TOKENS), want=TrustedText(shown))


@rule("T014", "filler-tokens", "filler tokens in the vocabulary: {got}; the first is token {index}, {text}",
      severity=NOTE, clause="3.5", when=usual_vocabularies)  # fmt: skip
def filler_tokens(subject: Subject) -> Iterator[Finding]:
    """The vocabulary contains filler tokens.

    Why: converters add filler tokens up to the number of rows of the embedding. This is right if the model has spare
    rows. It also happens if the converter did not find the file with the added tokens.

    Example: [PAD32000], <dummy00001>.

    Fix: compare the number of real tokens with the model's tokenizer.
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.numbered:
        span = known.item_span(_TOKENS, seen.first_numbered)
        yield filler_tokens.at(span, got=seen.numbered, want=0, index=seen.first_numbered, text=known.item(span))


def sentencepiece_vocabularies(subject: Subject) -> bool:
    """files with a llama vocabulary"""
    return architecture_view(subject).tokenizer == "llama"


@rule("T017", "byte-token-form", "token {index}, {text}, has type byte but not the form <0xNN>", severity=WARNING,
      clause="3.5", fix=Fix.UNSAFE, cwe=20, when=sentencepiece_vocabularies,
      provenance=("ggml-org/llama.cpp#25969",))  # fmt: skip
def byte_token_form(subject: Subject) -> Iterator[Finding]:
    """A token of type byte does not have the form of a byte.

    Why: loaders read two hexadecimal digits after '<0x' without checking them, so the result may not be a byte.

    Example: '<0x-1>'.

    Fix: write the byte as two hexadecimal digits.
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is None or not known.keys.has(_TYPES):
        return
    start, count = known.file.index.key(known.keys.places[_TYPES]).value_start, known.keys.count(_TYPES) or 0
    order = known.file.byte_order
    for index in seen.byte_forms:
        if index < count and int.from_bytes(known.file.source.read(start + 4 * index, 4), order) == _BYTE:
            span = known.item_span(_TOKENS, index)
            yield byte_token_form.at(span, index=index, text=known.item(span))
