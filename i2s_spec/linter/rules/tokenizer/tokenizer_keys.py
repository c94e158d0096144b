"""Rules about the keys of the tokenizer."""

from collections.abc import Iterator

from i2s_spec.errors import TrustedText
from i2s_spec.linter.analysis.architecture_view import TURN_ENDS, ArchitectureView, architecture_view
from i2s_spec.linter.analysis.conditions import (
    byte_level_vocabularies,
    declared_models,
    ternary_by_type_or_key,
    with_tokens,
)
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Fix, rule
from i2s_spec.schema.architectures.keys import (
    DEFAULT_SPECIAL_TOKENS,
    EXPECTED,
    NEWER_PRE_TOKENIZERS,
    PRE_TOKENIZERS,
    REQUIRED,
    TOKENIZERS,
    Key,
)
from i2s_spec.schema.checks import KEY_COUNT_SPAN
from i2s_spec.schema.types import I2_S

_MODEL, _PRE, _TOKENS = "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens"
_TYPES, _EOS, _TEMPLATE = "tokenizer.ggml.token_type", "tokenizer.ggml.eos_token_id", "tokenizer.chat_template"


def _of_need(known: ArchitectureView, need: str) -> Iterator[Key]:
    """The keys of the tokenizer with this level of need, for the kind of tokenizer that the file names."""
    for key in known.model.keys.values():
        if key.name.startswith("tokenizer.") and key.need == need and key.when in ("", known.tokenizer):
            yield key


@rule("T001", "vocabulary-key-missing", "the key {key} is missing", clause="3.5", fix=Fix.UNSAFE,
      when=declared_models)  # fmt: skip
def tokenizer_key_missing(subject: Subject) -> Iterator[Finding]:
    """A key that the tokenizer needs is missing.

    Why: loaders build the vocabulary first and refuse the file: 'key not found', 'cannot find tokenizer vocab', 'cannot
    find tokenizer merges'.

    Example: tokenizer.ggml.model = gpt2 without tokenizer.ggml.merges.

    Fix: convert the model again with its tokenizer files in the same folder.
    """
    known = architecture_view(subject)
    for key in _of_need(known, REQUIRED):
        if key.name not in known.keys.places and known.tokenizer != "no_vocab":
            yield tokenizer_key_missing.at(KEY_COUNT_SPAN, key=TrustedText(key.name))


@rule("T002", "tokenizer-unknown", "tokenizer.ggml.model is {got}; loaders know {want}", clause="3.5",
      fix=Fix.UNSAFE, when=ternary_by_type_or_key)  # fmt: skip
def tokenizer_unknown(subject: Subject) -> Iterator[Finding]:
    """Loaders do not know the kind of tokenizer.

    Why: they refuse the file: 'unknown tokenizer'.

    Example: tokenizer.ggml.model = 'hf'.

    Fix: write gpt2 for byte-level BPE or llama for SentencePiece; the tokens must have the form of that kind.
    """
    known = architecture_view(subject)
    if known.keys.has(_MODEL) and known.tokenizer not in TOKENIZERS:
        yield tokenizer_unknown.at(
            known.keys.value_span(_MODEL), got=known.keys.value(_MODEL) or "", want=TrustedText(", ".join(TOKENIZERS))
        )  # fmt: skip


@rule("T004", "tokenizer-array-length", "{key} has {got:element} for {want:token}", clause="3.5",
      fix=Fix.UNSAFE, cwe=125, when=with_tokens,
      provenance=("ggml-org/llama.cpp#26690",))  # fmt: skip
def tokenizer_array_length(subject: Subject) -> Iterator[Finding]:
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


def default_id(tokenizer: str, name: str) -> int:
    """The id that loaders use where the key of a special token is missing; -1 where they use none."""
    return DEFAULT_SPECIAL_TOKENS.get(tokenizer, {}).get(name, -1)


@rule("T008", "token-id-range", "{key} is {got}; the file lists {want:token}", severity=WARNING, clause="3.5",
      fix=Fix.UNSAFE, cwe=125, when=with_tokens,
      provenance=("GHSA-g4cc-763q-h9h6",))  # fmt: skip
def token_id_range(subject: Subject) -> Iterator[Finding]:
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
            yield token_id_range.at(known.keys.value_span(_TOKENS), got=number, want=known.tokens, key=key)
    for name in known.keys.places:
        if name.startswith("tokenizer.") and name.endswith("_token_id"):
            value = known.keys.value(name)
            if isinstance(value, int) and value >= known.tokens:
                yield token_id_range.at(
                    known.keys.value_span(name), got=value, want=known.tokens, key=TrustedText(name)
                )


def byte_level_models(subject: Subject) -> bool:
    """models with a gpt2 vocabulary"""
    return declared_models(subject) and byte_level_vocabularies(subject)


def ternary_byte_level_models(subject: Subject) -> bool:
    """ternary models with a gpt2 vocabulary"""
    return ternary_by_type_or_key(subject) and byte_level_vocabularies(subject)


def byte_level_i2s_models(subject: Subject) -> bool:
    """models with a gpt2 vocabulary and I2_S tensors"""
    return byte_level_models(subject) and I2_S.number in subject.type_numbers


def of_one_byte_level_model(subject: Subject) -> bool:
    """models of architecture bitnet-25 or bitnet-b1.58 with a byte-level vocabulary"""
    return byte_level_models(subject) and architecture_view(subject).model.one_model


def sentencepiece_models(subject: Subject) -> bool:
    """models with a llama vocabulary"""
    return declared_models(subject) and architecture_view(subject).tokenizer == "llama"


def ending_with_turns(subject: Subject) -> bool:
    """models that end a text with the end of a turn"""
    known = architecture_view(subject)
    return known.is_declared and not known.model.embedding_model and _end_of_turn(known) is not None


def _end_of_turn(known: ArchitectureView) -> bytes | None:
    """The token that ends a text, if it ends a turn."""
    seen = known.vocabulary if known.has_usual_vocabulary else None
    ends = {} if seen is None else {seen.found[known.sought.index(text)]: text for text in TURN_ENDS}
    eos = known.keys.value(_EOS)
    return ends.get(eos) if isinstance(eos, int) else None


@rule("T009", "pre-missing", "tokenizer.ggml.pre is missing: loaders take 'default' and warn, ik_llama.cpp takes "
      "'llama3'", severity=WARNING, clause="3.5", fix=Fix.UNSAFE, when=byte_level_models,
      provenance=("microsoft/BitNet#102", "microsoft/BitNet#508", "ikawrakow/ik_llama.cpp#337"))  # fmt: skip
def pre_tokenizer_missing(subject: Subject) -> Iterator[Finding]:
    """The pre-tokenizer is missing, which defines how text is split before merges apply.

    Why: loaders take 'default' and warn that quality will be degraded: it splits numbers and spaces in another way than
    in training. ik_llama.cpp takes llama3. The official 2B-4T file lacks the key and needs llama-bpe.

    Example: any file that convert-ms-to-gguf-bitnet.py wrote.

    Fix: write the pre-tokenizer of the model's family (llama-bpe for 2B-4T and Llama3-8B-1.58), or pass --override-kv
    tokenizer.ggml.pre=str:llama-bpe to the loader.
    """
    known = architecture_view(subject)
    if _PRE not in known.keys.places:
        yield pre_tokenizer_missing.at(KEY_COUNT_SPAN)


@rule("T010", "pre-unknown", "tokenizer.ggml.pre is {got}, which no loader knows", clause="3.5",
      fix=Fix.UNSAFE, when=ternary_byte_level_models)  # fmt: skip
def pre_tokenizer_unknown(subject: Subject) -> Iterator[Finding]:
    """No loader knows the name of the pre-tokenizer.

    Why: loaders refuse the file: 'unknown pre-tokenizer type'. A name that is newer than this version of i2s is also
    reported as an error: no loader that supports I2_S knows it.

    Example: 'llama-bpe3'.

    Fix: write the name of the tokenizer's family, such as llama-bpe or qwen2.
    """
    known = architecture_view(subject)
    pre = known.keys.value(_PRE)
    if pre and pre not in PRE_TOKENIZERS and pre not in NEWER_PRE_TOKENIZERS:
        yield pre_tokenizer_unknown.at(known.keys.value_span(_PRE), got=pre)


@rule("T011", "pre-newer", "tokenizer.ggml.pre is {got}, which not every loader that knows I2_S knows",
      severity=WARNING, clause="3.5", when=byte_level_i2s_models,
      provenance=("ikawrakow/ik_llama.cpp#551", "microsoft/BitNet#622"))  # fmt: skip
def pre_tokenizer_newer(subject: Subject) -> Iterator[Finding]:
    """Only some loaders know the name of the pre-tokenizer.

    Why: the others refuse the file: 'unknown pre-tokenizer type'. BitNet's snapshot of May 2025 knows falcon_e; older
    snapshots and the fork of 2026 do not. The forks of 2024 and 2025 know no later names.

    Example: falcon_e in a build of BitNet's main of July 2026.

    Fix: use a build that knows the name. If the pre-tokenizer equals an older one, write the older name.
    """
    known = architecture_view(subject)
    pre = known.keys.value(_PRE)
    if pre == "falcon_e" or pre in NEWER_PRE_TOKENIZERS:
        yield pre_tokenizer_newer.at(known.keys.value_span(_PRE), got=pre)


@rule("T013", "chat-template-missing", "token {got} ends a turn of a conversation, but tokenizer.chat_template is missing",
      severity=NOTE, clause="3.5", when=ending_with_turns,
      provenance=("ikawrakow/ik_llama.cpp#339",))  # fmt: skip
def chat_template_missing(subject: Subject) -> Iterator[Finding]:
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
def add_bos_unsaid(subject: Subject) -> Iterator[Finding]:
    """The file does not state whether texts begin with a first token (BOS).

    Why: with a gpt2 vocabulary and without a pre-tokenizer of the llama3 family, loaders add no first token. 2B-4T was
    trained with one, and its first answers are worse without it.

    Example: a bitnet-b1.58 file with bos_token_id and without add_bos_token.

    Fix: write tokenizer.ggml.add_bos_token = true.
    """
    known = architecture_view(subject)
    if (
        "tokenizer.ggml.add_bos_token" not in known.keys.places
        and known.keys.value("tokenizer.ggml.bos_token_id") is not None
    ):
        yield add_bos_unsaid.at(KEY_COUNT_SPAN)


@rule("T016", "scores-missing", "{key} is missing in a SentencePiece vocabulary", severity=WARNING, clause="3.5",
      when=sentencepiece_models)  # fmt: skip
def scores_missing(subject: Subject) -> Iterator[Finding]:
    """The scores of a SentencePiece vocabulary are missing.

    Why: loaders take 0 for every token. The order in which pieces are joined is then lost, and text is split into other
    tokens.

    Example: tokenizer.ggml.model = llama without tokenizer.ggml.scores.

    Fix: convert the model again with its tokenizer.model in the same folder.
    """
    known = architecture_view(subject)
    for key in _of_need(known, EXPECTED):
        if key.name not in known.keys.places and key.when:
            yield scores_missing.at(KEY_COUNT_SPAN, key=TrustedText(key.name))
