"""How the real files of each architecture are made: the keys in their order, usual sizes, and the types of the weights.

The order of keys is that of the converters that wrote the files; types and meanings are the schema's. `WeightKinds`
decides the types of the weights of a synthetic model, and whether a rotation is folded into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from i2s_spec.convert import made_up_vocabulary
from i2s_spec.convert.made_up_vocabulary import SyntheticVocabulary
from i2s_spec.errors import quote
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.keys import Key, file_type_of
from i2s_spec.schema.rotation import AXIS, KEYS, PREFIX, TRANSFORM, VERSION, Rotation

if TYPE_CHECKING:
    from i2s_spec.schema.architectures import Placed
    from i2s_spec.schema.inventory import TensorSpec


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
        """Return the keys in order, with or without those that published files lack."""
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

_QWEN35_KEYS: Final = (
    *_SIZES, "{arch}.rope.dimension_sections", "{arch}.rope.freq_base", "{arch}.attention.layer_norm_rms_epsilon",
    "{arch}.attention.key_length", "{arch}.attention.value_length", "general.file_type", "{arch}.ssm.conv_kernel",
    "{arch}.ssm.state_size", "{arch}.ssm.group_count", "{arch}.ssm.time_step_rank", "{arch}.ssm.inner_size",
    "{arch}.full_attention_interval", "{arch}.rope.dimension_count",
    *_QWEN3_LM_KEYS[_QWEN3_LM_KEYS.index("tokenizer.ggml.model") :],
)  # fmt: skip

_GEMMA3_KEYS: Final = (
    *_EMBEDDING_KEYS, "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
)  # fmt: skip

_gemma_pieces = partial(made_up_vocabulary.sentence_pieces, special=made_up_vocabulary.GEMMA_SPECIAL)

_PRE: Final = (("tokenizer.ggml.pre", "tokenizer.ggml.model"),)
#: The window of local layers, which BitNet's converter leaves out, and ik_llama.cpp requires of gemma3.
WINDOW: Final = "{arch}.attention.sliding_window"
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

#: In a model with delta nets, the last of so many layers has attention; shorter ones end with it.
INTERVAL: Final = 4
#: Tokens that the convolution of a delta net sees, and which part of a head of attention is rotated.
KERNEL: Final = 4
ROTATED: Final = 4

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
        _GEMMA3_KEYS, Size(2, 128, 256, 4, 1, 320, 512), _gemma_pieces, 10000.0, 1e-6, "llama",
        lacking=(*_VERSION, (WINDOW, "{arch}.attention.layer_norm_rms_epsilon")),
        multiplies_embedding=True,
    ),
    "qwen35": Recipe(
        _QWEN35_KEYS, Size(2, 128, 128, 4, 2, 272, 512), made_up_vocabulary.byte_level, 1e7, 1e-6, "gpt2", "qwen35"
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


# --- weight kinds ----------------------------------------------------------------------------------------------------

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
        """Return the sizes of a recipe with the chosen changes; the widths of the recipe grow to whole blocks.

        :raises ValueError: for a chosen width that is not a multiple of the type's block
        """
        block = GROUP_LAYOUTS[self.type].block if self.type in GROUP_LAYOUTS else 1
        for name in ("embd", "ff"):
            if chosen.get(name, block) % block:
                raise ValueError(f"{name} is {chosen[name]:,}; rows of {self.type} must be multiples of {block}")
        widths = {name: -(-getattr(usual, name) // block) * block for name in ("embd", "ff")}
        return usual._replace(**{**widths, **chosen})

    def type_of(self, spec: TensorSpec) -> str:
        """Return the type of a tensor."""
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
        """Return the keys of the rotation, in the order of their declaration, with their values."""
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
    """Return a rotation with the largest block that all rows allow, and random signs for every width."""
    import numpy as np

    widths = sorted({each.ne[0] for each in (*folded, *tables)})
    most = gcd(*widths)
    signs = {}
    for width in widths:
        bits = np.random.PCG64([seed, crc32(f"signs {width}".encode())]).random_raw(width) & np.uint64(1)
        signs[width] = tuple((1 - 2 * bits.astype(np.int64)).tolist())
    names = [each.name for each in folded]
    return Rotation(min(BLOCK, most & -most), tuple(names), tuple(each.name for each in tables), signs)
