"""This module makes the random tensor data of synthetic models: the same bytes for the same seed, on every machine.

It uses only the raw output of PCG64, whose stream NumPy guarantees, with integer arithmetic or tables; each tensor has
its own stream, derived from the seed and its name, so its bytes do not depend on the rest of the model. Data comes in
chunks of at most a MiB, each made on demand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.blocks_native import quantize as quantize_blocks
from i2s_spec.codec.quantize import quantize
from i2s_spec.codec.reference import write_tail
from i2s_spec.codec.rotation import fold
from i2s_spec.codec.shape import to_bfloat16
from i2s_spec.convert import made_up_vocabulary
from i2s_spec.convert.made_up_vocabulary import SyntheticVocabulary
from i2s_spec.errors import quote
from i2s_spec.schema.architectures import AXIS, KEYS, PREFIX, TRANSFORM, VERSION, Rotation
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.keys import Key, file_type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.schema.architectures import Placed
    from i2s_spec.schema.inventory import TensorSpec

#: Bytes of a chunk.
CHUNK: Final = 1 << 20

#: The upper half of 256 quantiles of the normal distribution, at (i + 0.5) / 256, as float16 bits.
_QUANTILES: Final = bytes.fromhex(
    "1d03 2385 2644 2863 29a4 2ae6 2c13 2cb4 2d55 2df6 2e97 2f39 2fda 303e 308f 30e0 3131 3183 31d4 3226 3278 "
    "32c9 331c 336e 33c0 340a 3433 345d 3486 34b0 34da 3504 352e 3559 3583 35ae 35d9 3603 362f 365a 3685 36b1 "
    "36dd 3709 3735 3762 378f 37bb 37e9 380b 3822 3839 3850 3867 387f 3896 38ae 38c6 38de 38f6 390e 3927 3940 "
    "3959 3972 398b 39a5 39bf 39d9 39f3 3a0e 3a29 3a44 3a5f 3a7b 3a97 3ab3 3ad0 3aed 3b0a 3b28 3b46 3b64 3b83 "
    "3ba3 3bc3 3be3 3c02 3c13 3c24 3c35 3c46 3c58 3c6b 3c7d 3c90 3ca4 3cb8 3ccc 3ce1 3cf6 3d0c 3d23 3d3a 3d52 "
    "3d6a 3d84 3d9e 3dba 3dd6 3df4 3e13 3e33 3e56 3e7a 3ea0 3ec9 3ef5 3f24 3f58 3f91 3fd0 400c 4037 406a 40ac "
    "410a 41c5"
)

_POSITIVE: Final = np.frombuffer(_QUANTILES, dtype=">u2").astype(np.uint16)
#: All 256 quantiles, indexed by a random byte. The highest bit is the sign.
NORMAL: Final = np.concatenate([_POSITIVE[::-1] | np.uint16(0x8000), _POSITIVE])

#: The low bit of each of the 32 two-bit fields of a word.
_LOW_BITS: Final = np.uint64(0x5555555555555555)


def random_bytes(seed: int, stream: str, count: int) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """`count` random bytes in chunks.

    :param seed: any number from 0 on
    :param stream: the name of the stream; another name gives other bytes
    """
    source = np.random.PCG64([seed, crc32(stream.encode())])
    while count > 0:
        size = min(count, CHUNK)
        words = source.random_raw(-(-size // 8)).astype("<u8", copy=False)
        yield words.view(np.uint8)[:size]
        count -= size


def ternary(
    seed: int, name: str, ne: tuple[int, ...], byte_order: ByteOrder = "little"
) -> Iterator[bytes | memoryview]:
    """The bytes of a canonical I2_S tensor with a quarter of its weights -1, a half 0 and a quarter +1.

    The scale is sqrt(2 / ne0), which keeps the magnitude of activations, changed by up to 6 % so that tensors have
    different scales.

    :param ne: shape in ggml's order; ne0 is a multiple of 128
    """
    for chunk in random_bytes(seed, name, math.prod(ne) // CODES_PER_BYTE):
        # A field of two random bits becomes the number of ones in it: 0, 1, 1 or 2, which is -1, 0, 0 or +1.
        words = chunk.view(np.uint64)
        yield ((words & _LOW_BITS) + (words >> np.uint64(1) & _LOW_BITS)).view(np.uint8).data
    (byte,) = next(random_bytes(seed, f"{name} scale", 1)).tolist()
    scale = math.sqrt(2 / ne[0]) * (1 + (byte - 128) / 2048)
    yield write_tail(scale, CANONICAL.tail, byte_order)


def halvings_of(width: int) -> int:
    """How often the numbers of a table are halved, so that logits have a realistic spread.

    A logit is the product of two rows of this width, one of them with unit variance, so its deviation is that of the
    table times sqrt(width): 1/2 to 1 with 2**-halvings, the next power of two below 1 / sqrt(width). The embedding is
    then small compared with the output of layers, and a tied head does not repeat each token.
    """
    return (max(width - 1, 0).bit_length() + 1) // 2


def quantiles(halvings: int = 0) -> np.ndarray[Any, np.dtype[np.float16]]:
    """`NORMAL` as numbers, halved this often; exact until they are too small for float16, rounded from there on."""
    return (NORMAL.view(np.float16).astype(np.float32) * np.float32(2.0**-halvings)).astype(np.float16)


def normal_halves(
    seed: int, name: str, count: int, halvings: int = 0, byte_order: ByteOrder = "little"
) -> Iterator[memoryview]:
    """The bytes of `count` normally distributed float16 numbers with a deviation of 2**-halvings."""
    table = quantiles(halvings).astype(order_prefix(byte_order) + "f2")
    for chunk in random_bytes(seed, name, count):
        yield table[chunk].view(np.uint8).data


def near_one(
    seed: int, name: str, count: int, type: str, doublings: int = 0, byte_order: ByteOrder = "little"
) -> Iterator[memoryview]:
    """The bytes of `count` numbers between 7/8 and 9/8, doubled this often, in F32 or F16, which hold them exactly."""
    dtype = np.dtype({"F32": "f4", "F16": "f2"}[type]).newbyteorder(order_prefix(byte_order))
    for chunk in random_bytes(seed, name, count):
        gains = 1 + (chunk.astype(np.int16) - 128) / np.float32(1024)
        yield (gains * np.float32(2**doublings)).astype(dtype).view(np.uint8).data


# --- weight kinds ----------------------------------------------------------------------------------------------------
# Decides the types of the weights of a synthetic model, and whether a rotation is folded into them.

#: Types that projections can have, the usual one first.
FLOATS: Final = ("F32", "F16", "BF16")
TYPES: Final = ("I2_S", *GROUP_LAYOUTS, *FLOATS)

#: The block of the published rotated models, and the largest block here.
BLOCK: Final = 1024


class WeightKinds:
    """The types of a model's tensors, and its rotation once the tensors are known.

    :param type: the type of the projections, one of `TYPES`. With F32, nothing in the file is rounded: tables are F32
    as well
    :param seed: the seed of the signs of a rotation; None for no rotation
    :raises ValueError: for another type
    """

    def __init__(self, type: str = TYPES[0], seed: int | None = None) -> None:
        if type not in TYPES:
            raise ValueError(f"{quote(type)} is not a type for projections; there are: {', '.join(TYPES)}")
        self.type = type
        self.seed = seed
        self.rotation: Rotation | None = None

    def grown(self, usual: Size, chosen: dict[str, Any]) -> Size:
        """The sizes of a recipe with the chosen changes; the widths of the recipe grow to whole blocks.

        :raises ValueError: for a chosen width that is not a multiple of the type's block
        """
        block = GROUP_LAYOUTS[self.type].block if self.type in GROUP_LAYOUTS else 1
        for name in ("embd", "ff"):
            if chosen.get(name, block) % block:
                raise ValueError(f"{name} is {chosen[name]:,}; rows of {self.type} must be multiples of {block}")
        widths = {name: -(-getattr(usual, name) // block) * block for name in ("embd", "ff")}
        return usual._replace(**{**widths, **chosen})

    def type_of(self, spec: TensorSpec) -> str:
        """The type of a tensor."""
        if spec.usual == "I2_S":
            return self.type
        return "F32" if self.type == "F32" and spec.role in ("embedding", "head") else spec.usual

    def resolve(self, tensors: Iterable[Placed]) -> int:
        """Choose the rotation of a model with these tensors; returns its general.file_type.

        All projections are rotated, and embedding and head if they are separate: version 1 of the keys cannot describe
        a table that is both.
        """
        if self.seed is not None:
            tensors = list(tensors)
            both = [each for each in tensors if each.spec.role in ("embedding", "head")]
            tables = [each for each in both if each.spec.role == "embedding"] if len(both) > 1 else []
            heads = [each for each in both if each.spec.role == "head"] if tables else []
            folded = [each for each in tensors if each.spec.role == "projection"] + heads
            self.rotation = _rotation(self.seed, folded, tables)
        number = file_type_of(self.type.removesuffix("_G128"))
        assert number is not None
        return number

    def rotation_keys(self) -> dict[Key, Any]:
        """The keys of the rotation, in the order of their declaration, with their values."""
        rotation = self.rotation
        if rotation is None:
            return {}
        found = {
            "version": VERSION,
            "block_size": rotation.block,
            "transform": TRANSFORM,
            "axis": AXIS,
            "sign_mode": "explicit",
            "weight_names": rotation.weights,
            "inverse_weight_names": rotation.tables,
            "sign_widths": tuple(rotation.signs),
            "sign_values": tuple(sign for signs in rotation.signs.values() for sign in signs),
        }
        return {key: found[name] for key in KEYS if found.get(name := key.name.removeprefix(PREFIX))}


def _rotation(seed: int, folded: list[Placed], tables: list[Placed]) -> Rotation:
    """A rotation with the largest block that all rows allow, and random signs for every width."""
    import numpy as np

    widths = sorted({each.ne[0] for each in (*folded, *tables)})
    most = gcd(*widths)
    signs = {}
    for width in widths:
        bits = np.random.PCG64([seed, crc32(f"signs {width}".encode())]).random_raw(width) & np.uint64(1)
        signs[width] = tuple((1 - 2 * bits.astype(np.int64)).tolist())
    names = [each.name for each in folded]
    return Rotation(min(BLOCK, most & -most), tuple(names), tuple(each.name for each in tables), signs)


# --- typed weights ---------------------------------------------------------------------------------------------------
# The random projections of synthetic models in any type, rotated or not.
#
# The weights are those that `random_weights.ternary` makes as I2_S. In a type with a scale for each group, every group
# gets its own scale, up to 12 % from that of the tensor, so that a reader that uses one scale for all is found to be
# wrong. Rotated weights (clause 3.8) are folded in float32, like a converter does with a checkpoint, and then quantized
# with the type's own quantizer: unless the type is a float, they differ from the original weights.


def projection(
    seed: int, name: str, ne: tuple[int, ...], type: str, rotation: Rotation | None, byte_order: ByteOrder = "little"
) -> Iterator[bytes | memoryview]:
    """The bytes of a projection.

    :param ne: shape in ggml's order
    :param type: one of `weight_kinds.TYPES`
    :param rotation: the rotation that may be folded into the weights of this name
    """
    folded = rotation if rotation is not None and rotation.rotates(name) else None
    if type == "I2_S" and folded is None:
        yield from ternary(seed, name, ne, byte_order)
        return
    shape = ne[::-1]
    trits, scale = native.unpack(b"".join(ternary(seed, name, ne)), shape)
    if folded is None and type in GROUP_LAYOUTS:
        yield blocks_native.pack(trits, _scales(seed, name, shape, type, float(scale)), type, byte_order=byte_order)
        return
    weights = trits * np.float32(scale)
    if folded is not None:
        weights = fold(weights, folded.block, folded.signs_of(ne[0]))
    if type in GROUP_LAYOUTS:
        yield quantize_blocks(weights, type, byte_order=byte_order)
    elif type == "I2_S":
        yield quantize(weights, "embedding-mean", byte_order=byte_order)
    else:
        yield _floats(weights, type, byte_order)


def table(
    seed: int,
    name: str,
    ne: tuple[int, ...],
    type: str,
    rotation: Rotation | None,
    halvings: int = 0,
    byte_order: ByteOrder = "little",
) -> Iterator[bytes]:
    """The bytes of an embedding table or head, normally distributed, in F32 or F16, with rotated rows if requested.

    The deviation is 2**-halvings. A row h is stored as z = H (s h), so that s (H z) is h again; the rows of a head are
    folded in the same way.
    """
    bits = np.concatenate(list(random_bytes(seed, name, prod(ne))))
    rows = quantiles(halvings)[bits].astype(np.float32).reshape(ne[::-1])
    if rotation is not None and (rotation.rotates(name) or name in rotation.tables):
        rows = fold(rows, rotation.block, rotation.signs_of(ne[0]))
    yield _floats(rows, type, byte_order)


def _scales(seed: int, name: str, shape: tuple[int, ...], type: str, scale: float) -> NDArray[Any]:
    """The scale of each group, in the float type that the type uses."""
    tensor = blocks_of(shape, type)
    bits = np.concatenate(list(random_bytes(seed, f"{name} groups", tensor.groups)))
    each = np.float32(scale) * (1 + (bits.astype(np.float32) - 128) / 1024)
    return each.astype(np.float16 if tensor.layout.scale.type == "F16" else np.float32)


def _floats(weights: NDArray[np.float32], type: str, byte_order: ByteOrder) -> bytes:
    order = order_prefix(byte_order)
    if type == "BF16":
        return to_bfloat16(weights).astype(f"{order}u2").tobytes()
    return weights.astype(f"{order}{'f4' if type == 'F32' else 'f2'}").tobytes()


# --- recipes ---------------------------------------------------------------------------------------------------------
# Declares how the real files of each architecture are made: the keys in their order, and usual sizes.
#
# The order of keys is that of the converters that wrote the files; types and meanings are the schema's.


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

_gemma_pieces = partial(made_up_vocabulary.sentence_pieces, special=made_up_vocabulary.GEMMA_SPECIAL)

_PRE: Final = (("tokenizer.ggml.pre", "tokenizer.ggml.model"),)
_VERSION: Final = (("general.quantization_version", "general.file_type"),)

_B158: Final = Recipe(
    _B158_KEYS,
    Size(2, 128, 256, 4, 2, 384, 512),
    made_up_vocabulary.byte_level,
    500000.0,
    1e-5,
    "gpt2",
    "llama-bpe",
    _PRE,
)

#: One for each architecture; the default sizes keep every file under 200 KB.
RECIPES: Final = {
    "bitnet-b1.58": _B158,
    "bitnet-25": _B158,
    "bitnet": Recipe(
        _BITNET_KEYS, Size(2, 128, 256, 4, 2, 384, 512), made_up_vocabulary.sentence_pieces, 10000.0, 1e-5, "llama"
    ),
    "llama": Recipe(
        _LLAMA_KEYS, Size(2, 128, 128, 4, 2, 272, 512), made_up_vocabulary.byte_level, 500000.0, 1e-5, "gpt2", "llama-bpe"
    ),
    "qwen3": Recipe(
        _QWEN3_KEYS, Size(2, 128, 256, 4, 2, 320, 512), made_up_vocabulary.byte_level, 1e6, 1e-6, "gpt2", "qwen2", _VERSION
    ),
    "qwen3-lm": Recipe(
        _QWEN3_LM_KEYS, Size(2, 128, 256, 4, 2, 320, 512), made_up_vocabulary.byte_level, 1e6, 1e-6, "gpt2", "qwen2"
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
        partial(made_up_vocabulary.byte_level, merges=280147, special=made_up_vocabulary.LLAMA3_SPECIAL),
        ("bitnet-b1.58", "bitnet-25"),
    ),
}

#: Pooling by the last token, with which the embedding models were trained (clause 3.6).
LAST_TOKEN: Final = 3

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)
