"""The architectures of ternary models: their keys and tensors, and the sizes of a model.

`ARCHITECTURES` maps names to what a file of that architecture must and may hold. A new architecture is added by one
entry, whose tensors and keys are those of others (`inventory`, `keys`) or declared in the entry. The name is the value of
`general.architecture`, except for two that share a value: `qwen3` is an embedding model, `qwen3-lm` a language model, and
files of both say `qwen3`. `declared_architecture` tells which one a file has.

    >>> bitnet = ARCHITECTURES["bitnet"]
    >>> bitnet.key("rope.freq_base").default
    10000.0
    >>> from i2s_spec.schema.architectures import Hyperparameters
    >>> h = Hyperparameters(layers=1, embd=256, ff=512, heads=4, heads_kv=2, head_dim=64, value_dim=64, vocab=320)
    >>> [(name, ne) for name, ne, spec in bitnet.tensors(h)][1:3]
    [('blk.0.attn_norm.weight', (256,)), ('blk.0.ffn_down.weight', (512, 256))]

`Hyperparameters` are the sizes from which the shapes of tensors and the forward pass follow; `hyperparameters` derives
them from the metadata of a file:

    >>> from i2s_spec.schema.architectures import ARCHITECTURES
    >>> metadata = {"general.architecture": "bitnet", "bitnet.block_count": 2, "bitnet.embedding_length": 256,
    ...     "bitnet.feed_forward_length": 512, "bitnet.attention.head_count": 4, "bitnet.context_length": 512,
    ...     "bitnet.attention.layer_norm_rms_epsilon": 1e-5, "bitnet.vocab_size": 320}
    >>> h = hyperparameters(metadata)
    >>> h.head_dim, h.heads_kv, h.rope_base
    (64, 4, 10000.0)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, NoReturn

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import inventory, keys
from i2s_spec.schema.inventory import TensorSpec
from i2s_spec.schema.keys import (
    ARCHITECTURE_UNKNOWN,
    HEAD_GROUPS,
    HEADS,
    KEY_MISSING,
    KEY_TYPE,
    KEY_VALUE,
    LAYER_ARRAY,
    MAX_LAYERS,
    REQUIRED,
    ROPE_DIMENSIONS,
    Key,
)


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
    (`model/text/chat.py`)
    :param small_vocab: tokens of a small vocabulary: all bytes, the special tokens and some words
    :param embedding_model: whether its result is a vector, not logits
    :param is_bitnet: whether every file of it is a BitNet model, whatever its tensors
    :param one_model: whether all its files are of one published model, so that its properties can be required of them
    :param renamed_to: the name that replaced it
    :param other_activation: the architecture with the same tensors and another activation
    :param takes_activation: whether models with another activation have this architecture, and state it in
    hidden_activation
    :param gains_less_one: whether checkpoints store w for gains of 1 + w in all norms outside projections
    :param local_period: with a window of attention and no pattern, the last of so many layers is global, with 0 none; None
    if its graph has no local layers
    :param delta_nets: whether some of its layers have a gated delta net in place of attention
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
        local_period: int | None = None,
        delta_nets: bool = False,
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
        self.local_period = local_period
        self.delta_nets = delta_nets
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
        """Return the key by its name without the prefix, such as `rope.freq_base`."""
        return self.keys[f"{self.prefix}.{name}"]

    @cached_property
    def with_beside(self) -> tuple[TensorSpec, ...]:
        """Its tensors, each weight followed by what may stand beside it (`inventory.BESIDE`)."""
        return tuple(each for spec in self.inventory for each in (spec, *inventory.beside(spec)))

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
        """Yield the declarations of these tensors in the same order, with their layers."""
        specs = [spec for spec in self.with_beside if spec.when not in ("dense", "experts") or h.has(spec.when)]
        in_layers = [spec for spec in specs if spec.per_layer]
        first = specs.index(in_layers[0])
        for spec in specs[:first]:
            yield spec, None
        for layer in sorted(range(h.layers), key=str):
            for spec in in_layers:
                if h.has(spec.when, layer):
                    yield spec, layer
        for spec in specs[first:]:
            if not spec.per_layer:
                yield spec, None

    def match(self, name: str) -> tuple[TensorSpec, int | None] | None:
        """Return the declaration that matches a tensor's name, and its layer; None for a name that the architecture
        does not have."""
        if self._specs is None:
            self._specs = {spec.name: spec for spec in self.with_beside}
        if name in self._specs and "{" not in name:
            return self._specs[name], None
        found = _in_layer(name)
        spec = self._specs.get("blk.{i}." + found[1]) if found else None
        return (spec, found[0]) if found and spec else None

    def __repr__(self) -> str:
        return f"<Architecture {self.name!r}>"


def _in_layer(name: str) -> tuple[int, str] | None:
    """Return the layer in a tensor's name and the rest of the name; the number has no leading zero and at most nine
    digits.

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
        own_keys=keys.LOCAL_LAYERS,
        rope_base=1e6,
        eps=(1e-6,),
        embedding_model=True,
        pre_tokenizer="qwen2",
        local_period=0,
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
        own_keys=keys.LOCAL_LAYERS,
        rope_base=1e6,
        eps=(1e-6,),
        pre_tokenizer="qwen2",
        local_period=0,
    ),
    Architecture(
        "gemma3",
        "bitnet-embedding-270m",
        inventory.GEMMA3,
        activation="gelu",
        rope="neox",
        head="none",
        whole_head_rope=False,
        own_keys=(*keys.LOCAL_LAYERS, keys.LOCAL_ROPE),
        eps=(1e-6,),
        tokenizer="llama",
        embedding_model=True,
        small_vocab=320,
        gains_less_one=True,
        local_period=6,
    ),
    Architecture(
        "qwen35",
        "Qwen3.5 and its successors, such as Bonsai 2",
        inventory.QWEN35,
        activation="silu",
        rope="neox",
        head="untied",
        whole_head_rope=False,
        own_keys=keys.DELTA_NETS,
        rope_base=1e7,
        eps=(1e-6,),
        pre_tokenizer="qwen35",
        delta_nets=True,
    ),
)

#: Every declared architecture by its name; the most common first.
ARCHITECTURES: Final[Mapping[str, Architecture]] = {architecture.name: architecture for architecture in _ALL}

#: The declared values of `general.architecture`, in the same order.
PREFIXES: Final = tuple(dict.fromkeys(architecture.prefix for architecture in _ALL))


def declared_architecture(value: object, keys: Container[str] = (), tensors: Iterable[str] = ()) -> Architecture | None:
    """Return the architecture of a file; None if it is not declared.

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


def names_a_bitnet(name: str) -> bool:
    """Whether a value of `general.architecture` belongs to the BitNet lineage, declared or not."""
    return name.startswith("bitnet")


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isascii() and char.isalnum())


def resembles(name: str, others: Iterable[str] = ()) -> str | None:
    """Return the architecture that a name seems to mean: one that differs only in case and punctuation, or a bitnet.

    :param others: names besides the declared ones

    >>> resembles("QWEN-2", ["qwen2", "qwen2moe"]), resembles("BitNet"), resembles("foo")
    ('qwen2', 'bitnet', None)
    """
    plain = _plain(name)
    for known in (*PREFIXES, *sorted(others)):
        if plain == _plain(known):
            return known
    return "bitnet-b1.58" if names_a_bitnet(plain) else None


# --- sizes -----------------------------------------------------------------------------------------------------------


class DeltaNet:
    """The sizes of gated delta nets, and the layers that have one.

    :param layers: of each layer, whether it has one
    :param kernel: tokens that the convolution sees
    :param width: of a head; states are squares of this side
    :param key_heads: heads of queries and keys
    :param value_heads: heads of values, each with a state; a multiple of `key_heads`
    """

    __slots__ = ("kernel", "key_heads", "layers", "value_heads", "width")

    def __init__(self, layers: tuple[bool, ...], kernel: int, width: int, key_heads: int, value_heads: int) -> None:
        self.layers, self.kernel, self.width = layers, kernel, width
        self.key_heads, self.value_heads = key_heads, value_heads

    def _sizes(self) -> tuple[Any, ...]:
        return self.layers, self.kernel, self.width, self.key_heads, self.value_heads

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeltaNet) and self._sizes() == other._sizes()

    def __hash__(self) -> int:
        return hash(self._sizes())

    @property
    def keys(self) -> int:
        """Columns of all queries, and of all keys."""
        return self.key_heads * self.width

    @property
    def values(self) -> int:
        """Columns of all values."""
        return self.value_heads * self.width

    @property
    def channels(self) -> int:
        """Columns of queries, keys and values, which pass through the convolution."""
        return 2 * self.keys + self.values


#: For models without gated delta nets.
_NO_NET: Final = DeltaNet((), 0, 0, 0, 0)


class Hyperparameters(NamedTuple):
    """The sizes of a model, with the terms of chapter 3; shapes and the forward pass are computed from them.

    If layers differ (feed_forward_length or head counts given as arrays), the fields are those of layer 0, and `at(i)`
    gives those of layer i.
    """

    layers: int
    embd: int
    ff: int
    heads: int
    heads_kv: int
    #: Width of a query or key head, and of a value head.
    head_dim: int
    value_dim: int
    vocab: int
    context: int = 0
    rope_base: float = 10000.0
    #: Dimensions of a head that are rotated; 0 stands for all of them.
    rope_dims: int = 0
    eps: float = 1e-5
    experts: int = 0
    varying: tuple[tuple[str, tuple[int, ...]], ...] = ()
    net: DeltaNet = _NO_NET
    #: How many of the last layers draft further tokens, and are not part of the graph.
    nextn: int = 0

    one: int = 1

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def gated_q_width(self) -> int:
        return 2 * self.q_width

    @property
    def k_width(self) -> int:
        return self.heads_kv * self.head_dim

    @property
    def v_width(self) -> int:
        return self.heads_kv * self.value_dim

    @property
    def o_width(self) -> int:
        return self.heads * self.value_dim

    @property
    def rope_pairs(self) -> int:
        return (self.rope_dims or self.head_dim) // 2

    @property
    def two_embd(self) -> int:
        return 2 * self.embd

    @property
    def net_kernel(self) -> int:
        return self.net.kernel

    @property
    def net_width(self) -> int:
        return self.net.width

    @property
    def net_value_heads(self) -> int:
        return self.net.value_heads

    @property
    def net_values(self) -> int:
        return self.net.values

    @property
    def net_channels(self) -> int:
        return self.net.channels

    @property
    def computed(self) -> int:
        """The number of layers that the graph has."""
        return self.layers - self.nextn

    def has(self, when: str, layer: int | None = None) -> bool:
        """Whether a tensor exists that is restricted to some files or layers (`TensorSpec.when`)."""
        if when in ("dense", "experts"):
            return (when == "experts") == (self.experts > 0)
        if not when or layer is None or layer >= self.layers:
            return True
        if when == "nextn":
            return layer >= self.computed
        delta = layer < self.computed and layer < len(self.net.layers) and self.net.layers[layer]
        return delta == (when == "delta")

    def at(self, layer: int) -> Hyperparameters:
        """Return the sizes of one layer."""
        changed: dict[str, Any] = {name: values[layer] for name, values in self.varying}
        return self._replace(**changed) if changed else self


# --- hyperparameters -------------------------------------------------------------------------------------------------
# The numbers that decide shapes and the forward pass, from the metadata.


def architecture_of(metadata: Mapping[str, Any], tensors: Iterable[str] = ()) -> Architecture:
    """Return the architecture that metadata names.

    :param tensors: names of the file's tensors, which distinguish two architectures with the same name
    :raises FormatError: M001 if it is not declared, M002 or M003 if there is none
    """
    name = _Reader(metadata).get("general.architecture", (str,), "text")
    architecture = declared_architecture(name, metadata, tensors)
    if architecture is None:
        want = TrustedText(f"those that are declared here are {', '.join(PREFIXES)}")
        raise FormatError(ARCHITECTURE_UNKNOWN, Span(0, 0, "general.architecture"), got=name, want=want)
    return architecture


def hyperparameters(
    metadata: Mapping[str, Any], tokens: int | None = None, architecture: Architecture | None = None
) -> Hyperparameters:
    """Return the sizes of a model, from its metadata alone, with the defaults of loaders (chapter 3).

    :param metadata: keys to values as `File.metadata` gives them; nothing else of the file is used
    :param tokens: how many tokens the file lists, if the caller knows it; else they are counted if needed
    :param architecture: the architecture whose keys are read; by default the one that the metadata names
    :raises FormatError: M001 to M008 for values that are missing, of a wrong type, or impossible: a count of 0, more
    layers than loaders support, arrays of a wrong length, heads that do not divide the hidden state
    """
    architecture = architecture_of(metadata) if architecture is None else architecture
    file = _Reader(metadata, architecture)
    layers = file.count("block_count", MAX_LAYERS)
    embd = file.count("embedding_length")
    ff = file.per_layer("feed_forward_length", layers)
    heads = file.per_layer("attention.head_count", layers)
    heads_kv = file.per_layer("attention.head_count_kv", layers, heads)
    for many, few in zip(heads, heads_kv, strict=True):
        if many % few:
            raise FormatError(HEAD_GROUPS, file.span(file.key("attention.head_count_kv")), got=few, want=many)

    names = ("attention.key_length", "attention.value_length")
    head_dim, value_dim = (file.count(name) if file.has(name) else embd // heads[0] for name in names)
    if embd % heads[0] and not all(map(file.has, names)):
        raise FormatError(HEADS, file.span(file.key("attention.head_count")), got=heads[0], want=embd)
    rope_dims = file.count("rope.dimension_count") if file.has("rope.dimension_count") else head_dim
    if architecture.whole_head_rope and rope_dims != head_dim:
        raise FormatError(ROPE_DIMENSIONS, file.span(file.key("rope.dimension_count")), got=rope_dims, want=head_dim)

    nextn = file.count("nextn_predict_layers", layers - 1, least=0) if architecture.delta_nets else 0
    each = {"ff": ff, "heads": heads, "heads_kv": heads_kv}
    return Hyperparameters(
        layers=layers,
        embd=embd,
        ff=ff[0],
        heads=heads[0],
        heads_kv=heads_kv[0],
        head_dim=head_dim,
        value_dim=value_dim,
        vocab=_vocabulary(file, tokens),
        context=file.count("context_length"),
        rope_base=file.positive("rope.freq_base"),
        rope_dims=rope_dims,
        eps=file.positive("attention.layer_norm_rms_epsilon"),
        experts=file.count("expert_count", least=0) if file.has("expert_count") else 0,
        varying=tuple((name, values) for name, values in each.items() if len(set(values)) > 1),
        net=_delta_net(file, layers - nextn, layers) if architecture.delta_nets else _NO_NET,
        nextn=nextn,
    )


def _delta_net(file: _Reader, computed: int, layers: int) -> DeltaNet:
    """Return the sizes of gated delta nets, and the layers that have one.

    :param computed: layers of the graph
    """
    kernel, width, keys, values, inner = (
        file.count(f"ssm.{name}")
        for name in ("conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size")
    )
    if values % keys:
        file.refuse("ssm.time_step_rank", values, f"a multiple of ssm.group_count, which is {keys:,}")
    if inner != width * values:
        file.refuse("ssm.inner_size", inner, f"{width * values:,}, which is ssm.state_size * ssm.time_step_rank")
    named = "attention.recurrent_layers"
    if file.has(named):
        kinds = tuple(map(bool, file.array(named, layers)))
    else:
        interval = file.count("full_attention_interval")
        kinds = tuple((layer + 1) % interval > 0 for layer in range(layers))
    return DeltaNet(tuple(kind and layer < computed for layer, kind in enumerate(kinds)), kernel, width, keys, values)


def local_layers(
    metadata: Mapping[str, Any], architecture: Architecture, layers: int
) -> tuple[int, tuple[bool, ...], float | None] | None:
    """Return the layers in which a token sees only the last ones (clause 9.5); None if a model has none.

    :param metadata: keys to values, as for `hyperparameters`
    :returns: how many tokens are seen, whether each layer is one, and the base of the rotation in them where it is one of
        their own
    :raises FormatError: M003 to M005 for values of a wrong type or length
    """
    file = _Reader(metadata, architecture)
    window, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
    if architecture.local_period is None or not file.has(window) or not (tokens := file.count(window, least=0)):
        return None
    if file.has(pattern) and not isinstance(metadata[file.key(pattern)], int):
        local = tuple(map(bool, file.array(pattern, layers)))
    else:
        period = file.count(pattern, least=0) if file.has(pattern) else architecture.local_period
        local = tuple(not period or layer % period < period - 1 for layer in range(layers))
    own_base = file.key("rope.freq_base_swa") in architecture.keys
    return (tokens, local, file.positive("rope.freq_base_swa") if own_base else None) if any(local) else None


def _vocabulary(file: _Reader, tokens: int | None) -> int:
    """Return the number of tokens: the value of the key, else the number of listed tokens."""
    if file.has("vocab_size"):
        return file.count("vocab_size")
    if tokens is None:
        tokens = len(_Reader(file.metadata).get("tokenizer.ggml.tokens", (list, tuple), "an array of text"))
    return tokens


class _Reader:
    """Values from metadata, each checked before it is used for sizes."""

    def __init__(self, metadata: Mapping[str, Any], architecture: Architecture | None = None) -> None:
        self.metadata = metadata
        self.architecture = architecture

    def key(self, name: str) -> str:
        return f"{self.architecture.prefix}.{name}" if self.architecture else name

    def has(self, name: str) -> bool:
        return self.key(name) in self.metadata

    def span(self, key: str) -> Span:
        """Return the span of the value, if the mapping knows it (`File.metadata` does, a dict does not)."""
        entry = getattr(self.metadata, "entry", None)
        if entry is None or key not in self.metadata:
            return Span(0, 0, key)
        span: Span = entry(key).value_span
        return span

    def get(self, name: str, kinds: tuple[type, ...], want: str) -> Any:
        key = self.key(name)
        if key not in self.metadata:
            declared = self.architecture.keys[key] if self.architecture else None
            if declared is None or declared.need == REQUIRED or declared.default is None:
                raise FormatError(KEY_MISSING, self.span(key), key=TrustedText(key), by=TrustedText(""))
            return declared.default
        value = self.metadata[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise FormatError(KEY_TYPE, self.span(key), got=_kind(value), want=TrustedText(want), key=TrustedText(key))
        return value

    def refuse(self, name: str, got: Any, want: str) -> NoReturn:
        key = self.key(name)
        raise FormatError(KEY_VALUE, self.span(key), got=got, want=TrustedText(want), key=TrustedText(key))

    def count(self, name: str, most: int | None = None, least: int = 1) -> int:
        value: int = self.get(name, (int,), "a whole number")
        if value < least:
            self.refuse(name, value, f"at least {least}")
        if most is not None and value > most:
            self.refuse(name, value, f"at most {most}")
        return value

    def positive(self, name: str) -> float:
        value = float(self.get(name, (int, float), "a number"))
        if not 0 < value < float("inf"):
            self.refuse(name, value, "a finite number above 0")
        return value

    def per_layer(self, name: str, layers: int, otherwise: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One number for each layer, from a number for all layers or an array."""
        if otherwise is not None and not self.has(name):
            return otherwise
        value = self.get(name, (object,), "a whole number or an array of them")
        if isinstance(value, int) and not isinstance(value, bool):
            return (self.count(name),) * layers
        values = self.array(name, layers)
        for item in values:
            if isinstance(item, bool) or item < 1:
                self.refuse(name, TrustedText(f"an array that holds {_kind(item)}"), "whole numbers of at least 1")
        return values

    def array(self, name: str, layers: int) -> tuple[int, ...]:
        """One number or truth value for each layer, from an array."""
        value = self.get(name, (object,), "a whole number or an array of them")
        if isinstance(value, str) or not hasattr(value, "__len__"):
            return (self.get(name, (int,), "a whole number or an array of them"),)  # this raises an error
        if len(value) != layers:
            key = self.key(name)
            raise FormatError(LAYER_ARRAY, self.span(key), got=len(value), want=layers, key=TrustedText(key))
        values = tuple(value.tolist() if hasattr(value, "tolist") else value)  # NumPy's integers become Python's
        for item in values:
            if not isinstance(item, int):
                self.refuse(name, TrustedText(f"an array that holds {_kind(item)}"), "whole numbers of at least 1")
        return values


def _kind(value: Any) -> TrustedText:
    """Return the kind of a value, in words, for a message."""
    if isinstance(value, bool):
        return TrustedText("a truth value")
    if isinstance(value, int | float):
        return TrustedText(str(value))
    return TrustedText("text" if isinstance(value, str) else "an array")
