"""This module declares how the real files of each architecture are made: the keys in their order, and usual sizes.

The order of keys is that of the converters that wrote the files; types and meanings are the schema's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from i2s_spec.convert.synthetic import vocabulary
from i2s_spec.convert.synthetic.vocabulary import SyntheticVocabulary


class Size(NamedTuple):
    """The sizes that can be chosen."""

    layers: int
    embd: int
    ff: int
    heads: int
    heads_kv: int
    vocab: int
    context: int
    head_dim: int | None = None


class Recipe(NamedTuple):
    """How the real files of an architecture are made, in addition to the schema.

    :param keys: the keys of the published files, in their order
    :param lacking: keys that these lack but a sound file has, each with the key that precedes it
    :param multiplies_embedding: whether the graph multiplies the embedding by sqrt(embd)
    """

    keys: tuple[str, ...]
    size: Size
    vocabulary: Callable[[int], SyntheticVocabulary]
    rope_base: float
    eps: float
    tokenizer: str
    pre: str = "default"
    lacking: tuple[tuple[str, str], ...] = ()
    multiplies_embedding: bool = False

    @property
    def says_head_width(self) -> bool:
        """Whether the keys give the width of a head, which may then differ from embd / heads."""
        return "{arch}.attention.key_length" in self.keys

    def keys_of(self, as_published: bool) -> tuple[str, ...]:
        """The keys in order, with or without those that published files lack."""
        keys = list(self.keys)
        for key, before in () if as_published else self.lacking:
            keys.insert(keys.index(before) + 1, key)
        return tuple(keys)


_B158_KEYS: Final = (
    "general.architecture", "general.name", "{arch}.vocab_size", "{arch}.context_length", "{arch}.embedding_length",
    "{arch}.block_count", "{arch}.feed_forward_length", "{arch}.rope.dimension_count", "{arch}.attention.head_count",
    "{arch}.attention.head_count_kv", "tokenizer.ggml.add_bos_token", "{arch}.attention.layer_norm_rms_epsilon",
    "{arch}.rope.freq_base", "general.file_type", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
    "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id", "tokenizer.chat_template",
    "general.quantization_version",
)  # fmt: skip

_SIZES: Final = (
    "general.architecture", "general.name", "{arch}.block_count", "{arch}.context_length", "{arch}.embedding_length",
    "{arch}.feed_forward_length", "{arch}.attention.head_count", "{arch}.attention.head_count_kv",
)  # fmt: skip

_BITNET_KEYS: Final = (
    *_SIZES, "{arch}.rope.freq_base", "{arch}.attention.layer_norm_rms_epsilon", "general.file_type",
    "{arch}.vocab_size", "{arch}.rope.scaling.type", "{arch}.rope.scaling.factor", "tokenizer.ggml.model",
    "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "general.quantization_version",
)  # fmt: skip

_LLAMA_KEYS: Final = (
    *_SIZES, "{arch}.rope.freq_base", "{arch}.attention.layer_norm_rms_epsilon", "general.file_type",
    "{arch}.vocab_size", "{arch}.rope.dimension_count", "tokenizer.ggml.model", "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id", "tokenizer.chat_template", "general.quantization_version",
)  # fmt: skip

_EMBEDDING_KEYS: Final = (
    *_SIZES, "{arch}.vocab_size", "{arch}.rope.dimension_count", "{arch}.attention.key_length",
    "{arch}.attention.value_length", "{arch}.rope.freq_base", "{arch}.attention.layer_norm_rms_epsilon",
    "general.file_type", "{arch}.pooling_type", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
)  # fmt: skip

_QWEN3_KEYS: Final = (
    *_EMBEDDING_KEYS, "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.add_eos_token",
)  # fmt: skip

_QWEN3_LM_KEYS: Final = (
    *_SIZES, "{arch}.rope.freq_base", "{arch}.attention.layer_norm_rms_epsilon", "{arch}.attention.key_length",
    "{arch}.attention.value_length", "{arch}.rope.dimension_count", "general.file_type", "tokenizer.ggml.model",
    "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id",
    "tokenizer.chat_template", "general.quantization_version",
)  # fmt: skip

_GEMMA3_KEYS: Final = (
    *_EMBEDDING_KEYS, "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
)  # fmt: skip

_gemma_pieces = partial(vocabulary.sentence_pieces, special=vocabulary.GEMMA_SPECIAL)

_PRE: Final = (("tokenizer.ggml.pre", "tokenizer.ggml.model"),)
_VERSION: Final = (("general.quantization_version", "general.file_type"),)

_B158: Final = Recipe(
    _B158_KEYS, Size(2, 128, 256, 4, 2, 384, 512), vocabulary.byte_level, 500000.0, 1e-5, "gpt2", "llama-bpe", _PRE
)

#: One for each architecture; the default sizes keep every file under 200 KB.
RECIPES: Final = {
    "bitnet-b1.58": _B158,
    "bitnet-25": _B158,
    "bitnet": Recipe(
        _BITNET_KEYS, Size(2, 128, 256, 4, 2, 384, 512), vocabulary.sentence_pieces, 10000.0, 1e-5, "llama"
    ),
    "llama": Recipe(
        _LLAMA_KEYS, Size(2, 128, 128, 4, 2, 272, 512), vocabulary.byte_level, 500000.0, 1e-5, "gpt2", "llama-bpe"
    ),
    "qwen3": Recipe(
        _QWEN3_KEYS, Size(2, 128, 256, 4, 2, 320, 512), vocabulary.byte_level, 1e6, 1e-6, "gpt2", "qwen2", _VERSION
    ),
    "qwen3-lm": Recipe(
        _QWEN3_LM_KEYS, Size(2, 128, 256, 4, 2, 320, 512), vocabulary.byte_level, 1e6, 1e-6, "gpt2", "qwen2"
    ),
    "gemma3": Recipe(
        _GEMMA3_KEYS, Size(2, 128, 256, 4, 1, 320, 512), _gemma_pieces, 10000.0, 1e-6, "llama", lacking=_VERSION,
        multiplies_embedding=True,
    ),
}  # fmt: skip

#: Named shapes: the sizes of a real model, and the function that makes its vocabulary.
SHAPES: Final = {
    "2b4t": (
        Size(30, 2560, 6912, 20, 5, 128256, 4096),
        partial(vocabulary.byte_level, merges=280147, special=vocabulary.LLAMA3_SPECIAL),
        ("bitnet-b1.58", "bitnet-25"),
    ),
}

#: Pooling by the last token, with which the embedding models were trained (clause 3.6).
LAST_TOKEN: Final = 3

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)
