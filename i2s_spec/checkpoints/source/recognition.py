"""This module recognizes the family of a checkpoint by config.json and its tensors, never by a repository's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.source.families import BY_FAMILY, FAMILIES, WEIGHT_SCALE, Condition, Family
from i2s_spec.convert.hugging_face.packed import Convention, checked_convention
from i2s_spec.convert.hugging_face.safetensors import Stored
from i2s_spec.errors import counted, quote

_MODES = ("online", "offline")


class Described(Protocol):
    """The facts that decide the family of a checkpoint: a `CheckpointFolder`, or the parts of one that were read."""

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def tensors(self) -> Mapping[str, Stored]: ...


class Recognized(NamedTuple):
    """A family, and the choices within it for this checkpoint.

    :param why: what decided, in words
    :param prefix: the prefix of tensor names: `model.` or nothing
    :param convention: whether `weight_scale` multiplies or divides
    :param mode: `quantization_mode` in config.json; empty if it is missing
    """

    family: Family
    why: str
    prefix: str
    convention: Convention
    mode: str


def recognize(folder: Described, family: str | None = None, weight_scale: str | None = None) -> Recognized:
    """The family of a checkpoint.

    :param family: the name of a family, which is then used without recognition
    :param weight_scale: `multiply` or `divide`, which overrides config.json
    :raises ValueError: for names that do not exist
    :raises FormatError: H104 for a checkpoint of no known family, and a quantization that is not BitNet's
    """
    prefix = "model." if any(name.startswith("model.") for name in folder.tensors) else ""
    mode, convention = quantization_of(folder, weight_scale)
    if weight_scale is not None:
        convention = checked_convention(weight_scale)
    if family is not None:
        if family not in BY_FAMILY:
            raise ValueError(f"unknown family {quote(family)}; there are: {', '.join(BY_FAMILY)}")
        return Recognized(BY_FAMILY[family], "chosen by hand", prefix, convention, mode)
    found = family_of(folder)
    if found is None:
        raise refused(f"its family is not known. Seen: {_seen(folder)}. Known: {_known()}. Use --family to choose one")
    return Recognized(found, ", ".join(map(str, found.when)), prefix, convention, mode)


def family_of(folder: Described) -> Family | None:
    """The first family whose conditions hold; None if there is none."""
    prefix = "model." if any(name.startswith("model.") for name in folder.tensors) else ""
    return next((each for each in FAMILIES if all(_holds(folder, when, prefix) for when in each.when)), None)


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """A value of config.json, with dots between levels; None if there is none."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _holds(folder: Described, condition: Condition, prefix: str) -> bool:
    if condition.key == "layer tensor":
        return any(f"{prefix}layers.0.{name}" in folder.tensors for name in condition.values)
    found = value_at(folder.config, condition.key)
    values = found if isinstance(found, list) else [found]
    return any(value in condition.values for value in values if isinstance(value, str | int))


def quantization_of(folder: Described, weight_scale: str | None) -> tuple[str, Convention]:
    """`quantization_mode`, and whether `weight_scale` multiplies or divides.

    :param weight_scale: the choice made by hand
    :raises FormatError: H104 for a quantization that is not BitNet's, and if nothing says what `weight_scale` does
    """
    about = folder.config.get("quantization_config")
    if about is None:
        if weight_scale is None and any(each.dtype == "U8" for each in folder.tensors.values()):
            raise refused(
                "it has packed matrices, and config.json has no quantization_config, which says whether weight_scale "
                "multiplies or divides. Use --weight-scale to state it"
            )
        return "", "divide"
    if not isinstance(about, dict):
        raise refused("quantization_config in config.json is not an object")
    method, linear, mode = about.get("quant_method"), about.get("linear_class"), about.get("quantization_mode")
    if method != "bitnet":
        raise refused(f"quantization_config says quant_method {quote(str(method))}; only bitnet is supported")
    if linear is not None and not (isinstance(linear, str) and linear in WEIGHT_SCALE):
        known = ", ".join(WEIGHT_SCALE)
        raise refused(f"quantization_config says linear_class {quote(str(linear))}; known are {known}")
    if mode is not None and mode not in _MODES:
        known = ", ".join(_MODES)
        raise refused(f"quantization_config says quantization_mode {quote(str(mode))}; known are {known}")
    return mode or "", checked_convention(WEIGHT_SCALE[linear or "bitlinear"])


def _seen(folder: Described) -> str:
    types = sorted({each.dtype for each in folder.tensors.values()})
    config = [
        f"{key} {quote(str(folder.config[key]))}" for key in ("architectures", "model_type") if key in folder.config
    ]
    return ", ".join([*config, f"{counted(len(folder.tensors), 'tensor')} in {', '.join(map(quote, types[:4]))}"])


def _known() -> str:
    return "; ".join(f"{family.name} ({', '.join(map(str, family.when))})" for family in FAMILIES)
