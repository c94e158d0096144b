"""This module derives the values of keys that follow from the rest of the file, so that only one value can be right.

    general.quantization_version   2: ggml has had this version of its layouts for as long as GGUF has existed
    general.file_type              the number for the type of most projections
    {arch}.vocab_size              the number of listed tokens, if the embedding has as many rows
    {arch}.embedding_length        the width of the embedding
    {arch}.block_count             the layers that tensors are named after, counted from 0 without a gap
    {arch}.feed_forward_length     the rows of ffn_up, of each layer
    {arch}.attention.head_count    the rows of attn_q divided by the width of a head, if something else gives that width
                                   {arch}.attention.head_count_kv, key_length, value_length, rope.dimension_count:
                                   likewise, of attn_k, attn_v, attn_q_norm

Nothing in a file says what context_length, layer_norm_rms_epsilon, rope.freq_base, the ids of special tokens or
tokenizer.ggml.pre must be: other values load as well, and compute something else. They are never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from i2s_spec.errors import counted
from i2s_spec.linter.analysis.architecture_view import ArchitectureView

#: A number for all layers, or one for each.
Derived = int | tuple[int, ...]


class Undecided(Exception):
    """A value does not follow from the rest of the file; the text says why."""


def derived(known: ArchitectureView, name: str) -> Derived:
    """The only value of a key that agrees with the tensors of the file.

    :param name: the key, with the architecture in front
    :raises Undecided: if there is no such value, or more than one
    """
    rule = _RULES.get(name.removeprefix(f"{known.name}."))
    if not known.is_declared or rule is None:
        raise Undecided("nothing in the file says what it must be; the config.json that the model came with does")
    return rule(known)


def head_width(known: ArchitectureView) -> int:
    """The width of a query head, if a key or a norm of each head gives it."""
    stated = known.keys.own("attention.key_length")
    norm = known.present.get("blk.0.attn_q_norm.weight")
    if norm is not None and len(norm.ne) == 1:
        return norm.ne[0]
    if isinstance(stated, int) and stated > 0:
        return stated
    rope = known.keys.own("rope.dimension_count")
    if known.is_declared and known.model.whole_head_rope and isinstance(rope, int) and rope > 0:
        return rope
    raise Undecided("nothing in the file says how wide a head is")


def _rows(known: ArchitectureView, tensor: str) -> Iterator[int]:
    """The rows of a tensor in each layer."""
    for layer in range(_layers(known)):
        row = known.present.get(f"blk.{layer}.{tensor}.weight")
        if row is None or len(row.ne) != 2:
            raise Undecided(f"layer {layer} has no matrix {tensor}")
        yield row.ne[1]


def _one(values: Iterator[int]) -> Derived:
    """One number if all layers have the same, else one for each layer."""
    every = tuple(values)
    return every[0] if len(set(every)) == 1 else every


def _layers(known: ArchitectureView) -> int:
    if not known.layers or known.layers != set(range(len(known.layers))):
        raise Undecided("the layer numbers in the names of tensors have gaps")
    return len(known.layers)


def _width(known: ArchitectureView) -> int:
    embedding = known.present.get("token_embd.weight")
    norm = known.present.get("output_norm.weight")
    if embedding is None or len(embedding.ne) != 2 or (norm is not None and norm.ne != embedding.ne[:1]):
        raise Undecided("token_embd.weight and output_norm.weight have different widths")
    return embedding.ne[0]


def _tokens(known: ArchitectureView) -> int:
    embedding = known.present.get("token_embd.weight")
    if known.tokens is None or embedding is None or embedding.ne[1:] != (known.tokens,):
        raise Undecided("the number of tokens differs from the number of rows of token_embd.weight")
    return known.tokens


def _heads(tensor: str) -> Callable[[ArchitectureView], Derived]:
    def heads(known: ArchitectureView) -> Derived:
        return _one(_divided(known, tensor))

    return heads


def _divided(known: ArchitectureView, tensor: str) -> Iterator[int]:
    try:
        width = head_width(known)
    except Undecided:
        heads, embd = known.keys.own("attention.head_count"), known.keys.own("embedding_length")
        if tensor == "attn_q" or not isinstance(heads, int) or not isinstance(embd, int) or not heads or embd % heads:
            raise
        width = embd // heads
    for rows in _rows(known, tensor):
        if rows % width:
            raise Undecided(f"the {counted(rows, 'row')} of {tensor} are not whole heads of {width:,}")
        yield rows // width


def _value_width(known: ArchitectureView) -> Derived:
    heads = known.keys.own("attention.head_count_kv") or known.keys.own("attention.head_count")
    if not isinstance(heads, int) or heads < 1:
        raise Undecided("nothing in the file says how many value heads there are")
    widths = {rows / heads for rows in _rows(known, "attn_v")}
    if len(widths) != 1 or (width := widths.pop()) % 1:
        raise Undecided("the rows of attn_v are not whole heads")
    return int(width)


_RULES: Final[dict[str, Callable[[ArchitectureView], Derived]]] = {
    "block_count": _layers,
    "embedding_length": _width,
    "vocab_size": _tokens,
    "feed_forward_length": lambda known: _one(_rows(known, "ffn_up")),
    "attention.head_count": _heads("attn_q"),
    "attention.head_count_kv": _heads("attn_k"),
    "attention.key_length": head_width,
    "attention.value_length": _value_width,
    "rope.dimension_count": head_width,
}
