"""This module declares the known published I2_S files: name, size, digest, inventory, and how certain these are.

The size is a fingerprint: no two releases have the same one. It is not a proof, because a file can be changed without
changing its length; the SHA-256 is. Sizes that were computed from an inventory say so.

    >>> [release.name for release in by_size(1_187_801_280)]
    ['bitnet-b1.58-2B-4T']
"""

from __future__ import annotations

from typing import Final, NamedTuple

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


def by_size(size: int) -> tuple[Release, ...]:
    """The releases whose whole file has exactly this many bytes."""
    return tuple(release for release in RELEASES if release.size == size)
