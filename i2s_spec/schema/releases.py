"""This module declares the programs that have written I2_S files, by the marks that they leave.

A file names none of them. A *converter* writes keys and the tensor table, a *quantizer* the payloads; one program may
do both. The declarations hold for any model: the order of its keys, keys that it always or never writes, the bytes that
it leaves after the scale, the rule of the scale, the layouts that it packs. `inspect.identify` compares these marks
with a file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from i2s_spec.schema.dialect import LAYOUTS


class Converter(NamedTuple):
    """A program that writes metadata.

    `keys` gives the order of its keys, with `{a}` for the architecture's name; a given file need not have all of them.
    `architectures` are the names that it writes.
    """

    name: str
    title: str
    architectures: tuple[str, ...]
    keys: tuple[str, ...]
    source: str
    period: str = ""


class Quantizer(NamedTuple):
    """A program that writes payloads.

    `tails` are the kinds of tails that it leaves (`zero`, `stale`, `replicated`), `layouts` its possible layouts in the
    order of likelihood, `code_map` (empty if any) and `numbers` the codes and type numbers that it writes. `version`
    says whether general.quantization_version is always (True), never (False) or sometimes (None) in its files.
    """

    name: str
    title: str
    tails: tuple[str, ...]
    layouts: tuple[str, ...]
    scale: str
    version: bool | None
    source: str
    code_map: str = "offset-1"
    numbers: tuple[int, ...] = (36,)
    architectures: tuple[str, ...] = ()
    period: str = ""


_HEAD: Final = ("general.architecture", "general.name")
_SIZES: Final = (
    "{a}.block_count", "{a}.context_length", "{a}.embedding_length", "{a}.feed_forward_length",
    "{a}.attention.head_count", "{a}.attention.head_count_kv",
)  # fmt: skip
_SPM: Final = (
    "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
)  # fmt: skip

#: Keys whose presence shows a converter of llama.cpp that is newer than those of BitNet.
YOUNG_KEYS: Final = ("general.type", "general.basename", "general.size_label", "general.finetune", "general.version")

CONVERTERS: Final[tuple[Converter, ...]] = (
    Converter(
        "convert-ms", "convert-ms-to-gguf-bitnet.py, which made the published 2B-4T files", ("bitnet-b1.58", "bitnet-25"),
        (*_HEAD, "{a}.vocab_size", "{a}.context_length", "{a}.embedding_length", "{a}.block_count",
         "{a}.feed_forward_length", "{a}.rope.dimension_count", "{a}.attention.head_count", "{a}.attention.head_count_kv",
         "tokenizer.ggml.add_bos_token", "{a}.attention.layer_norm_rms_epsilon", "{a}.rope.freq_base",
         "general.file_type", "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
         "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
         "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id", "tokenizer.chat_template"),
        "microsoft/BitNet utils/convert-ms-to-gguf-bitnet.py", "since March 2025",
    ),
    Converter(
        "convert-hf-2024", "convert-hf-to-gguf-bitnet.py as it was until July 2026", ("bitnet",),
        (*_HEAD, *_SIZES, "{a}.rope.freq_base", "{a}.attention.layer_norm_rms_epsilon", "general.file_type",
         "{a}.vocab_size", "{a}.rope.scaling.type", "{a}.rope.scaling.factor", *_SPM),
        "microsoft/BitNet utils/convert-hf-to-gguf-bitnet.py@6cfd883", "October 2024 to July 2026",
    ),
    Converter(
        "convert-hf-2026", "convert-hf-to-gguf-bitnet.py since July 2026", ("bitnet-b1.58",),
        (*_HEAD, *_SIZES, "{a}.rope.freq_base", "{a}.attention.layer_norm_rms_epsilon", "general.file_type",
         "{a}.vocab_size", "{a}.rope.dimension_count", *_SPM),
        "microsoft/BitNet utils/convert-hf-to-gguf-bitnet.py@3b04140", "since July 2026",
    ),
    Converter(
        "convert-embedding", "convert-bitnet-embedding-to-gguf.py", ("qwen3", "gemma3"),
        (*_HEAD, *_SIZES, "{a}.vocab_size", "{a}.rope.dimension_count", "{a}.attention.key_length",
         "{a}.attention.value_length", "{a}.rope.freq_base", "{a}.attention.layer_norm_rms_epsilon", "general.file_type",
         "{a}.pooling_type"),
        "microsoft/BitNet utils/convert-bitnet-embedding-to-gguf.py", "since May 2026",
    ),
    Converter(
        "convert-llama", "a converter of llama.cpp for Llama models, or BitNet's copy of one", ("llama",),
        (*_HEAD, *_SIZES, "{a}.rope.freq_base", "{a}.attention.layer_norm_rms_epsilon", "general.file_type",
         "{a}.vocab_size", "{a}.rope.dimension_count", "tokenizer.ggml.model", "tokenizer.ggml.pre",
         "tokenizer.ggml.tokens"),
        "microsoft/BitNet utils/convert-hf-to-gguf-bitnet.py (LlamaModel)",
    ),
)  # fmt: skip

QUANTIZERS: Final[tuple[Quantizer, ...]] = (
    Quantizer(
        "llama-quantize", "llama-quantize of the BitNet fork of llama.cpp", ("stale",),
        ("interleave-128", "interleave-64", "rows-1x4"), "the largest absolute value", True,
        "microsoft/BitNet src/ggml-bitnet-mad.cpp", period="October 2024 to May 2026",
    ),
    Quantizer(
        "llama-quantize-threads", "llama-quantize with more than one thread, which damages its output", ("stale",),
        (), "one for each chunk of rows, in the wrong places", True, "microsoft/BitNet setup_env.py",
    ),
    Quantizer(
        "convert-hf", "convert-hf-to-gguf-bitnet.py --outtype i2_s", ("zero",), ("interleave-128",),
        "weight_scale of a packed checkpoint, else the first weight beyond 1e-6", False,
        "microsoft/BitNet utils/convert-hf-to-gguf-bitnet.py",
        architectures=("bitnet-b1.58",), period="since July 2026",
    ),
    Quantizer(
        "convert-embedding", "convert-bitnet-embedding-to-gguf.py", ("zero",), ("interleave-128",),
        "the mean absolute value", False, "microsoft/BitNet utils/convert-bitnet-embedding-to-gguf.py",
        architectures=("qwen3", "gemma3"), period="since May 2026",
    ),
    Quantizer(
        "i2s-spec", "this package: i2s new, convert, encode", ("zero",),
        tuple(name for name, layout in LAYOUTS.items() if layout.in_gguf), "as requested", None, "i2s-spec", "",
    ),
    Quantizer(
        "development-fork", "the quantizer of a development fork of 2026, in no released program", ("stale", "zero"),
        ("sequential-msb",), "the absolute value of the first weight that is not 0", None,
        "isHuangXin/bitnet_llama.cpp ggml/src/ggml-cpu/quants.c",
    ),
    Quantizer(
        "pre-release", "the quantizer before the release, June to August 2024", ("replicated", "zero"),
        ("sequential-msb",), "the last weight that is not 0, with its sign; later the largest absolute value", None,
        "Eddie-Wang1120/llama.cpp ggml-quants.c", "twos-complement", (31, 36),
    ),
    Quantizer(
        "t-mac", "a T-MAC converter (type \"I2\")", ("replicated",), (), "the first weight that is not 0, with its sign",
        None, "microsoft/BitNet utils/convert.py", "offset-2", (30, 36),
    ),
)  # fmt: skip

QUANTIZER: Final = {quantizer.name: quantizer for quantizer in QUANTIZERS}
