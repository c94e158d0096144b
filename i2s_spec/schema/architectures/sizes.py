"""This module declares the sizes of a model, from which the shapes of its tensors follow."""

from __future__ import annotations

from typing import Any, NamedTuple


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

    one: int = 1

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

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

    def at(self, layer: int) -> Hyperparameters:
        """The sizes of one layer."""
        changed: dict[str, Any] = {name: values[layer] for name, values in self.varying}
        return self._replace(**changed) if changed else self
