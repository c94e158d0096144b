"""This module is the network that is trained: BitNet b1.58 in PyTorch, with quantization in its forward pass.

It computes the graph of clause 9 of the specification, in float32: RMSNorm, ternary projections, rotary positions,
grouped queries, a gated feed-forward, a head that is the embedding table. The forward pass quantizes weights and
activations; the backward pass treats rounding as the identity (the straight-through estimator), as published for BitNet
b1.58:

    weights       w = clip(round(W / m), -1, 1), times m, the mean of |W| over the matrix
    activations   q = clip(round(x * s), -128, 127), divided by s = 127 / max |x|, for each token

The embedding table is rounded to multiples of 1/256 in the same way. F16 holds such numbers exactly, up to 8, so a file
can hold exactly the table that was trained.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

#: The table contains multiples of this.
EMBEDDING_STEP: Final = 1 / 256


class Sizes(NamedTuple):
    """The sizes of a network, and the two properties in which architectures differ here."""

    layers: int
    embd: int
    ff: int
    heads: int
    heads_kv: int
    vocab: int
    context: int
    #: Normalize what goes into attn_output and ffn_down (`bitnet-b1.58`), or not (`llama`).
    sub_norms: bool
    #: Rotate pairs (j, j + d/2), and squared ReLU; or pairs (2j, 2j + 1), and SiLU.
    half_pairs: bool
    rope_base: float = 500000.0
    eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.embd // self.heads


def straight_through(value: Tensor, rounded: Tensor) -> Tensor:
    """`rounded`, with the gradient of `value`."""
    return value + (rounded - value).detach()


def ternary(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The trits of a latent matrix as floats, and their scale."""
    scale = weight.abs().mean().clamp(min=1e-5)
    return (weight / scale).round().clamp(-1, 1), scale


def quantized_activations(x: Tensor) -> Tensor:
    """Activations rounded to 8 bits, with a scale for each token."""
    scale = 127 / x.detach().abs().amax(-1, keepdim=True).clamp(min=1e-5)
    return straight_through(x, (x.detach() * scale).round().clamp(-128, 127) / scale)


class TernaryLinear(nn.Module):
    """A projection whose weights are -1, 0 and +1 times one scale; expects quantized activations."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        trits, scale = ternary(self.weight.detach())
        return functional.linear(x, straight_through(self.weight, trits * scale))


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps), times a gain for each channel."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class Layer(nn.Module):
    """Attention and feed-forward; each adds to the residual stream."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        embd, ff, narrow = sizes.embd, sizes.ff, sizes.heads_kv * sizes.head_dim
        self.attn_norm = RMSNorm(embd, sizes.eps)
        self.attn_q = TernaryLinear(embd, embd)
        self.attn_k = TernaryLinear(embd, narrow)
        self.attn_v = TernaryLinear(embd, narrow)
        self.attn_output = TernaryLinear(embd, embd)
        self.ffn_norm = RMSNorm(embd, sizes.eps)
        self.ffn_gate = TernaryLinear(embd, ff)
        self.ffn_up = TernaryLinear(embd, ff)
        self.ffn_down = TernaryLinear(ff, embd)
        if sizes.sub_norms:
            self.attn_sub_norm = RMSNorm(embd, sizes.eps)
            self.ffn_sub_norm = RMSNorm(ff, sizes.eps)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = h + self._attention(quantized_activations(self.attn_norm(h)), cos, sin)
        return h + self._feed_forward(quantized_activations(self.ffn_norm(h)))

    def _attention(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        sizes = self.sizes
        batch, tokens, embd = x.shape

        def heads(projected: Tensor) -> Tensor:
            return projected.view(batch, tokens, -1, sizes.head_dim).transpose(1, 2)

        q = rotated(heads(self.attn_q(x)), cos, sin, sizes.half_pairs)
        k = rotated(heads(self.attn_k(x)), cos, sin, sizes.half_pairs)
        v = heads(self.attn_v(x))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        out = mixed.transpose(1, 2).reshape(batch, tokens, embd)
        if sizes.sub_norms:
            out = self.attn_sub_norm(out)
        return self.attn_output(quantized_activations(out))

    def _feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.ffn_gate(x), self.ffn_up(x)
        inner = (functional.relu(gate).square() if self.sizes.half_pairs else functional.silu(gate)) * up
        if self.sizes.sub_norms:
            inner = self.ffn_sub_norm(inner)
        return self.ffn_down(quantized_activations(inner))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, half_pairs: bool) -> Tensor:
    """Rotary positions: each pair of channels is rotated by an angle that grows with the position."""
    if half_pairs:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


class Network(nn.Module):
    """The whole model: tokens to logits."""

    cos: Tensor
    sin: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.token_embd = nn.Parameter(torch.randn(sizes.vocab, sizes.embd) * 0.1)
        self.blk = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.output_norm = RMSNorm(sizes.embd, sizes.eps)
        nn.init.constant_(self.output_norm.weight, 0.5)
        rates = sizes.rope_base ** -(torch.arange(0, sizes.head_dim, 2, dtype=torch.float64) / sizes.head_dim)
        angles = torch.arange(sizes.context, dtype=torch.float64)[:, None] * rates
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def table(self) -> Tensor:
        """The embedding table as stored in a file."""
        return (self.token_embd / EMBEDDING_STEP).round().clamp(-2048, 2048) * EMBEDDING_STEP

    def forward(self, ids: Tensor) -> Tensor:
        """Logits for every position.

        :param ids: (batch, tokens)
        """
        tokens = ids.shape[1]
        table = straight_through(self.token_embd, self.table())
        h = functional.embedding(ids, table)
        for layer in self.blk:
            h = layer(h, self.cos[:tokens], self.sin[:tokens])
        return functional.linear(self.output_norm(h), table)
