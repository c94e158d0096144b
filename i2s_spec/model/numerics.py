"""The numeric profiles: every choice in which runtimes, correct or known to be wrong, differ, as data.

`bitnet-golden-1` is normative (clause 9.7). Each of the others emulates a runtime, for comparison with it; if a runtime
is wrong, its profile is wrong in the same way, and says so. A new profile is one entry of `NUMERIC_PROFILES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from i2s_spec.errors import SettingError, quote
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture


@dataclass(frozen=True)
class ActivationQuantizer:
    """How activations are quantized, and how integer sums become floats (clause 9.8).

    :param groups: the elements that share a scale: a `token`; `interleaved-4`, element j being in group j // 4 % 4;
    `blocks-256`; `blocks-32`; `none` if activations stay floats, and the weights are trits times scale
    :param floor: a lower bound of a token's largest magnitude, or None
    :param scale: s = 127 / amax divided in `f64` and rounded to f32, or in `f32`; `wide`: not rounded, and x s in f64;
        `inverse`: 1 / f32(amax / 127); `signed`: -127 / the element of largest magnitude
    :param product: x s rounded to f32 before it is rounded to an integer (`rounded`), or not (`exact`, as where a compiler
        fuses the product with the addition of 1.5 * 2^23)
    :param rounding: of ties: `even`, `away` from zero, or `up`
    :param least: the least code
    :param zero: the scale of a token (or block) of zeros if there is no floor: `nan` (s = 0: 0/0), `zero` or `one`
    :param nan: what a NaN makes NaN: its `token`, whose codes are all 0; or nothing, its own code being the `least`, as Go
        has it on x86, for the product of an infinity and a scale of 0 too
    :param offset: whether the sum of the codes is `subtracted` from sums of weight codes, or `kept` in them: a mistake
    :param epilogue: `divide`: acc / s * ws; `ratio`: acc * (ws / s); `scaled`: acc * ws * (amax / 127), and of several
        tokens at once acc * (ws * (amax / 127)); `wide`: acc * (ws * amax / 127) in f64, rounded once;
        `sum`: the sum over groups of acc_g / s_g, times ws; `blocks`: the sum of acc_b * (1/s_b * f16(ws)); `nested`: of
        each group of weights the sum of acc_b / s_b, these times f16(ws), by fused multiply-adds
    :param steps: how amax / 127 is stored if that, not 1 / s, is the value of code 1: exactly, or as `f16`
    :param weight_group: how many weights share a scale in the type that `blocks` and `nested` are for; weights of a
    type with one scale count as such groups
    """

    groups: Literal["token", "interleaved-4", "blocks-256", "blocks-32", "none"] = "token"
    floor: float | None = 1e-5
    scale: Literal["f64", "f32", "wide", "inverse", "signed"] = "f64"
    product: Literal["rounded", "exact"] = "rounded"
    rounding: Literal["even", "away", "up"] = "even"
    least: int = -128
    zero: Literal["nan", "zero", "one"] = "nan"
    nan: Literal["token", "least"] = "token"
    offset: Literal["subtracted", "kept"] = "subtracted"
    epilogue: Literal["divide", "ratio", "scaled", "wide", "sum", "blocks", "nested"] = "divide"
    steps: Literal["f32", "f16"] = "f32"
    weight_group: int = 256


@dataclass(frozen=True)
class NumericProfile:
    """The choices of one runtime.

    :param about: a description in one sentence
    :param quantizer: the quantizer of activations
    :param by_type: another quantizer for weights of some types, by name
    :param few: another profile, by name, for passes of up to so many tokens (`of`)
    :param sums: how float products are summed: `in-order` (f64, by index, rounded once), `lanes` (f32, over 4 vectors of
    fused multiply-adds like ggml's x86 kernels), `blas` (f32, in any order)
    :param vector: how many float32 a vector has, for `lanes`, `llamafile` and `ggml`: 8 (AVX2) or 16 (AVX-512)
    :param llamafile: with `lanes`: whether products of several tokens with contiguous rows of floats keep their input
    float32 and add over the lanes of one vector of fused multiply-adds, like the kernels of llamafile
    :param llamafile_input: whether these products keep the input `f32`, or round it to the type of the matrix; in the
    latter case scores are such products, too
    :param drops_rows: whether rows without requested logits are dropped after the last layer's attention, so that its
    feed-forward network and the head compute one token at a time, whatever the prompt
    :param norm: `f64` (mean, epsilon and 1/sqrt in f64, rounded once) or `f32` (squares rounded, summed in f64, rest in f32)
    :param angles: `f64` (angle, cosine and sine in f64, rounded once), `recurrence` (f32 products theta * scale, as ggml) or
        `f32` (f32 frequency times f32 position)
    :param fused: whether the second product of a rotation is added unrounded, as when a compiler fuses product and sum
    :param rope: `architecture` as declared, or `norm` for all (wrong for files of NEOX architectures)
    :param rope_bases: the base where a file has no rope.freq_base, by architecture, if it is not 10,000
    :param angle_error: how far off cosine and sine may be, as an absolute distance, where the platform does not say more
    :param attention: the type to which q and the soft-max rows are rounded before their products
    :param cache: the type in which keys and values are stored
    :param soft_max: `f64` sum and one reciprocal, like `ggml`'s vector code, or everything in `f32`
    :param activation: SiLU and GELU in `f64` rounded once, like `ggml`'s vector code, or in `f32`
    :param floats: whether the input of a float matrix, such as the head, stays f32, or is rounded to the type of the matrix;
    `as-bfloat16`: only where that is BF16
    :param i2s_head: whether an I2_S head is multiplied as `floats`, or as `bitlinear`
    :param activations: the activation that the runtime uses, if it is not that of the architecture
    :param reads_activation: whether the runtime reads `<architecture>.hidden_activation`
    :param sub_norm_eps: the epsilon of sub-norms, if the runtime has a separate one
    :param sub_norms: whether sub-norms are `required`, or left out where a file lacks them (`optional`)
    :param table_bytes: most bytes of an embedding table or head that the runtime reads; what is behind them counts as 0
    :param operations: module and class that compute; another class brings in compiled kernels
    """

    name: str
    about: str
    quantizer: ActivationQuantizer = ActivationQuantizer()
    by_type: Mapping[str, ActivationQuantizer] = field(default_factory=dict)
    few: tuple[int, str] | None = None
    sums: Literal["in-order", "lanes", "blas"] = "in-order"
    vector: Literal[8, 16] = 8
    llamafile: bool = False
    llamafile_input: Literal["f32", "as-weights"] = "f32"
    drops_rows: bool = False
    norm: Literal["f64", "f32"] = "f64"
    angles: Literal["f64", "recurrence", "f32"] = "f64"
    fused: bool = False
    rope: Literal["architecture", "norm"] = "architecture"
    rope_bases: Mapping[str, float] = field(default_factory=dict)
    angle_error: float = 0.0
    attention: Literal["f32", "f16"] = "f32"
    cache: Literal["f32", "f16"] = "f32"
    soft_max: Literal["f64", "ggml", "f32"] = "f64"
    activation: Literal["f64", "ggml", "f32"] = "f64"
    floats: Literal["f32", "as-weights", "as-bfloat16"] = "f32"
    i2s_head: Literal["floats", "bitlinear"] = "floats"
    activations: Mapping[str, str] = field(default_factory=dict)
    reads_activation: bool = True
    sub_norm_eps: float | None = None
    sub_norms: Literal["required", "optional"] = "required"
    table_bytes: int | None = None
    operations: str = "i2s_spec.model.reference.operations:Operations"

    @property
    def reads_ahead(self) -> bool:
        """Whether all weights are read when a model is loaded; else each when it is first needed."""
        return self.operations != NumericProfile.operations

    def quantizer_of(self, type: str) -> ActivationQuantizer:
        """How activations are quantized for weights of a type."""
        return self.by_type.get(type, self.quantizer)

    def of(self, tokens: int) -> NumericProfile:
        """Return the profile that holds for a pass of so many tokens at once."""
        if self.few is None or tokens > self.few[0]:
            return self
        return NUMERIC_PROFILES[self.few[1]]

    def deviations(self, architecture: Architecture, metadata: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the mistakes of the runtime that the profile repeats for a file, in words; () for a right one.

        A record under a profile with mistakes is no measure of other runtimes.

        :param metadata: the keys of the file
        """
        prefix, found = architecture.prefix, []
        declared = metadata.get(f"{prefix}.hidden_activation")
        declared = declared if isinstance(declared, str) else None
        right = architecture.activation if declared is None else declared
        used = declared if self.reads_activation else None
        used = self.activations.get(prefix, architecture.activation) if used is None else used
        if used != right:
            found.append(f"{used} in the place of {right}")
        if self.rope == "norm" and architecture.rope != "norm":
            found.append("neighboring elements rotated in the place of halves of a head")
        eps = metadata.get(f"{prefix}.attention.layer_norm_rms_epsilon")
        own = self.sub_norm_eps
        if own is not None and architecture.is_bitnet and isinstance(eps, float) and abs(eps - own) > 1e-3 * own:
            found.append(f"an epsilon of {own:g} in sub-norms; the file says {eps:g}")
        if prefix in self.rope_bases and f"{prefix}.rope.freq_base" not in metadata:
            found.append(f"a base of {self.rope_bases[prefix]:,.0f} in the rotation, where other loaders take 10,000")
        return tuple(found)

    def replace(self, **changes: Any) -> NumericProfile:
        """Return the profile with other choices; `quantizer` may be a mapping of the differences, and then applies
        to all types.

        :raises TypeError: for a choice that does not exist
        """
        name = changes.pop("name", f"{self.name}*")
        quantizer = changes.pop("quantizer", self.quantizer)
        if isinstance(quantizer, Mapping):
            quantizer = replace(self.quantizer, **quantizer)
        if quantizer != self.quantizer:
            changes = {"by_type": {}, "few": None, **changes}
        return replace(self, name=name, quantizer=quantizer, **changes)


_GOLDEN: Final = NumericProfile("bitnet-golden-1", "normative: exact integers, sums in f64 by index, one rounding each")

#: How mainline ggml quantizes activations to Q8_0 blocks and multiplies them with Q2_0: float16 steps, fused group sums.
_Q8_0: Final = ActivationQuantizer(
    "blocks-32", None, "f32", zero="zero", epilogue="nested", steps="f16", weight_group=64
)
#: Q8_K blocks, and products with TQ1_0 and TQ2_0.
_Q8_K: Final = ActivationQuantizer("blocks-256", None, "signed", zero="zero", epilogue="blocks")

_GGML: Final = NumericProfile(
    "bitnetcpp-2025",
    "the official runtime of October 2024 to 2025, x86, without llamafile; F16 key-value cache",
    quantizer=ActivationQuantizer(product="exact"),
    by_type={"TQ1_0": _Q8_K, "TQ2_0": _Q8_K},
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

#: Float32 throughout, as a plain program computes it.
_HF: Final = NumericProfile(
    "hf-f32",
    "Hugging Face transformers in float32, eager, without torch.compile",
    quantizer=ActivationQuantizer(scale="f32"),
    norm="f32",
    angles="f32",
    soft_max="f32",
    activation="f32",
    reads_activation=False,
)

_IK: Final = _GGML.replace(
    name="ik-f32",
    about="ik_llama.cpp with F32 or F16 weights: trits times scale as floats, activations not quantized",
    quantizer={"groups": "none"},
    fused=False,
    attention="f32",
    floats="as-bfloat16",
)

_LLAMA_CPP: Final = _GGML.replace(
    name="llamacpp-2026",
    about="llama.cpp of 2026 on x86, flash attention off: Q2_0 by Q8_0 blocks, TQ1_0 and TQ2_0 by Q8_K; SiLU",
    quantizer=_Q8_0,
    by_type={"TQ1_0": _Q8_K, "TQ2_0": _Q8_K},
    llamafile=True,
    llamafile_input="as-weights",
    drops_rows=True,
    soft_max="ggml",
    activations={"bitnet-b1.58": "silu", "bitnet-25": "silu"},
    reads_activation=False,
)

#: Architectures that 0xBitNet treats as BitNet.
_BITNETS: Final = tuple(each.prefix for each in ARCHITECTURES.values() if each.is_bitnet)

#: Every profile by its name; the first is the normative one.
NUMERIC_PROFILES: Final[Mapping[str, NumericProfile]] = {
    profile.name: profile
    for profile in (
        _GOLDEN,
        _GGML,
        _GGML.replace(
            name="bitnetcpp-2025-llamafile",
            about="the same with llamafile, which CMake turns on: several tokens at once keep float32 where one is rounded",
            llamafile=True,
            soft_max="ggml",
        ),
        _GGML.replace(
            name="bitnetcpp-2025-avx512",
            about="the same with llamafile, built for a processor with AVX-512: sums over vectors of 16",
            llamafile=True,
            soft_max="ggml",
            vector=16,
        ),
        _GGML.replace(
            name="bitnetcpp-2026",
            about="the official runtime since May 2026: ties away from zero, no floor, SiLU for every BitNet (issue 588)",
            quantizer={"floor": None, "scale": "f32", "product": "rounded", "rounding": "away", "epilogue": "ratio"},
            activations={"bitnet-b1.58": "silu", "bitnet-25": "silu"},
        ),
        _HF,
        _IK.replace(
            name="ik-iq2bn",
            about="ik_llama.cpp with IQ2_BN weights: four interleaved activation scales for each token",
            quantizer=ActivationQuantizer("interleaved-4", None, "inverse", zero="zero", epilogue="sum"),
        ),
        _IK,
        _IK.replace(
            name="ik-f16",
            about="ik_llama.cpp of 2026 with F16 weights: the same, several tokens at once summed over one vector",
            llamafile=True,
        ),
        _HF.replace(
            name="c-article",
            about="an article on BitNet inference in plain C: a floor of 1e-8, ties away from zero",
            quantizer={"floor": 1e-8, "rounding": "away", "epilogue": "ratio"},
        ),
        _GGML.replace(
            name="tq2_0",
            about="upstream llama.cpp with TQ2_0 weights: Q8_K activations, SiLU unless the file says otherwise",
            quantizer=_Q8_K,
            activations={"bitnet-b1.58": "silu", "bitnet-25": "silu"},
            reads_activation=True,
        ),
        _LLAMA_CPP,
        _LLAMA_CPP.replace(
            name="llamacpp-2026-avx512",
            about="the same on processors with AVX-512, such as the backend for zen4: sums over vectors of 16",
            vector=16,
        ),
        _LLAMA_CPP.replace(
            name="llamacpp-cuda",
            about="the same with CUDA: with more than 8 tokens at once float32 steps, ties away from zero, no llamafile",
            quantizer=replace(_Q8_0, steps="f32", rounding="away"),
            by_type=_LLAMA_CPP.by_type,
            few=(8, "llamacpp-2026"),
            llamafile=False,
        ),
        _HF.replace(
            name="webgpu",
            about="0xBitNet: relu2 for every BitNet, neighboring pairs rotated (wrong for NEOX files), no floor",
            quantizer={"floor": None, "least": -127, "zero": "one", "epilogue": "scaled"},
            rope="norm",
            activations=dict.fromkeys(_BITNETS, "relu2"),
            sub_norm_eps=1e-5,
            sub_norms="optional",
            rope_bases=dict.fromkeys(_BITNETS, 500_000.0),
            angle_error=2.0**-11,  # what WGSL allows from -pi to pi
            table_bytes=128 << 20,  # maxStorageBufferBindingSize unless a page asks for more: one shard is bound
        ),
        NumericProfile(
            "loom",
            "loom, a runtime in Go: scales, products and epilogues in float64, ties away from zero",
            quantizer=ActivationQuantizer(scale="wide", product="exact", rounding="away", nan="least", epilogue="wide"),
            reads_activation=False,
        ),
        NumericProfile(
            "bitnet-go",
            "bitnet-go: I2_S as the normative profile; TQ1_0 and TQ2_0 as floats, nothing of the activations rounded",
            by_type=dict.fromkeys(("TQ1_0", "TQ2_0"), ActivationQuantizer("none")),
            reads_activation=False,
        ),
        NumericProfile(
            "fast",
            "f32 throughout, in whatever order is fastest; F16 key-value cache; results differ between machines",
            sums="blas",
            norm="f32",
            cache="f16",
            soft_max="f32",
            activation="f32",
            operations="i2s_spec.model.fast_operations:FastOperations",
        ),
    )
}


def numeric_profile(profile: str | NumericProfile) -> NumericProfile:
    """Return the profile with this name; a `NumericProfile` is returned unchanged.

    :raises SettingError: for a name that no profile has
    """
    if isinstance(profile, NumericProfile):
        return profile
    if profile not in NUMERIC_PROFILES:
        raise SettingError(f"there is no numeric profile {quote(profile)}; there are {', '.join(NUMERIC_PROFILES)}")
    return NUMERIC_PROFILES[profile]
