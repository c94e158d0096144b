"""This module derives the sizes of a model from its metadata: the numbers that decide shapes and the forward pass.

>>> from i2s_spec.schema.architectures.architecture import ARCHITECTURES
>>> metadata = {"general.architecture": "bitnet", "bitnet.block_count": 2, "bitnet.embedding_length": 256,
...     "bitnet.feed_forward_length": 512, "bitnet.attention.head_count": 4, "bitnet.context_length": 512,
...     "bitnet.attention.layer_norm_rms_epsilon": 1e-5, "bitnet.vocab_size": 320}
>>> h = hyperparameters(metadata)
>>> h.head_dim, h.heads_kv, h.rope_base
(64, 4, 10000.0)
"""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema.architectures.architecture import PREFIXES, Architecture, declared_architecture
from i2s_spec.schema.architectures.keys import (
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
)
from i2s_spec.schema.architectures.sizes import Hyperparameters


def architecture_of(metadata: Mapping[str, Any], tensors: Iterable[str] = ()) -> Architecture:
    """The architecture that metadata names.

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
    """The sizes of a model, from its metadata alone, with the defaults of loaders (chapter 3).

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
    )


def _vocabulary(file: "_Reader", tokens: int | None) -> int:
    """The number of tokens: the value of the key, else the number of listed tokens."""
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
        """The span of the value, if the mapping knows it (`File.metadata` does, a dict does not)."""
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
                raise FormatError(KEY_MISSING, self.span(key), key=TrustedText(key))
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
        if isinstance(value, str) or not hasattr(value, "__len__"):
            return (self.get(name, (int,), "a whole number or an array of them"),)  # this raises an error
        if len(value) != layers:
            key = self.key(name)
            raise FormatError(LAYER_ARRAY, self.span(key), got=len(value), want=layers, key=TrustedText(key))
        values = tuple(value.tolist() if hasattr(value, "tolist") else value)  # NumPy's integers become Python's
        for item in values:
            if not isinstance(item, int) or isinstance(item, bool) or item < 1:
                self.refuse(name, TrustedText(f"an array that holds {_kind(item)}"), "whole numbers of at least 1")
        return values


def _kind(value: Any) -> TrustedText:
    """The kind of a value, in words, for a message."""
    if isinstance(value, bool):
        return TrustedText("a truth value")
    if isinstance(value, int | float):
        return TrustedText(str(value))
    return TrustedText("text" if isinstance(value, str) else "an array")
