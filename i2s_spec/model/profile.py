"""This module declares the numeric profiles: every choice on which correct, and known wrong, runtimes differ, as data.

`bitnet-golden-1` is normative (clause 9.7). The others emulate a runtime, for its users to compare with; where a runtime
is wrong, so is its profile, and says so. A new profile is one entry of `PROFILES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from i2s_spec.errors import SettingError, quote


@dataclass(frozen=True)
class Quantiser:
    """How activations become integers, and sums of integers floats (clause 9.8).

    :param groups: what shares a scale: a `token`; `interleaved-4`, element j being in group j // 4 % 4; `blocks-256`;
        `none` where activations stay floats, and trits times scale are the weights
    :param floor: the least magnitude that counts as the largest of a token, or None
    :param scale: s = 127 / amax divided in `f64` and rounded to f32, or in `f32`; `inverse`: 1 / f32(amax / 127);
        `signed`: -127 / the element of largest magnitude
    :param product: x s rounded to f32 before it is rounded to an integer (`rounded`), or not (`exact`, as where a compiler
        fuses the product with the addition of 1.5 * 2^23)
    :param rounding: of ties: `even`, `away` from zero, or `up`
    :param least: the least code
    :param zero: what a token (or block) of zeros gets for a scale without a floor: `nan` (s = 0: 0/0), `zero` or `one`
    :param offset: whether the sum of the codes is `subtracted` from sums of weight codes, or `kept` in them: a mistake
    :param epilogue: `divide`: acc / s * ws; `ratio`: acc * (ws / s); `scaled`: acc * ws * (amax / 127);
        `sum`: the sum over groups of acc_g / s_g, times ws; `blocks`: the sum of acc_b * (1/s_b * f16(ws))
    """

    groups: Literal["token", "interleaved-4", "blocks-256", "none"] = "token"
    floor: float | None = 1e-5
    scale: Literal["f64", "f32", "inverse", "signed"] = "f64"
    product: Literal["rounded", "exact"] = "rounded"
    rounding: Literal["even", "away", "up"] = "even"
    least: int = -128
    zero: Literal["nan", "zero", "one"] = "nan"
    offset: Literal["subtracted", "kept"] = "subtracted"
    epilogue: Literal["divide", "ratio", "scaled", "sum", "blocks"] = "divide"


@dataclass(frozen=True)
class Profile:
    """The choices of one runtime.

    :param about: one sentence for people
    :param quantiser: of activations
    :param sums: of float products: `in-order` (f64, by index, rounded once), `lanes` (f32, 4 x 8 lanes of fused
        multiply-adds as ggml's AVX2 kernels), `blas` (f32, whatever order)
    :param norm: `f64` (mean, epsilon and 1/sqrt in f64, rounded once) or `f32` (squares rounded, summed in f64, rest in f32)
    :param angles: `f64` (angle, cosine and sine in f64, rounded once), `recurrence` (f32 products theta * scale, as ggml) or
        `f32` (f32 frequency times f32 position)
    :param fused: whether the second product of a rotation goes into the sum unrounded, as where a compiler fuses them
    :param rope: `architecture` as declared, or `norm` for everybody (wrong for files of NEOX architectures)
    :param attention: type that q and the soft-max rows are rounded to before their products
    :param cache: type that keys and values are kept in
    :param soft_max: `f64` sum and one reciprocal, or everything in `f32`
    :param activation: SiLU and GELU in `f64` rounded once, as `ggml`'s vector code, or in `f32`
    :param floats: what enters a float matrix, such as the head, stays f32, or is rounded to the type of the matrix
    :param i2s_head: an I2_S table as head is multiplied as `floats`, or as `bitlinear`
    :param activations: which activation the runtime takes, where it is not that of the architecture
    :param reads_activation: whether the runtime reads `<architecture>.hidden_activation`
    :param sub_norm_eps: the epsilon of sub-norms where the runtime has one of its own
    :param operations: module and class that compute; another class is how compiled kernels come in
    """

    name: str
    about: str
    quantiser: Quantiser = Quantiser()
    sums: Literal["in-order", "lanes", "blas"] = "in-order"
    norm: Literal["f64", "f32"] = "f64"
    angles: Literal["f64", "recurrence", "f32"] = "f64"
    fused: bool = False
    rope: Literal["architecture", "norm"] = "architecture"
    attention: Literal["f32", "f16"] = "f32"
    cache: Literal["f32", "f16"] = "f32"
    soft_max: Literal["f64", "f32"] = "f64"
    activation: Literal["f64", "ggml", "f32"] = "f64"
    floats: Literal["f32", "as-weights"] = "f32"
    i2s_head: Literal["floats", "bitlinear"] = "floats"
    activations: Mapping[str, str] = field(default_factory=dict)
    reads_activation: bool = True
    sub_norm_eps: float | None = None
    operations: str = "i2s_spec.model.operations:Operations"

    def but(self, **changes: Any) -> Profile:
        """The profile with other choices; `quantiser` may be a mapping of the choices that differ.

        :raises TypeError: for a choice that does not exist
        """
        name = changes.pop("name", f"{self.name}*")
        quantiser = changes.pop("quantiser", self.quantiser)
        if isinstance(quantiser, Mapping):
            quantiser = replace(self.quantiser, **quantiser)
        return replace(self, name=name, quantiser=quantiser, **changes)


_GOLDEN: Final = Profile("bitnet-golden-1", "normative: exact integers, sums in f64 by index, one rounding each")

_GGML: Final = Profile(
    "bitnetcpp-2025",
    "the official runtime of October 2024 to 2025, x86, without llamafile; F16 key-value cache",
    quantiser=Quantiser(product="exact"),
    sums="lanes",
    norm="f32",
    angles="recurrence",
    fused=True,
    attention="f16",
    cache="f16",
    activation="ggml",
    floats="as-weights",
    i2s_head="bitlinear",
    reads_activation=False,
)

#: Architectures that 0xBitNet takes for BitNet.
_BITNETS: Final = ("bitnet", "bitnet-b1.58", "bitnet-25")

#: Every profile by its name; the first is the normative one.
PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        _GOLDEN,
        _GGML,
        _GGML.but(
            name="bitnetcpp-2026",
            about="the official runtime since May 2026: ties away from zero, no floor, SiLU for every BitNet (issue 588)",
            quantiser={"floor": None, "scale": "f32", "product": "rounded", "rounding": "away", "epilogue": "ratio"},
            activations={"bitnet-b1.58": "silu", "bitnet-25": "silu"},
        ),
        Profile(
            "hf-f32",
            "Hugging Face transformers in float32, eager, without torch.compile",
            quantiser=Quantiser(scale="f32"),
            norm="f32",
            angles="f32",
            soft_max="f32",
            activation="f32",
            reads_activation=False,
        ),
        _GGML.but(
            name="ik-iq2bn",
            about="ik_llama.cpp with IQ2_BN weights: four interleaved activation scales for each token",
            quantiser=Quantiser("interleaved-4", None, "inverse", zero="zero", epilogue="sum"),
            fused=False,
            attention="f32",
        ),
        _GGML.but(
            name="tq2_0",
            about="upstream llama.cpp with TQ2_0 weights: Q8_K activations, SiLU unless the file says otherwise",
            quantiser=Quantiser("blocks-256", None, "signed", zero="zero", epilogue="blocks"),
            activations={"bitnet-b1.58": "silu", "bitnet-25": "silu"},
            reads_activation=True,
        ),
        Profile(
            "webgpu",
            "0xBitNet: relu2 for every BitNet, neighbouring pairs rotated (wrong for NEOX files), no floor",
            quantiser=Quantiser(floor=None, scale="f32", least=-127, zero="one", epilogue="scaled"),
            norm="f32",
            angles="f32",
            rope="norm",
            soft_max="f32",
            activation="f32",
            activations=dict.fromkeys(_BITNETS, "relu2"),
            reads_activation=False,
            sub_norm_eps=1e-5,
        ),
        Profile(
            "fast",
            "f32 throughout, in whatever order is fastest; F16 key-value cache; results differ between machines",
            sums="blas",
            norm="f32",
            cache="f16",
            soft_max="f32",
            activation="f32",
            operations="i2s_spec.model.fast:FastOperations",
        ),
    )
}

NORMATIVE: Final = next(iter(PROFILES))


def profile_of(profile: str | Profile) -> Profile:
    """The profile of a name; a `Profile` is given back as it is.

    :raises SettingError: for a name that no profile has
    """
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise SettingError(f"there is no profile {quote(profile)}; there are {', '.join(PROFILES)}")
    return PROFILES[profile]
