"""The known published I2_S files, and the programs that have written such files.

A release is declared with its name, size, digest and inventory, and how certain these are. The size is a fingerprint:
no two releases have the same one. It is not a proof, because a file can be changed without changing its length; the
SHA-256 is. Sizes that were computed from an inventory say so.

    >>> [release.name for release in RELEASES if release.size == 1_187_801_280]
    ['bitnet-b1.58-2B-4T']

Programs are declared by the marks that they leave, because no file names them: a `Converter` writes keys and the tensor
table, a `Quantizer` the payloads. `inspect` compares these marks with a file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from i2s_spec.schema.dialect import LAYOUTS

#: How the size of a release is known.
CHECKED: Final = "published, and equal to what its inventory adds up to"
REPORTED: Final = "reported by people who had the file"
DERIVED: Final = "computed from its inventory, without the vocabulary"


class Release(NamedTuple):
    """One published file, or one kind of file that converters make from a published model.

    `size` is the size of the whole file; `data` that of its data section, if the header's size is not known. `sha256`
    may be the beginning of the digest. `types` are the numbers of tensors of each type. Unknown values are None or
    empty. `dialect` says how its tensors are packed, `by` which program quantized it.
    """

    name: str
    title: str
    architecture: str
    size: int | None
    data: int | None
    sha256: str
    tensors: int
    types: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]
    basis: str
    source: str
    dialect: str = "interleave-128"
    by: str = "llama-quantize"
    note: str = ""

    @property
    def model(self) -> dict[str, int]:
        """Sizes of the model, by the names of metadata keys: block_count, embedding_length, ..."""
        return dict(self.sizes)


def _sizes(layers: int, embd: int, ff: int, heads: int, heads_kv: int) -> tuple[tuple[str, int], ...]:
    names = (
        "block_count",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
    )
    return tuple(zip(names, (layers, embd, ff, heads, heads_kv), strict=True))


_2B4T: Final = _sizes(30, 2560, 6912, 20, 5)

RELEASES: Final[tuple[Release, ...]] = (
    Release(
        "bitnet-b1.58-2B-4T", "microsoft/bitnet-b1.58-2B-4T-gguf, ggml-model-i2_s.gguf, since 22 April 2025",
        "bitnet-b1.58", 1_187_801_280, 1_179_449_920,
        "4221b252fdd5fd25e15847adfeb5ee88886506ba50b8a34548374492884c2162", 332,
        (("F32", 121), ("F16", 1), ("I2_S", 210)), _2B4T, CHECKED, "microsoft/BitNet#226",
    ),
    Release(
        "bitnet-25-2B-4T", "the same model as it was published until 22 April 2025", "bitnet-25", 1_844_472_032,
        1_836_120_640, "", 333, (("F32", 121), ("F16", 2), ("I2_S", 210)), _2B4T, CHECKED, "ikawrakow/ik_llama.cpp#388",
        note="one tensor more, output.weight, which no graph uses; runtimes of today may not know its architecture's name",
    ),
    Release(
        "bitnet-b1.58-2B-4T-embed-q6_k", "the same model with a Q6_K embedding, as setup_env.py --quant-embd makes it",
        "bitnet-b1.58", 800_468_160, 792_116_800, "492e4d2a", 332, (("F32", 121), ("Q6_K", 1), ("I2_S", 210)), _2B4T,
        CHECKED, "microsoft/BitNet#226",
    ),
    Release(
        "bitnet_b1_58-large", "1bitLLM/bitnet_b1_58-large, 0.7 B, quantized by llama-quantize", "bitnet", None,
        269_026_560, "", 266, (("F32", 97), ("F16", 1), ("I2_S", 168)), _sizes(24, 1536, 4096, 16, 16), DERIVED,
        "microsoft/BitNet README",
    ),
    Release(
        "bitnet_b1_58-3B", "1bitLLM/bitnet_b1_58-3B quantized by llama-quantize: rows of 8,640 are not whole blocks",
        "bitnet", None, 916_098_400, "", 288, (("F32", 105), ("Q8_0", 1), ("I2_S", 182)),
        _sizes(26, 3200, 8640, 32, 32), CHECKED, "ikawrakow/ik_llama.cpp discussion 95",
        note="its feed-forward is wrong in every runtime that reads row by row",
    ),
    Release(
        "Llama3-8B-1.58-100B-tokens", "HF1BitLLM/Llama3-8B-1.58-100B-tokens, quantized by llama-quantize", "llama", None,
        3_847_248_896, "", 291, (("F32", 65), ("F16", 2), ("I2_S", 224)), _sizes(32, 4096, 14336, 32, 8), REPORTED,
        "microsoft/BitNet#195",
    ),
    Release(
        "Falcon3-7B-Instruct-1.58bit", "tiiuae/Falcon3-7B-Instruct-1.58bit, quantized by llama-quantize", "llama", None,
        3_273_836_672, "", 255, (("F32", 57), ("F16", 2), ("I2_S", 196)), _sizes(28, 3072, 23040, 12, 4), REPORTED,
        "ikawrakow/ik_llama.cpp#168",
    ),
    Release(
        "bitnet-embedding-0.6b", "microsoft's bitnet-embedding-0.6b, by the embedding converter", "qwen3", None,
        421_976_192, "", 506, (("F16", 310), ("I2_S", 196)), _sizes(28, 1024, 3072, 16, 8), DERIVED,
        "microsoft/BitNet docs/bitnet-embeddings-i2s-guide.md", by="convert-embedding",
    ),
    Release(
        "bitnet-embedding-270m", "microsoft's bitnet-embedding-270m, by the embedding converter", "gemma3", None,
        360_953_536, "", 362, (("F16", 236), ("I2_S", 126)), _sizes(18, 640, 2048, 4, 1), DERIVED,
        "microsoft/BitNet docs/bitnet-embeddings-i2s-guide.md", by="convert-embedding",
    ),
)  # fmt: skip


# --- producers -------------------------------------------------------------------------------------------------------
# One program may be converter and quantizer. The declarations hold for any model: the order of its keys, keys that it
# always or never writes, the bytes that it leaves after the scale, the rule of the scale, the layouts that it packs.


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


class LastWriter(NamedTuple):
    """A program that wrote a file last, by the marks that it leaves in any file.

    A file has its marks if it has all `keys`, or one that begins with one of `beginnings`, or tensors of a type of the
    `family`; `is_sorted` says that all keys come in the order of their names, too. A mark is weak if others leave it.
    """

    name: str
    title: str
    source: str
    keys: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    family: str = ""
    version: int | None = None
    is_sorted: bool = False
    is_weak: bool = False


#: The last to write a file first: what a later program leaves of an earlier one's marks says nothing against it.
WRITERS: Final[tuple[LastWriter, ...]] = (
    LastWriter("ollama", "Ollama", "github.com/ollama/ollama 0.17.4 fs/ggml/gguf.go", ("general.parameter_count",),
           ("{a}.split.", "{a}.quantize.imatrix."), is_sorted=True),
    LastWriter("tritium", "Tritium", "tritium-format 1.1.0-rc.2", beginnings=("tritium.",)),
    LastWriter("ik_llama.cpp", "llama-quantize of ik_llama.cpp, or another program that writes its types",
           "ikawrakow/ik_llama.cpp@8337e4c:ggml/src/ggml.c", family="ik_llama.cpp"),
    LastWriter("llama-quantize", "llama-quantize of llama.cpp", "ggml-org/llama.cpp", beginnings=("quantize.imatrix.",)),
    LastWriter("llama.cpp", "the converter of llama.cpp, or one that writes the same keys, such as i2s import",
           "ggml-org/llama.cpp convert_hf_to_gguf.py",
           ("general.type", "general.size_label", "general.quantization_version")),
    LastWriter("candle", "candle, or a program of 2023", "candle-core 0.11.1 src/quantized/gguf_file.rs", version=2,
           is_weak=True),
)  # fmt: skip


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
    Quantizer(
        "neogpu", "NeoGPU's converter, with a form of its own", (), ("sequential-lsb",),
        "weight_scale of a packed checkpoint, in a tensor NAME_scale", False,
        "anjaustin/neogpu@fea9d50 tools/convert_bitnet_to_gguf.py", architectures=("bitnet-b1.58",), period="March 2026",
    ),
    Quantizer(
        "skainet", "SKaiNET's converter, with a form of its own", ("zero",), ("sequential-lsb",), "as in its source", None,
        "SKaiNET-developers/SKaiNET@075bb2e I2sAotConverter", period="since August 2026",
    ),
)  # fmt: skip

QUANTIZER: Final = {quantizer.name: quantizer for quantizer in QUANTIZERS}
