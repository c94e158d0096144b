"""This module declares the architectures of ternary models: their keys, their tensors, and the properties of their graph.

`ARCHITECTURES` maps names to what a file of that architecture must and may hold. A new architecture is added by one
entry, whose tensors and keys are those of others (`inventory`, `keys`) or declared in the entry. The name is the value of
`general.architecture`, except for two that share a value: `qwen3` is an embedding model, `qwen3-lm` a language model, and
files of both say `qwen3`. `declared_architecture` tells which one a file has.

    >>> bitnet = ARCHITECTURES["bitnet"]
    >>> bitnet.key("rope.freq_base").default
    10000.0
    >>> from i2s_spec.schema.architectures.sizes import Hyperparameters
    >>> h = Hyperparameters(layers=1, embd=256, ff=512, heads=4, heads_kv=2, head_dim=64, value_dim=64, vocab=320)
    >>> [(name, ne) for name, ne, spec in bitnet.tensors(h)][1:3]
    [('blk.0.attn_norm.weight', (256,)), ('blk.0.ffn_down.weight', (512, 256))]
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.schema.architectures import inventory, keys
from i2s_spec.schema.architectures.inventory import TensorSpec
from i2s_spec.schema.architectures.keys import Key

if TYPE_CHECKING:
    from i2s_spec.schema.architectures.sizes import Hyperparameters


class Placed(NamedTuple):
    """A tensor that a file with given hyperparameters has or may have: name, shape in ggml's order, declaration."""

    name: str
    ne: tuple[int, ...]
    spec: TensorSpec


class Architecture:
    """The contents of a file of one architecture, and the properties of its graph.

    :param name: its name here, which is the prefix unless two architectures share it
    :param prefix: the value of `general.architecture`, with which its keys begin
    :param inventory: its tensors, in the order of real files
    :param own_keys: its keys besides those of all architectures
    :param activation: of the feed-forward's gate: `relu2`, `silu` or `gelu`
    :param rope: the arrangement of rotated pairs in a head: `neox` (halves) or `norm` (neighbors, rows permuted at
    conversion)
    :param head: `tied` (always the embedding), `untied` (output.weight, else the embedding) or `none`
    :param whole_head_rope: whether loaders refuse rope.dimension_count unless it is the width of a head
    :param rope_base: the base of the published models, if it differs from the default of loaders for a missing
    rope.freq_base
    :param eps: the epsilon of the published models, according to their sources
    :param tokenizer: the value of `tokenizer.ggml.model` in the files of the published models
    :param pre_tokenizer: the pre-tokenizer of the published models, if the vocabulary is byte-level
    :param chat_format: the format of the published models, if the vocabulary has its special tokens
    (`model/text/chat_template.py`)
    :param small_vocab: tokens of a small vocabulary: all bytes, the special tokens and some words
    :param embedding_model: whether its result is a vector, not logits
    :param is_bitnet: whether every file of it is a BitNet model, whatever its tensors
    :param one_model: whether all its files are of one published model, so that its properties can be required of them
    :param renamed_to: the name that replaced it
    :param other_activation: the architecture with the same tensors and another activation
    :param takes_activation: whether models with another activation have this architecture, and state it in
    hidden_activation
    :param gains_less_one: whether checkpoints store w for gains of 1 + w
    """

    def __init__(
        self,
        name: str,
        title: str,
        tensors: tuple[TensorSpec, ...],
        *,
        activation: str,
        rope: str,
        head: str,
        whole_head_rope: bool,
        prefix: str | None = None,
        own_keys: tuple[Key, ...] = (),
        rope_base: float | None = None,
        eps: tuple[float, ...] = (1e-5,),
        tokenizer: str = "gpt2",
        pre_tokenizer: str | None = None,
        chat_format: str | None = None,
        small_vocab: int = 272,
        embedding_model: bool = False,
        is_bitnet: bool = False,
        one_model: bool = False,
        renamed_to: str | None = None,
        other_activation: str | None = None,
        takes_activation: bool = False,
        gains_less_one: bool = False,
    ) -> None:
        self.name = name
        self.prefix = name if prefix is None else prefix
        self.title = title
        self.inventory = tensors
        self.own_keys = own_keys
        self.activation = activation
        self.rope = rope
        self.head = head
        self.whole_head_rope = whole_head_rope
        self.rope_base = rope_base
        self.eps = eps
        self.tokenizer = tokenizer
        self.pre_tokenizer = pre_tokenizer
        self.chat_format = chat_format
        self.small_vocab = small_vocab
        self.embedding_model = embedding_model
        self.is_bitnet = is_bitnet
        self.one_model = one_model
        self.renamed_to = renamed_to
        self.other_activation = other_activation
        self.takes_activation = takes_activation
        self.gains_less_one = gains_less_one
        self._keys: dict[str, Key] | None = None
        self._specs: dict[str, TensorSpec] | None = None

    @property
    def has_input_norms(self) -> bool:
        """Whether each projection may have a norm before its matrix, which upstream llama.cpp does not know."""
        return any(spec.name.endswith("_norm_in.weight") for spec in self.inventory)

    @property
    def keys(self) -> Mapping[str, Key]:
        """Every declared key by its name in a file of this architecture."""
        if self._keys is None:
            embedding = keys.EMBEDDING_MODEL if self.embedding_model else ()
            groups = (keys.GENERAL, keys.MODEL, self.own_keys, embedding, keys.TOKENIZER)
            self._keys = {key.name: key for group in groups for key in (key.of(self.prefix) for key in group)}
        return self._keys

    def key(self, name: str) -> Key:
        """The key by its name without the prefix, such as `rope.freq_base`."""
        return self.keys[f"{self.prefix}.{name}"]

    def tensors(self, h: Hyperparameters) -> Iterator[Placed]:
        """Every tensor that a file with these hyperparameters must or may have, in the order of real files.

        Layers come in the order of their numbers as text (0, 1, 10, 11, 2), as converters write them.
        """
        sizes, of_layer = h, None
        for spec, layer in self.specs(h):
            if layer != of_layer:
                sizes, of_layer = h if layer is None else h.at(layer), layer
            yield placed(spec, sizes, layer)

    def specs(self, h: Hyperparameters) -> Iterator[tuple[TensorSpec, int | None]]:
        """The declarations of these tensors in the same order, with their layers."""
        absent = "experts" if h.experts == 0 else "dense"
        specs = [spec for spec in self.inventory if spec.when != absent]
        in_layers = [spec for spec in specs if spec.per_layer]
        first = specs.index(in_layers[0])
        for spec in specs[:first]:
            yield spec, None
        for layer in sorted(range(h.layers), key=str):
            for spec in in_layers:
                yield spec, layer
        for spec in specs[first:]:
            if not spec.per_layer:
                yield spec, None

    def match(self, name: str) -> tuple[TensorSpec, int | None] | None:
        """The declaration that matches a tensor's name, and its layer; None for a name that the architecture does not
        have."""
        if self._specs is None:
            self._specs = {spec.name: spec for spec in self.inventory}
        if name in self._specs and "{" not in name:
            return self._specs[name], None
        found = _in_layer(name)
        spec = self._specs.get("blk.{i}." + found[1]) if found else None
        return (spec, found[0]) if found and spec else None

    def __repr__(self) -> str:
        return f"<Architecture {self.name!r}>"


def _in_layer(name: str) -> tuple[int, str] | None:
    """The layer in a tensor's name and the rest of the name; the number has no leading zero and at most nine digits.

    >>> _in_layer("blk.10.attn_q.weight"), _in_layer("blk.01.attn_q.weight"), _in_layer("blk.0.")
    ((10, 'attn_q.weight'), None, None)
    """
    number, _, rest = name.removeprefix("blk.").partition(".")
    good = number.isascii() and number.isdigit() and len(number) <= 9 and (number[0] != "0" or number == "0")
    return (int(number), rest) if good and rest and name.startswith("blk.") else None


def placed(spec: TensorSpec, h: Hyperparameters, layer: int | None = None) -> Placed:
    """One tensor with its actual name and shape; `h` are the sizes of its layer."""
    name = spec.name if layer is None else spec.name.replace("{i}", str(layer))
    return Placed(name, tuple(getattr(h, size) for size in spec.ne), spec)


def _bitnet_2b(name: str, title: str, renamed_to: str | None = None) -> Architecture:
    """BitNet b1.58 2B-4T under one of the two names that converters have given it."""
    return Architecture(
        name,
        title,
        inventory.BITNET_B158,
        activation="relu2",
        rope="neox",
        head="tied",
        whole_head_rope=True,
        rope_base=500000.0,
        pre_tokenizer="llama-bpe",
        chat_format="bitnet",
        is_bitnet=True,
        one_model=True,
        renamed_to=renamed_to,
        other_activation="bitnet",
    )


_ALL: Final = (
    _bitnet_2b("bitnet-b1.58", "BitNet b1.58 2B-4T"),
    _bitnet_2b("bitnet-25", "BitNet b1.58 2B-4T, files made before 22 April 2025", renamed_to="bitnet-b1.58"),
    Architecture(
        "bitnet",
        "bitnet_b1_58-large and -3B",
        inventory.BITNET,
        activation="silu",
        rope="neox",
        head="tied",
        whole_head_rope=False,
        eps=(1e-6, 1e-5),
        tokenizer="llama",
        pre_tokenizer="llama-bpe",
        is_bitnet=True,
        other_activation="bitnet-b1.58",
        takes_activation=True,
    ),
    Architecture(
        "llama",
        "Llama3-8B-1.58, Falcon3-1.58bit, Falcon-E",
        inventory.LLAMA,
        activation="silu",
        rope="norm",
        head="untied",
        whole_head_rope=True,
        rope_base=500000.0,
        eps=(1e-5, 1e-6),
        pre_tokenizer="llama-bpe",
    ),
    Architecture(
        "qwen3",
        "bitnet-embedding-0.6b",
        inventory.QWEN3,
        activation="silu",
        rope="neox",
        head="none",
        whole_head_rope=False,
        rope_base=1e6,
        eps=(1e-6,),
        embedding_model=True,
        pre_tokenizer="qwen2",
    ),
    Architecture(
        "qwen3-lm",
        "Qwen3 as a language model, such as Ternary-Bonsai",
        inventory.QWEN3_LM,
        activation="silu",
        rope="neox",
        head="untied",
        whole_head_rope=False,
        prefix="qwen3",
        rope_base=1e6,
        eps=(1e-6,),
        pre_tokenizer="qwen2",
    ),
    Architecture(
        "gemma3",
        "bitnet-embedding-270m",
        inventory.GEMMA3,
        activation="gelu",
        rope="neox",
        head="none",
        whole_head_rope=False,
        eps=(1e-6,),
        tokenizer="llama",
        embedding_model=True,
        small_vocab=320,
        gains_less_one=True,
    ),
)

#: Every declared architecture by its name; the most common first.
ARCHITECTURES: Final[Mapping[str, Architecture]] = {architecture.name: architecture for architecture in _ALL}

#: The declared values of `general.architecture`, in the same order.
PREFIXES: Final = tuple(dict.fromkeys(architecture.prefix for architecture in _ALL))


def declared_architecture(value: object, keys: Container[str] = (), tensors: Iterable[str] = ()) -> Architecture | None:
    """The architecture of a file; None if it is not declared.

    If an embedding model and a language model share the value, a file is an embedding model if it states the pooling or
    has a norm before a projection (`*_norm_in.weight`), which only BitNet's embedding models have.

    :param value: the value of `general.architecture`
    :param keys: the names of the file's keys, as far as they are known
    :param tensors: the names of its tensors, as far as they are known; used only if the keys do not decide

    >>> declared_architecture("qwen3"), declared_architecture("qwen3", {"qwen3.pooling_type"})
    (<Architecture 'qwen3-lm'>, <Architecture 'qwen3'>)
    """
    sharing = [architecture for architecture in _ALL if architecture.prefix == value]
    if len(sharing) < 2:
        return sharing[0] if sharing else None
    embeds = f"{value}.pooling_type" in keys or any(name.endswith("_norm_in.weight") for name in tensors)
    return next(architecture for architecture in sharing if architecture.embedding_model == embeds)


#: Further architectures that loaders of llama.cpp's family know; they are not declared here.
ELSEWHERE: Final = frozenset((
    "afmoe", "apertus", "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2", "bert", "bloom",
    "chameleon", "chatglm", "clip", "codeshell", "cogvlm", "cohere2", "command-r", "controlvector", "dbrx", "deci",
    "deepseek", "deepseek2", "deepseek2-ocr", "dots1", "dream", "ernie4_5", "ernie4_5-moe", "eurobert", "exaone",
    "exaone-moe", "exaone4", "falcon", "falcon-h1", "gemma", "gemma-embedding", "gemma2", "gemma3n", "gemma4",
    "glm-dsa", "glm4", "glm4moe", "gpt-oss", "gpt2", "gptj", "gptneox", "granite", "granitehybrid", "granitemoe",
    "grok", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "internlm2", "jais", "jais2", "jamba",
    "jina-bert-v2", "jina-bert-v3", "kimi-linear", "lfm2", "lfm2moe", "llada", "llada-moe", "llama-embed", "llama4",
    "maincoder", "mamba", "mamba2", "mimo2", "minicpm", "minicpm3", "minimax-m2", "mistral3", "mistral4",
    "modern-bert", "mpt", "nemotron", "nemotron_h", "nemotron_h_moe", "neo-bert", "nomic-bert", "nomic-bert-moe",
    "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo",
    "plamo2", "plamo3", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen35", "qwen35moe", "qwen3moe",
    "qwen3next", "qwen3vl", "qwen3vlmoe", "refact", "rnd1", "rwkv6", "rwkv6qwen2", "rwkv7", "seed_oss",
    "smallthinker", "smollm3", "stablelm", "starcoder", "starcoder2", "step35", "t5", "t5encoder",
    "wavtokenizer-dec", "whisper", "xverse",
))  # fmt: skip


def names_a_bitnet(name: str) -> bool:
    """Whether a value of `general.architecture` belongs to the BitNet lineage, declared or not."""
    return name.startswith("bitnet")


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isascii() and char.isalnum())


def resembles(name: str) -> str | None:
    """The declared architecture that a name seems to mean: one that differs only in case and punctuation, or a bitnet."""
    plain = _plain(name)
    for declared in PREFIXES:
        if plain == _plain(declared):
            return declared
    return "bitnet-b1.58" if names_a_bitnet(plain) else None
