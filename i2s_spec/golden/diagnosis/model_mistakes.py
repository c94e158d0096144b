"""This module changes a model in one way: its reading of the weights, its numbers, one of its operations.

A change is a function that takes a model and returns the changed model, or None where the change makes no difference to it.
The functions here are such changes, or make one from their arguments. `mistakes` lists them with their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from i2s_spec.golden.diagnosis import operation_mistakes as wrong
from i2s_spec.golden.diagnosis.linear_mistakes import BlocksOf32, WrongProjection
from i2s_spec.model.numeric_profile import NUMERIC_PROFILES
from i2s_spec.model.reference.operations import Operations
from i2s_spec.model.weights import ModelWeights
from i2s_spec.schema.dialect import LAYOUTS, Dialect

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model


def read_as(name: str) -> Callable[[Model], Model | None]:
    """Weights read in another layout."""

    def apply(model: Model) -> Model | None:
        own = model.weights.dialect
        if own.layout.name == name or not _ternary(model):
            return None
        other = Dialect(LAYOUTS[name], own.code_map, own.tail)
        return model.replace(weights=ModelWeights(model.file, other))

    return apply


def _ternary(model: Model) -> bool:
    return any(tensor.type is not None and tensor.type.name == "I2_S" for tensor in model.file.tensors.values())


def operations(kind: type[Operations]) -> Callable[[Model], Model | None]:
    """The same model, computed by other operations."""
    ternary = issubclass(kind, WrongProjection)
    home = f"{kind.__module__}:{kind.__name__}"

    def apply(model: Model) -> Model | None:
        if ternary and not _ternary(model):
            return None
        return model.replace(numerics=model.numerics.replace(operations=home))

    return apply


# Numbers.


def numbers(**changes: Any) -> Callable[[Model], Model | None]:
    """Another choice of the profile."""

    def apply(model: Model) -> Model | None:
        other = model.numerics.replace(**changes)
        return None if replace(other, name=model.numerics.name) == model.numerics else model.replace(numerics=other)

    return apply


def quantizer_of(name: str) -> Callable[[Model], Model | None]:
    """Another profile's way to make integers of activations."""
    rule = NUMERIC_PROFILES[name].quantizer

    def apply(model: Model) -> Model | None:
        if model.numerics.quantizer == rule or (rule.groups == "blocks-256" and _odd_rows(model)):
            return None
        return model.replace(numerics=model.numerics.replace(quantizer=rule))

    return apply


def _odd_rows(model: Model) -> bool:
    rows = (model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear")
    return any(columns % 256 for columns in rows)


def no_quantizer(model: Model) -> Model | None:
    """Activations that stay floats."""
    if model.numerics.quantizer.groups == "none":
        return None
    return model.replace(numerics=model.numerics.replace(quantizer={"groups": "none"}))


def blocks_of(kind: type[BlocksOf32]) -> Callable[[Model], Model | None]:
    """An activation scale for every few columns; where rows are that short, there is no difference."""

    def apply(model: Model) -> Model | None:
        sides = {model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear"}
        return operations(kind)(model) if max(sides, default=0) > kind.size else None

    return apply


def blocks_of_q8_0(model: Model) -> Model | None:
    """Activations as Q8_0, in blocks of 32: of I2_S files, and of those of Q2_0, which llama.cpp multiplies with it."""
    types = {tensor.type.name for tensor in model.file.tensors.values() if tensor.type is not None}
    if "I2_S" in types:
        return operations(BlocksOf32)(model)
    return quantizer_of("llamacpp-2026")(model) if "Q2_0" in types else None


def heads_in_turn(model: Model) -> Model | None:
    """Query heads that meet the wrong key heads."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    if all(h.heads_kv in (1, h.heads) for h in layers):
        return None
    return operations(wrong.HeadsInTurn)(model)


def first_head(model: Model) -> Model | None:
    """Query heads that all meet the first key head."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    return None if all(h.heads_kv == 1 for h in layers) else operations(wrong.FirstHead)(model)
