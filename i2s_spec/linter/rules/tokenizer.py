"""Rules about the tokenizer: its keys, its tokens and merges, and whether these fit what else the file says.

What chat templates do is examined in `rules.template`; here is only whether they exist, and their markers.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf import strings
from i2s_spec.gguf.strings import Strings
from i2s_spec.linter.analysis.architecture_view import (
    NEWLINES,
    TEXT_BEGINS,
    TEXT_ENDS,
    TURN_ENDS,
    ArchitectureView,
    architecture_view,
)
from i2s_spec.linter.analysis.conditions import (
    byte_level_vocabularies,
    declared_models,
    declared_or_known_models,
    known_models,
    usual_vocabularies,
    with_tokens,
)
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.loader_view import ceiling, loader_table
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.linter.rules.template import read_texts, with_templates
from i2s_spec.schema.faults import KEY_COUNT_SPAN
from i2s_spec.schema.keys import (
    DEFAULT_SPECIAL_TOKENS,
    EXPECTED,
    MERGES,
    MERGING,
    NEWER_PRE_TOKENIZERS,
    PRE_TOKENIZERS,
    REQUIRED,
    TOKENIZER_MODEL,
    TOKENIZERS,
    TOKENS,
)
from i2s_spec.schema.types import I2_S

_PRE, _TYPES, _TEMPLATE = "tokenizer.ggml.pre", "tokenizer.ggml.token_type", "tokenizer.chat_template"
_BOS, _EOS, _EOT = (f"tokenizer.ggml.{token}_token_id" for token in ("bos", "eos", "eot"))
_ADD_BOS, _ADD_EOS = "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"


@rule("T001", "vocabulary-key-missing", "the key {key} is missing", clause="3.5", fix=Fix.UNSAFE,
      when=declared_or_known_models)  # fmt: skip
def tokenizer_key_missing(subject: LintContext) -> Iterator[Finding]:
    """A key that the tokenizer needs is missing.

    Why: loaders build the vocabulary first and refuse the file: 'key not found', 'cannot find tokenizer vocab', 'cannot
    find tokenizer merges'.

    Example: tokenizer.ggml.model = gpt2 without tokenizer.ggml.merges.

    Fix: convert the model again with its tokenizer files in the same folder.
    """
    known = architecture_view(subject)
    needed: Iterable[str] = (key.name for key in known.vocabulary_keys(REQUIRED))
    if not known.is_bitnet:
        needed = loader_table().vocabulary_keys(known.tokenizer, known.keys.value(_PRE))
    for name in needed:
        if name not in known.keys.places:
            yield tokenizer_key_missing.at(KEY_COUNT_SPAN, key=TrustedText(name))


@rule("T002", "tokenizer-unknown", "tokenizer.ggml.model is {got}; loaders know {want}", clause="3.5",
      fix=Fix.UNSAFE, when=declared_or_known_models)  # fmt: skip
def tokenizer_unknown(subject: LintContext) -> Iterator[Finding]:
    """Loaders do not know the kind of tokenizer.

    Why: they refuse the file: 'unknown tokenizer'.

    Example: tokenizer.ggml.model = 'hf'.

    Fix: write gpt2 for byte-level BPE or llama for SentencePiece; the tokens must have the form of that kind.
    """
    known = architecture_view(subject)
    if known.keys.has(TOKENIZER_MODEL) and known.tokenizer not in TOKENIZERS:
        names = TOKENIZERS if known.is_bitnet else loader_table().tokenizers
        if known.tokenizer not in names:
            span = known.keys.value_span(TOKENIZER_MODEL)
            found = tokenizer_unknown.at(span, got=known.tokenizer, want=TrustedText(", ".join(names)))
            yield found.at_most(ceiling(subject))


@rule("T004", "tokenizer-array-length", "{key} has {got:element} for {want:token}", clause="3.5",
      fix=Fix.UNSAFE, cwe=125, when=with_tokens,
      provenance=("ggml-org/llama.cpp#26690",))  # fmt: skip
def tokenizer_array_length(subject: LintContext) -> Iterator[Finding]:
    """The number of scores or types differs from the number of tokens.

    Why: loaders read one for each token through a pointer, without comparing the lengths. They read beyond the end of a
    short array.

    Example: 128,000 token types for 128,256 tokens.

    Fix: write one for each token.
    """
    known = architecture_view(subject)
    for key in ("tokenizer.ggml.scores", _TYPES):
        count = known.keys.count(key)
        if count is not None and count != known.tokens:
            yield tokenizer_array_length.at(
                known.keys.value_span(key), got=count, want=known.tokens, key=TrustedText(key)
            )


@rule("T008", "token-id-range", "{key} is {got}; the file lists {want:token}", severity=WARNING, clause="3.5",
      fix=Fix.UNSAFE, cwe=125, when=with_tokens,
      provenance=("GHSA-g4cc-763q-h9h6",))  # fmt: skip
def token_id_range(subject: LintContext) -> Iterator[Finding]:
    """The id of a special token is beyond the vocabulary.

    Why: loaders of the BitNet family warn and keep a default, so that texts begin or end with another token. Programs
    that look up the token without a check read beyond the list.

    Example: eos_token_id = 128,009 with 128,000 tokens; or a vocabulary of one token, in which the default ids do not
    exist.

    Fix: write the id of the token.
    """
    known = architecture_view(subject)
    assert known.tokens is not None
    for name, number in DEFAULT_SPECIAL_TOKENS.get(known.tokenizer, {}).items():
        if name not in known.keys.places and known.tokens and number >= known.tokens:
            key = TrustedText(f"{name} is missing, and its default")
            yield token_id_range.at(known.keys.value_span(TOKENS), got=number, want=known.tokens, key=key)
    for name in known.keys.places:
        if name.startswith("tokenizer.") and name.endswith("_token_id"):
            value = known.keys.value(name)
            if isinstance(value, int) and value >= known.tokens:
                yield token_id_range.at(
                    known.keys.value_span(name), got=value, want=known.tokens, key=TrustedText(name)
                )


def byte_level_models(subject: LintContext) -> bool:
    """models with a gpt2 vocabulary"""
    return declared_models(subject) and byte_level_vocabularies(subject)


def models_with_merges(subject: LintContext) -> bool:
    """models whose vocabulary is made of merges"""
    known = architecture_view(subject)
    if not known_models(subject):
        return False
    return known.tokenizer == "gpt2" or (not known.is_bitnet and known.tokenizer in loader_table().with_merges)


def byte_level_i2s_models(subject: LintContext) -> bool:
    """models with a gpt2 vocabulary and I2_S tensors"""
    return byte_level_models(subject) and I2_S.number in subject.type_numbers


def of_one_byte_level_model(subject: LintContext) -> bool:
    """models of architecture bitnet-25 or bitnet-b1.58 with a byte-level vocabulary"""
    return byte_level_models(subject) and architecture_view(subject).model.one_model


def sentencepiece_models(subject: LintContext) -> bool:
    """models with a llama vocabulary"""
    return declared_models(subject) and architecture_view(subject).tokenizer == "llama"


def ending_with_turns(subject: LintContext) -> bool:
    """models that end a text with the end of a turn"""
    known = architecture_view(subject)
    return known.is_declared and not known.model.embedding_model and _end_of_turn(known) is not None


def _end_of_turn(known: ArchitectureView) -> bytes | None:
    """Return the token that ends a text, if it ends a turn."""
    seen = known.vocabulary if known.has_usual_vocabulary else None
    ends = {} if seen is None else {seen.found[known.sought.index(text)]: text for text in TURN_ENDS}
    eos = known.keys.value(_EOS)
    return ends.get(eos) if isinstance(eos, int) else None


@rule("T009", "pre-missing", "tokenizer.ggml.pre is missing: llama.cpp and its relatives take 'default' and warn",
      severity=WARNING, clause="3.5", fix=Fix.UNSAFE, when=byte_level_models,
      provenance=("microsoft/BitNet#102", "microsoft/BitNet#508", "ikawrakow/ik_llama.cpp#337"))  # fmt: skip
def pre_tokenizer_missing(subject: LintContext) -> Iterator[Finding]:
    """The pre-tokenizer is missing, which defines how text is split before merges apply.

    Why: llama.cpp, bitnet.cpp and ik_llama.cpp take 'default' and warn that quality will be degraded: it splits numbers
    and spaces in another way than in training. The official 2B-4T file lacks the key and needs llama-bpe.

    Example: any file that convert-ms-to-gguf-bitnet.py wrote.

    Fix: write the pre-tokenizer of the model's family (llama-bpe for 2B-4T and Llama3-8B-1.58), or pass --override-kv
    tokenizer.ggml.pre=str:llama-bpe to the loader.
    """
    known = architecture_view(subject)
    if _PRE not in known.keys.places:
        yield pre_tokenizer_missing.at(KEY_COUNT_SPAN)


@rule("T010", "pre-unknown", "tokenizer.ggml.pre is {got}, which no loader of I2_S knows", clause="3.5",
      fix=Fix.UNSAFE, when=models_with_merges)  # fmt: skip
def pre_tokenizer_unknown(subject: LintContext) -> Iterator[Finding]:
    """No loader of I2_S knows the name of the pre-tokenizer.

    Why: loaders refuse the file: 'unknown pre-tokenizer type'. A name that is newer than this version of i2s is also
    reported as an error: no loader that supports I2_S knows it.

    Example: 'llama-bpe3'.

    Fix: write the name of the tokenizer's family, such as llama-bpe or qwen2.
    """
    known = architecture_view(subject)
    pre = known.keys.value(_PRE)
    elsewhere = () if known.is_bitnet else loader_table().pre_tokenizers
    if pre and not any(pre in names for names in (PRE_TOKENIZERS, NEWER_PRE_TOKENIZERS, elsewhere)):
        yield pre_tokenizer_unknown.at(known.keys.value_span(_PRE), got=pre).at_most(ceiling(subject))


@rule("T011", "pre-newer", "tokenizer.ggml.pre is {got}, which not every loader that knows I2_S knows",
      severity=WARNING, clause="3.5", when=byte_level_i2s_models,
      provenance=("ikawrakow/ik_llama.cpp#551", "microsoft/BitNet#622"))  # fmt: skip
def pre_tokenizer_newer(subject: LintContext) -> Iterator[Finding]:
    """Only some loaders know the name of the pre-tokenizer.

    Why: the others refuse the file: 'unknown pre-tokenizer type'. BitNet's snapshot of May 2025 knows falcon_e; older
    snapshots and the fork of 2026 do not. The forks of 2024 and 2025 know no later names.

    Example: falcon_e in a build of BitNet's main of July 2026.

    Fix: use a build that knows the name. If the pre-tokenizer equals an older one, write the older name.
    """
    known = architecture_view(subject)
    pre, own = known.keys.value(_PRE), known.architecture
    if own is not None and pre == own.pre_tokenizer:
        return  # it is as old as the architecture: a loader knows both, or neither
    if pre == "falcon_e" or pre in NEWER_PRE_TOKENIZERS:
        yield pre_tokenizer_newer.at(known.keys.value_span(_PRE), got=pre)


@rule("T013", "chat-template-missing", "token {got} ends a turn of a conversation, but tokenizer.chat_template is missing",
      severity=NOTE, clause="3.5", when=ending_with_turns,
      provenance=("ikawrakow/ik_llama.cpp#339",))  # fmt: skip
def chat_template_missing(subject: LintContext) -> Iterator[Finding]:
    """A conversation model has no chat template.

    Why: front ends use a default template, and the model sees other markers than in training. The rule assumes that a
    model was trained for conversations if its end-of-text token ends a turn; other models are not reported.

    Example: eos_token_id is that of <|eot_id|>, without tokenizer.chat_template.

    Fix: write the template of the model's tokenizer_config.json.
    """
    known = architecture_view(subject)
    if _TEMPLATE not in known.keys.places:
        yield chat_template_missing.at(known.keys.value_span(_EOS), got=_end_of_turn(known))


@rule("T015", "add-bos-unsaid", "tokenizer.ggml.add_bos_token is missing, but the model was trained with a first token",
      severity=WARNING, clause="3.5", fix=Fix.UNSAFE,
      when=of_one_byte_level_model)  # fmt: skip
def add_bos_unsaid(subject: LintContext) -> Iterator[Finding]:
    """The file does not state whether texts begin with a first token (BOS).

    Why: with a gpt2 vocabulary and without a pre-tokenizer of the llama3 family, loaders add no first token. 2B-4T was
    trained with one, and its first answers are worse without it.

    Example: a bitnet-b1.58 file with bos_token_id and without add_bos_token.

    Fix: write tokenizer.ggml.add_bos_token = true.
    """
    known = architecture_view(subject)
    if _ADD_BOS not in known.keys.places and known.keys.value(_BOS) is not None:
        yield add_bos_unsaid.at(KEY_COUNT_SPAN)


@rule("T016", "scores-missing", "{key} is missing in a SentencePiece vocabulary", severity=WARNING, clause="3.5",
      when=sentencepiece_models)  # fmt: skip
def scores_missing(subject: LintContext) -> Iterator[Finding]:
    """The scores of a SentencePiece vocabulary are missing.

    Why: loaders take 0 for every token. The order in which pieces are joined is then lost, and text is split into other
    tokens.

    Example: tokenizer.ggml.model = llama without tokenizer.ggml.scores.

    Fix: convert the model again with its tokenizer.model in the same folder.
    """
    known = architecture_view(subject)
    for key in known.vocabulary_keys(EXPECTED):
        if key.name not in known.keys.places and key.when:
            yield scores_missing.at(KEY_COUNT_SPAN, key=TrustedText(key.name))


# --- tokens and merges -----------------------------------------------------------------------------------------------

#: The values that `tokenizer.ggml.token_type` may have: those of a plain token and of one that stands for a byte, and all.
_NORMAL, _BYTE, _LEAST_TYPE, _MOST_TYPE = 1, 6, 0, 6


def _types(known: ArchitectureView, start: int, count: int = 1) -> tuple[int, ...]:
    """Return the types of some tokens, as far as the file has them."""
    total = known.keys.count(_TYPES)
    if total is None or known.file.fault is not None or start >= total:
        return ()
    place = known.keys.entry(_TYPES).value_start + 4 * start
    data = known.file.source.read(place, 4 * min(count, total - start))
    return tuple(numbers("i", data, known.file.byte_order))


@rule("T003", "merge-form", "merges that are not two tokens joined by one space: {got}; the first is merge {index}, {text}",
      severity=WARNING, clause="3.5", fix=Fix.UNSAFE, when=usual_vocabularies)  # fmt: skip
def merge_form(subject: LintContext) -> Iterator[Finding]:
    """A merge is not two tokens joined by one space.

    Why: loaders split a merge at the first space after its first character. If the parts are not two tokens, the merge
    never applies, and text is split into other tokens.

    Example: 'ab', or 'a b c'.

    Fix: write the pair with one space; spaces inside byte-level tokens are written as U+0120.
    """
    known = architecture_view(subject)
    merges = known.merges if known.tokenizer == "gpt2" else None
    if merges is not None and merges.odd_pairs:
        first = merges.first_odd_pair
        span = known.item_span(MERGES, first)
        yield merge_form.at(span, got=merges.odd_pairs, want=0, index=first, text=known.item(span))


def with_token_types(subject: LintContext) -> bool:
    """files with tokens"""
    known = architecture_view(subject)
    return known.keys.has(_TYPES) and known.file.fault is None


@rule("T005", "token-type-value", "the type of token {index} is {got}; types are {want}", severity=WARNING, clause="3.5",
      when=with_token_types)  # fmt: skip
def token_type_value(subject: LintContext) -> Iterator[Finding]:
    """A token has a type that does not exist.

    Why: loaders treat it as a token without a type, so a control token becomes text, or the model never produces a
    piece of text.

    Example: a token type of 7.

    Fix: write 1 for normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    """
    known = architecture_view(subject)
    i, entry = known.keys.places[_TYPES], known.keys.entry(_TYPES)
    big = known.file.byte_order == "big"
    at = strings.first_outside(known.file.source, entry.value_start, entry.count, big, _LEAST_TYPE, _MOST_TYPE)
    if at >= 0:
        start = entry.value_start + 4 * at
        span = Span(start, start + 4, f"key_values[{i}].value.items[{at}]")
        yield token_type_value.at(span, got=_types(known, at)[0], want=TrustedText("0 to 6"), index=at)


@rule("T006", "token-twice", "tokens {first} and {second} are both {text}", clause="3.5",
      fix=Fix.UNSAFE, cwe=617, when=usual_vocabularies)  # fmt: skip
def duplicate_token(subject: LintContext) -> Iterator[Finding]:
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
        span = known.item_span(TOKENS, second)
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
def empty_token(subject: LintContext) -> Iterator[Finding]:
    """A token is an empty text.

    Why: some loaders replace it by a name such as [EMPTY_0] and warn; others loop forever.

    Example: a gap in a list of tokens that was filled with ''.

    Fix: give filler tokens unique names, such as [PAD32001].
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.empty:
        span = known.item_span(TOKENS, seen.first_empty)
        yield empty_token.at(span, got=seen.empty, want=0, index=seen.first_empty)


@rule("T012", "newline-token-missing", "no token is a newline, {want}", severity=WARNING, clause="3.5",
      when=usual_vocabularies)  # fmt: skip
def newline_token_missing(subject: LintContext) -> Iterator[Finding]:
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
            yield newline_token_missing.at(known.keys.value_span(TOKENS), want=TrustedText(shown))


@rule("T014", "filler-tokens", "filler tokens in the vocabulary: {got}; the first is token {index}, {text}",
      severity=NOTE, clause="3.5", when=usual_vocabularies)  # fmt: skip
def filler_tokens(subject: LintContext) -> Iterator[Finding]:
    """The vocabulary contains filler tokens.

    Why: converters add filler tokens up to the number of rows of the embedding. This is right if the model has spare
    rows. It also happens if the converter did not find the file with the added tokens.

    Example: [PAD32000], <dummy00001>.

    Fix: compare the number of real tokens with the model's tokenizer.
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    if seen is not None and seen.numbered:
        span = known.item_span(TOKENS, seen.first_numbered)
        yield filler_tokens.at(span, got=seen.numbered, want=0, index=seen.first_numbered, text=known.item(span))


def sentencepiece_vocabularies(subject: LintContext) -> bool:
    """files with a llama vocabulary"""
    return architecture_view(subject).tokenizer == "llama"


@rule("T017", "byte-token-form", "token {index}, {text}, has type byte but not the form <0xNN>", severity=WARNING,
      clause="3.5", fix=Fix.UNSAFE, cwe=20, when=sentencepiece_vocabularies,
      provenance=("ggml-org/llama.cpp#25969",))  # fmt: skip
def byte_token_form(subject: LintContext) -> Iterator[Finding]:
    """A token of type byte does not have the form of a byte.

    Why: loaders read two hexadecimal digits after '<0x' without checking them, so the result may not be a byte.

    Example: '<0x-1>'.

    Fix: write the byte as two hexadecimal digits.
    """
    known = architecture_view(subject)
    seen = known.vocabulary
    for index in () if seen is None else seen.byte_forms:
        if _types(known, index) == (_BYTE,):
            span = known.item_span(TOKENS, index)
            yield byte_token_form.at(span, index=index, text=known.item(span))


# --- special tokens, markers of templates, order of merges -----------------------------------------------------------
# Only the beginning of the list of tokens is checked (`LOOKED_AT`): a mistake of a converter affects the whole list.

#: How many strings at the beginning of a list are examined, and from how many bytes they are read.
LOOKED_AT: Final = 1024
_BYTES: Final = 1 << 16
#: From this number of wrong entries on, a whole list counts as wrong.
LEAST: Final = 8
#: The ratio of merges to tokens that merges could make below which many are missing.
MERGES_FOR_TOKENS: Final = 0.75
#: Tokens that stand for bytes.
BYTES: Final = 256
#: The largest number of token types that are counted.
_COUNTED: Final = 1 << 20

#: The lengths in bytes of the name between `<|` and `|>` of a marker: letters, digits and `_`, and a letter first.
_IN_MARKER: Final = range(2, 42)
#: The largest number of template markers to look for.
_MARKERS: Final = 48


def _first_tokens(known: ArchitectureView) -> list[bytes]:
    """Return the first tokens; none where too few of them contain a blank to be reported."""
    array = known.array(TOKENS)
    if array is None:
        return []
    source, first, stop, count, _ = array
    data = source.read(first, min(_BYTES, stop - first))
    if data.count(b" ") < LEAST:
        return []
    found: list[bytes] = []
    at, room = 0, len(data) - 8
    for _ in range(min(LOOKED_AT, count)):
        if at > room:
            break
        start = at + 8
        at = start + int.from_bytes(data[at:start], known.file.byte_order)
        if at > room + 8:
            break
        found.append(bytes(data[start:at]))
    return found


def _count_of(known: ArchitectureView, wanted: int) -> int:
    """Return the number of tokens of a type among the first `_COUNTED` tokens."""
    total = known.keys.count(_TYPES)
    if total is None or known.file.fault is not None:
        return 0
    start, big = known.keys.entry(_TYPES).value_start, known.file.byte_order == "big"
    return strings.count_equal(known.file.source, start, min(_COUNTED, total), big, wanted)


def _named_token(known: ArchitectureView, key: str) -> int | None:
    """Return the token that a key names by its id, if the file lists it."""
    value = known.keys.value(key)
    return value if isinstance(value, int) and known.tokens is not None and 0 <= value < known.tokens else None


@rule("T018", "special-token-normal", "{key} is token {got}, {text}, whose type is normal", severity=WARNING, clause="3.5",
      when=with_tokens)  # fmt: skip
def special_token_normal(subject: LintContext) -> Iterator[Finding]:
    """A special token has the type normal.

    Why: a normal token is text: programs print it, and recognize it in the user's text. Either the end-of-text token is
    shown to the user, or an ordinary word ends every answer early.

    Example: eos_token_id is the number of 'the', or that of <|end_of_text|> with type 1.

    Fix: write the id of the token that ends a text, and 3 (control) as its type.
    """
    known = architecture_view(subject)
    for name in (_BOS, _EOS, _EOT) if known.has_usual_vocabulary else ():
        token = _named_token(known, name)
        if token is not None and _types(known, token) == (_NORMAL,):
            text = known.item(known.item_span(TOKENS, token))
            yield special_token_normal.at(known.keys.value_span(name), got=token, key=TrustedText(name), text=text)


@rule("T019", "special-tokens-exchanged", "{key} is token {got}, {text}, which {want} a text", severity=WARNING,
      clause="3.5", when=usual_vocabularies)  # fmt: skip
def special_tokens_exchanged(subject: LintContext) -> Iterator[Finding]:
    """The token that begins texts and the token that ends them are exchanged.

    Why: programs put the first token before every text, and stop at the end token. If the two are exchanged, the model
    sees the end of a text at its beginning, and never stops.

    Example: bos_token_id is that of <|end_of_text|>, and eos_token_id that of <|begin_of_text|>.

    Fix: exchange the two ids.
    """
    known = architecture_view(subject)
    found = known.vocabulary
    if found is None:
        return
    bos, eos = known.keys.value(_BOS), known.keys.value(_EOS)
    for name, value, texts, what in ((_BOS, bos, TEXT_ENDS, "ends"), (_EOS, eos, TEXT_BEGINS, "begins")):
        places = {found.found[known.sought.index(text)]: text for text in texts}
        if isinstance(value, int) and value in places and bos != eos:  # one token for both is usual
            yield special_tokens_exchanged.at(
                known.keys.value_span(name), got=value, want=TrustedText(what), key=TrustedText(name), text=places[value]
            )  # fmt: skip
            return


def with_markers(subject: LintContext) -> bool:
    """files with a chat template and markers among their tokens"""
    return with_templates(subject) and usual_vocabularies(subject) and architecture_view(subject).vocabulary is not None


@rule("T020", "template-marker-missing", "{key} has {got}, which is not a token (markers without a token: {count})",
      severity=WARNING, clause="3.5", when=with_markers)  # fmt: skip
def template_marker_missing(subject: LintContext) -> Iterator[Finding]:
    """A chat template has markers that are not in the vocabulary.

    Why: the marker is then split into pieces of ordinary text, which the model never saw around a turn in training.
    Models without any markers in their vocabulary are trained with such text; they are not reported.

    Example: the template of Llama 3 with <|start_header_id|>, and a vocabulary without it.

    Fix: take the template and the tokenizer from the same model.
    """
    known = architecture_view(subject)
    templates = [text for text in read_texts(subject).texts if text.is_template]
    seen = known.vocabulary
    assert seen is not None
    for text in templates:
        markers = {marker: at for at, marker in reversed(list(_markers(text.data)))}
        sought = list(markers)[:_MARKERS]
        places = _places(known, seen, sought)
        missing = sorted((markers[marker], marker) for marker, at in zip(sought, places, strict=True) if at < 0)
        has_markers = len(missing) < len(sought) or any(
            at >= 0 and list(_markers(each)) == [(0, each)] for each, at in zip(known.sought, seen.found, strict=True)
        )
        if missing and has_markers:
            start, first = missing[0]
            span = text.span(start, start + len(first))
            yield template_marker_missing.at(span, got=first, key=text.key, count=len(missing))


def _markers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the markers in a text, `<|...|>`, and where each begins."""
    at = data.find(b"<|")
    while at >= 0:
        start = at + 2
        stop = data.find(b"|>", start, start + _IN_MARKER.stop + 1)
        word = data[start : max(stop, start)]
        if len(word) in _IN_MARKER and word[:1].isalpha() and word.replace(b"_", b"").isalnum():
            yield at, data[at : stop + 2]
            start = stop + 2
        at = data.find(b"<|", start)


def _places(known: ArchitectureView, seen: Strings, markers: list[bytes]) -> tuple[int, ...]:
    """Return the token id of each marker, or -1; the tokens are read again only where there are more than were kept."""
    if seen.markers == len(seen.marked):
        return tuple(seen.marked.get(marker, -1) for marker in markers)
    array = known.array(TOKENS)
    assert array is not None
    return strings.examine(*array, markers, 0).found


#: From this share on, results that no applicable merge makes are reported: 3 of 236,339 in Gemma 4's vocabulary.
UNMADE: Final = 0.001


def with_merges(subject: LintContext) -> bool:
    """files with merges that loaders use"""
    known = architecture_view(subject)
    return known.tokenizer in MERGING and known.keys.has(MERGES)


@rule("T021", "merge-order", "{got} of {want:result} of merges cannot be made, since no merge before makes their parts; the "
      "first is merge {index}, {text}", severity=WARNING, clause="3.5", when=with_merges)  # fmt: skip
def merge_order(subject: LintContext) -> Iterator[Finding]:
    """Merges are not in the order in which they were learned, or some are missing.

    Why: a merge applies to existing parts: single characters, or results of earlier merges. In another order or with
    gaps, many results are never made, and text is split into other tokens than in training. A vocabulary that was made
    from tiktoken's lists every split of a token; one that applies is enough.

    Example: merges in reverse order, or only every second one.

    Fix: write the merges in the order of tokenizer.json or merges.txt.
    """
    known = architecture_view(subject)
    seen, form = known.merge_results, known.merges
    if seen is None or form is None or (form.odd_pairs and seen.unmade < LEAST):
        return  # T003 reports merges of a wrong form, without which others have no parts
    if seen.unmade > UNMADE * seen.results:
        first = seen.first_unmade
        span = known.item_span(MERGES, first)
        yield merge_order.at(span, got=seen.unmade, want=seen.results, index=first, text=known.item(span))


@rule("T022", "merges-missing", "the file has {got:merge} for {want:token that needs|tokens that need} one",
      severity=WARNING, clause="3.5", when=byte_level_vocabularies)  # fmt: skip
def merges_missing(subject: LintContext) -> Iterator[Finding]:
    """The file has far fewer merges than tokens that need one.

    Why: in a byte-level vocabulary, each token that is neither a byte nor special is the result of a merge. Tokens
    without a merge never occur in a text, which is split into smaller pieces.

    Example: a list of merges that was truncated in the middle.

    Fix: write all merges, in the order of tokenizer.json or merges.txt.
    """
    known = architecture_view(subject)
    merges, seen = known.keys.count(MERGES), known.vocabulary
    if merges is None or seen is None or known.keys.count(_TYPES) != known.tokens:
        return
    normal = _count_of(known, _NORMAL)
    wanted = normal - BYTES - seen.numbered
    if wanted >= LEAST and merges < MERGES_FOR_TOKENS * wanted:
        yield merges_missing.at(known.keys.value_span(MERGES), got=merges, want=wanted)


@rule("T023", "blank-in-token", "tokens with a blank among the first {want}: {got}; the first is token {index}, {text}",
      severity=WARNING, clause="3.5", when=byte_level_vocabularies)  # fmt: skip
def blank_in_token(subject: LintContext) -> Iterator[Finding]:
    """Tokens of a byte-level vocabulary contain plain blanks instead of U+0120.

    Why: byte-level vocabularies represent each byte by a printable character, and a blank by U+0120. A plain blank does
    not belong to that alphabet, so programs never find the token, and print it wrongly or not at all.

    Example: ' the' in place of U+0120 'the'.

    Fix: convert the tokenizer again, from its own files.
    """
    known = architecture_view(subject)
    tokens = _first_tokens(known)
    types = _types(known, 0, len(tokens)) or (_NORMAL,) * len(tokens)
    wrong = [
        at for at, (token, kind) in enumerate(zip(tokens, types, strict=False)) if kind == _NORMAL and b" " in token
    ]
    if len(wrong) >= LEAST:
        span = known.item_span(TOKENS, wrong[0])
        yield blank_in_token.at(span, got=len(wrong), want=len(tokens), index=wrong[0], text=known.item(span))


# --- the ends of texts and turns -------------------------------------------------------------------------------------

#: The value of pooling_type with which a text is represented by its last token.
_LAST_TOKEN: Final = 3
#: A template whose first output is the first token of texts, perhaps in an expression with blanks cut off.
_BOS_FIRST: Final = re.compile(rb"\s*\{\{-?\s*bos_token\b")


def pooled_by_last_token(subject: LintContext) -> bool:
    """embedding models that are represented by their last token"""
    pooling = architecture_view(subject).keys.of_prefix("pooling_type")
    return pooling is not None and pooling[0] == _LAST_TOKEN and with_tokens(subject)


@rule("T024", "add-eos-unsaid", "pooling_type is 3, the last token, and tokenizer.ggml.add_eos_token is {got}: the text's "
      "own last token represents it", severity=WARNING, clause="3.6", when=pooled_by_last_token,
      provenance=("ggml-org/llama.cpp#14280",))  # fmt: skip
def add_eos_unsaid(subject: LintContext) -> Iterator[Finding]:
    """A text is represented by its last token, and programs do not add the one of the training.

    Why: models that are pooled by the last token were trained with an end token after each text. Without the key, loaders
    add none after byte-level vocabularies, so that the vector depends on the last word; the vectors of texts are then
    hardly comparable, and no program reports it.

    Example: a file of an embedding model of Qwen3's family without tokenizer.ggml.add_eos_token.

    Fix: write tokenizer.ggml.add_eos_token = true, unless the model card says otherwise.
    """
    known = architecture_view(subject)
    stated = known.keys.value(_ADD_EOS)
    if stated is False or (_ADD_EOS not in known.keys.places and known.tokenizer in MERGING):
        pooling = known.keys.of_prefix("pooling_type")
        assert pooling is not None
        yield add_eos_unsaid.at(pooling[1], got=TrustedText("missing" if stated is None else "false"), want=True)


@rule("T025", "eos-ends-no-turn", "the template ends turns with {turn}, but {key} is token {got}, {text}, and no "
      "eot_token_id names the other", severity=NOTE, clause="3.5", when=with_markers,
      provenance=("unslothai/unsloth#468", "hiyouga/LlamaFactory#7454"))  # fmt: skip
def eos_ends_no_turn(subject: LintContext) -> Iterator[Finding]:
    """The token that ends a text is not the one with which the chat template ends a turn.

    Why: programs stop at eos_token_id, and at eot_token_id where it is given. llama.cpp also finds the usual tokens by
    their text; programs that do not never stop after a turn, and write both sides of the conversation. Files of the
    architectures of BitNet b1.58 2B-4T are not reported: its published file is so.

    Example: a template with <|im_end|> after every turn, and eos_token_id = <|endoftext|>.

    Fix: write the token that ends a turn as tokenizer.ggml.eot_token_id, or as eos_token_id.
    """
    known = architecture_view(subject)
    seen, eos = known.vocabulary, _named_token(known, _EOS)
    stated = any(name in known.keys.places for name in (_EOT, "tokenizer.ggml.eom_token_id"))
    if seen is None or eos is None or stated or (known.architecture is not None and known.architecture.one_model):
        return
    text = known.item(known.item_span(TOKENS, eos))
    for template in (each for each in read_texts(subject).texts if each.is_template):
        if b"eos_token" in template.data or not text or text in template.data or text in TEXT_BEGINS:  # T019
            continue
        ends = [end for end in TURN_ENDS if end in template.data and seen.found[known.sought.index(end)] >= 0]
        if ends:
            span = known.keys.value_span(_EOS)
            yield eos_ends_no_turn.at(span, got=eos, key=TrustedText(_EOS), text=text, turn=ends[0])
            return


def with_templates_and_tokens(subject: LintContext) -> bool:
    """files with a chat template and tokens"""
    return with_templates(subject) and with_tokens(subject)


@rule("T026", "bos-twice", "{key} begins with bos_token, and tokenizer.ggml.add_bos_token is true: a program that does both "
      "puts two before a conversation", severity=NOTE, clause="3.5", when=with_templates_and_tokens)  # fmt: skip
def bos_twice(subject: LintContext) -> Iterator[Finding]:
    """Both the chat template and the tokenizer put the first token (BOS) before a conversation.

    Why: a program that renders the template and then tokenizes the text as usual gives the model two first tokens, which
    it never saw in training. llama.cpp removes one of them, and warns. Most files of Llama 3 are so.

    Example: a template that begins with {{ bos_token }}, and tokenizer.ggml.add_bos_token = true.

    Fix: none is needed for programs that remove one; others should tokenize rendered templates without special tokens.
    """
    known = architecture_view(subject)
    if known.keys.value(_ADD_BOS) is not True:
        return
    bos = _named_token(known, _BOS)
    text = known.item(known.item_span(TOKENS, bos)) if bos is not None else b""
    for template in (each for each in read_texts(subject).texts if each.is_template):
        found = _BOS_FIRST.match(template.data) or (
            re.match(rb"\s*" + re.escape(text), template.data) if text else None
        )
        if found is not None:
            yield bos_twice.at(template.span(*found.span()), key=template.key)
            return


def with_empty_template(subject: LintContext) -> bool:
    """files with an empty chat template"""
    value = architecture_view(subject).keys.value(_TEMPLATE)
    return isinstance(value, str) and not value.strip()


@rule("T027", "chat-template-empty", "tokenizer.chat_template is empty", severity=WARNING, clause="3.5",
      when=with_empty_template)  # fmt: skip
def chat_template_empty(subject: LintContext) -> Iterator[Finding]:
    """The chat template is an empty text.

    Why: some programs take a default template in its place, as they do where the key is missing, and others render every
    conversation as nothing. In either case the model sees other markers than in training.

    Example: tokenizer.chat_template = ''.

    Fix: write the template of the model's tokenizer_config.json, or remove the key.
    """
    yield chat_template_empty.at(architecture_view(subject).keys.value_span(_TEMPLATE))
