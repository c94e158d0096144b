"""This module makes the vectors of computations: quantizing weights and activations, integer products, BitLinear."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import native
from i2s_spec.codec.blocks import block_quantize
from i2s_spec.codec.quantization.quantize import AlreadyTernaryWarning, NotTernaryWarning, quantize
from i2s_spec.codec.remainder.dropped import UndefinedElementsWarning
from i2s_spec.conformance.vectors import chance
from i2s_spec.conformance.vectors.draft import Draft
from i2s_spec.conformance.vectors.feature_flags import LAYOUT_NAMES
from i2s_spec.conformance.vectors.group_payloads import TYPE_NAMES
from i2s_spec.conformance.vectors.i2s_payloads import float_bytes
from i2s_spec.model.numeric_profile import ActivationQuantizer
from i2s_spec.model.reference import activation_quant, bitlinear
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

#: Quantization rules whose result does not depend on a library's order of additions.
_RULES: Final = ("absmax", "hf-first", "embedding-mean", "convert-ms", "c-article")

#: Rules for activations, by name: how they differ from the definition.
_ACTIVATIONS: Final[dict[str, dict[str, Any]]] = {
    "golden": {},
    "ties-away": {"floor": None, "scale": "f32", "rounding": "away"},
    "ties-up": {"rounding": "up"},
    "q8_k": {"groups": "blocks-256", "scale": "signed", "floor": None},
}

_FLAGS: Final = ("activation-truncated", "activation-floored", "activation-128", "activation-one-scale",
                 "activation-4-bits", "activation-reciprocal")  # fmt: skip


def drafts() -> Iterator[Draft]:
    """Every vector of computations."""
    yield from _quantize()
    yield from _quantize_groups()
    yield from _activations()
    yield from _products()


def _quantize() -> Iterator[Draft]:
    ternary = chance.trits("ternary weights", 4, 128).astype(np.float32) * np.float32(0.8)
    master = chance.floats("master weights", 4, 128, spread=0.25)
    edge = np.zeros((1, 128), dtype=np.float32)
    edge[0, :8] = [1e-6, np.nextafter(np.float32(1e-6), np.float32(1)), -1e-6, -2e-6, 0.5, -0.5, 5e-7, -0.0]
    halves = np.zeros((1, 128), dtype=np.float32)
    halves[0, :9] = [1.0, 0.5, -0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.49999997, 1.5, -1.5, 2.5, -1.0]
    tiny = np.full((1, 128), 5e-7, dtype=np.float32)
    negative = -np.abs(ternary)
    cases: tuple[tuple[str, Floats, str, tuple[str, ...]], ...] = (
        ("ternary", ternary, "Weights that are ternary already.", ("quantize-scale", "layout-as-sequential")),
        ("master", master, "Master weights: floats that training left.",
         ("quantize-threshold", "quantize-scale", "quantize-rounding")),
        ("thresholds", edge, "Weights beside 1e-6.", ("quantize-threshold",)),
        ("halves", halves, "Quotients of exactly a half, which go to even.", ("quantize-rounding",)),
        ("tiny", tiny, "Every weight is below 1e-6.", ("quantize-threshold", "quantize-scale")),
        ("negative", negative, "No weight is positive: the scale has no sign, but for convert-ms.", ("quantize-scale",)),
    )  # fmt: skip
    for rule in _RULES:
        for name, weights, comment, flags in cases:
            if rule == "c-article" and name in ("tiny", "thresholds"):
                continue  # its scale is too small to divide well: programs differ in the last bit
            yield _quantized(f"{rule}/{name}", weights, rule, comment, flags)
    for layout in ("interleave-64", "rows-1x4"):
        yield _quantized(f"absmax/{LAYOUT_NAMES[layout]}", ternary, "absmax", "Written in another layout.",
                         ("layout-as-sequential",), dialect=layout)  # fmt: skip


def _quantized(
    name: str, weights: Floats, rule: str, comment: str, flags: tuple[str, ...], dialect: str = "interleave-128"
) -> Draft:
    rows, cols = weights.shape
    with warnings.catch_warnings():
        for kind in (NotTernaryWarning, AlreadyTernaryWarning, UndefinedElementsWarning):
            warnings.simplefilter("ignore", kind)
        data = quantize(weights, rule=rule, dialect=dialect)
    layout = LAYOUT_NAMES[dialect]
    return Draft(
        f"i2_s/quantize/{name}", "quantize", "8.3" if rule == "absmax" else "8.2", weights.astype("<f4").tobytes(), comment,
        expected=data, args={"type": "i2_s", "shape": [cols, rows], "layout": layout, "rule": rule},
        features=("type.i2_s", f"layout.{layout}", f"quantize.{rule}"), flags=flags,
        requirement="R8.3-1" if rule == "absmax" else None,
    )  # fmt: skip


def _quantize_groups() -> Iterator[Draft]:
    for type, name in TYPE_NAMES.items():
        if type == "Q2_0_G128":
            continue  # no program has a quantizer for it under this number
        weights = chance.floats(f"{name}/master", 2, 512, spread=0.25)
        weights[0, 256:] = 0
        yield Draft(
            f"{name}/quantize/master", "quantize", "5.6", weights.astype("<f4").tobytes(),
            "Master weights, and blocks of zeros.", expected=block_quantize.quantize(weights, type),
            args={"type": name, "shape": [512, 2], "rule": "ggml"}, features=(f"type.{name}", "quantize.ggml"),
            flags=("quantize-group-scale", "quantize-rounding"),
        )  # fmt: skip


def _activations() -> Iterator[Draft]:
    x = chance.floats("activations", 4, 256, spread=3.0)
    x[1] *= np.float32(40)
    x[3] *= np.float32(1e-4)
    ties = np.zeros((2, 256), dtype=np.float32)
    ties[0, :12] = [127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 63.5, -63.5, 0.49999997, 126.5, -127]
    ties[1, :4] = [254, 1, 3, -5]
    cases: tuple[tuple[str, Floats, str, tuple[str, ...]], ...] = (
        ("tokens", x, "Four tokens of different size: each has a scale of its own.", _FLAGS),
        ("ties", ties, "Products of exactly a half.", ("activation-half-up", "activation-half-away", *_FLAGS)),
    )
    for name, values, comment, flags in cases:
        for rule in _ACTIVATIONS:
            yield _activation(f"{rule}/{name}", values, rule, comment, flags)
    zeros = np.zeros((2, 256), dtype=np.float32)
    zeros[1, 7] = 1e-6
    yield replace(_activation("golden/zeros", zeros, "golden", "A token of zeros, and one below the floor of 1e-5.",
                              ("activation-no-floor",)), requirement="R9.8-3")  # fmt: skip


def _activation(name: str, x: Floats, rule: str, comment: str, flags: tuple[str, ...]) -> Draft:
    made = activation_quant.quantize(x, ActivationQuantizer(**_ACTIVATIONS[rule]))
    bits = [f"{word:08x}" for word in made.scale.astype("<f4").reshape(-1).view("<u4").tolist()]
    return Draft(
        f"activation/{name}", "activation", "9.8" if rule == "golden" else "9.9", x.astype("<f4").tobytes(), comment,
        expected=made.codes.tobytes(), json={"scale_bits": bits}, args={"rule": rule, "shape": [x.shape[1], x.shape[0]]},
        features=(f"activation.{rule}",), flags=flags,
    )  # fmt: skip


def _products() -> Iterator[Draft]:
    for rows, cols, tokens in ((4, 128, 1), (6, 256, 3), (4, 384, 2)):
        trits = chance.trits(f"product/{rows}x{cols}", rows, cols)
        codes = (chance.integers(f"product/{rows}x{cols}/x", tokens * cols, 255) - 127).astype(np.int8)
        yield _product(f"{rows}x{cols}", trits, codes.reshape(tokens, cols), "Trits and codes that look like chance.",
                       ("offset-not-subtracted", "sum-of-half", "last-block-dropped", "activations-unsigned",
                        "layout-as-sequential", "code-map", "transposed"), "R9.8-2")  # fmt: skip
    ones = np.ones((2, 4096), dtype=np.int8)
    ones[1, ::2] = -1
    most = np.full((1, 4096), 127, dtype=np.int8)
    yield _product("largest", ones, most, "4,096 codes of 127: sums of codes leave 16 bits.",
                   ("int16-wrap", "int16-saturates", "offset-not-subtracted"), "R9.8-1")  # fmt: skip
    least = np.full((1, 4096), -128, dtype=np.int8)
    yield _product("lowest", ones, least, "4,096 codes of -128.", ("int16-wrap", "int16-saturates"), "R9.8-1")
    x = chance.floats("bitlinear", 3, 256, spread=2.0)
    trits = chance.trits("bitlinear", 6, 256)
    data = native.pack(trits, 0.8)
    y = bitlinear.linear(data[:-TAIL_BYTES], np.float32(0.8), 6, 256, x)
    made = Draft(
        "bitlinear/float", "bitlinear", "9.8", data, "Floats in, floats out: quantized, multiplied and scaled.",
        second=x.astype("<f4").tobytes(), expected=float_bytes(y),
        args={"type": "i2_s", "shape": [256, 6], "layout": "x86-128", "tokens": 3, "accumulate": "float"},
        features=("type.i2_s", "layout.x86-128"), requirement="R9.8-2",
        flags=("scale-ignored", "scale-reciprocal", "scale-twice", "activation-scale-ignored", "activation-scale-multiplied",
               "offset-not-subtracted", "activation-not-quantized"), compare={"class": "rtol", "rtol": 1e-6, "atol": 1e-6},
    )  # fmt: skip
    yield made
    yield replace(made, name="bitlinear/float/golden", compare={"class": "bits"}, features=(*made.features,
                  "profile.golden-1"),
                  comment="The same to the bit, for programs that claim the profile bitnet-golden-1.", requirement="R9.7-1",
                  clause="9.7", flags=(*made.flags, "epilogue-order", "scale-as-f16"))  # fmt: skip
    zeros = np.zeros((2, 256), dtype=np.float32)
    zeros[1] = x[0]
    y = bitlinear.linear(data[:-TAIL_BYTES], np.float32(0.8), 6, 256, zeros)
    yield replace(made, name="bitlinear/float/zeros", second=zeros.tobytes(), expected=float_bytes(y), requirement="R9.8-3",
                  args={**made.args, "tokens": 2}, comment="A token of zeros gives zeros, not NaN.",
                  flags=("activation-no-floor",))  # fmt: skip


def _product(
    name: str, trits: NDArray[np.int8], codes: NDArray[np.int8], comment: str, flags: tuple[str, ...], requirement: str
) -> Draft:
    rows, cols = trits.shape
    data = native.pack(trits, 0.8)
    acc = bitlinear.accumulate(data[:-TAIL_BYTES], rows, cols, codes)
    return Draft(
        f"bitlinear/{name}", "bitlinear", "9.8", data, comment, second=codes.tobytes(), expected=acc.astype("<i4").tobytes(),
        args={"type": "i2_s", "shape": [cols, rows], "layout": "x86-128", "tokens": len(codes), "accumulate": "int32"},
        features=("type.i2_s", "layout.x86-128"), flags=flags, requirement=requirement,
    )  # fmt: skip
