"""The vectors of whole models: logits, embeddings, values between the layers, tokens of texts; and of computations.

The trained models that come with the package are given in several packings; embedding models, a rotated one, and those in
types whose blocks need rows of 512 are small and random. A file is shared by all vectors about it. There are three kinds
of comparison: `corr` for any program, which only gross mistakes fail, `bits` for programs that claim the profile
bitnet-golden-1, and `prefix` for programs that return tokens alone.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.quantize import AlreadyTernaryWarning, NotTernaryWarning, quantize
from i2s_spec.codec.shape import UndefinedElementsWarning
from i2s_spec.conformance.vectors import vector
from i2s_spec.conformance.vectors.payloads import TYPE_NAMES, float_bytes
from i2s_spec.conformance.vectors.vector import LAYOUT_NAMES, Draft
from i2s_spec.convert.new import new
from i2s_spec.convert.trained import gguf_bytes, write_trained
from i2s_spec.gguf.reader import open
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import ActivationQuantizer
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

    Floats = NDArray[np.float32]

#: Mistakes that every comparison of logits shows.
_GROSS: Final = (
    "layout-interleave-64", "layout-rows-1x4", "rows-1x4-as-interleave-128", "layout-sequential-msb",
    "layout-sequential-lsb", "lanes-reversed", "weights-transposed", "codes-zero-first", "codes-signs-swapped",
    "codes-twos-complement", "codes-offset-2", "offset-not-subtracted", "scale-reciprocal", "scale-ignored", "scale-twice",
    "activation-scale-ignored", "activation-scale-multiplied", "activation-4-bits", "offset-half", "sum-of-half",
    "last-block-dropped", "rope-pairs", "rope-missing", "rope-reversed", "rope-half-of-head", "rope-positions-doubled",
    "rope-positions-halved", "rope-positions-quartered", "rope-positions-eighth", "activation-gelu", "up-activated",
    "gate-up-exchanged", "key-value-exchanged", "norms-exchanged", "gains-missing", "gains-plus-one", "gains-minus-one",
    "norm-centred", "attention-not-scaled", "attention-scaled-by-width", "attention-scaled-by-embedding",
    "attention-not-causal", "heads-in-turn", "heads-first", "embedding-scaled", "residual-missing", "residual-normed",
    "residual-of-layer", "activation-truncated", "activation-floored", "rope-base-10000", "rope-base-1000000",
)  # fmt: skip

#: Mistakes that are smaller than the differences between correct programs: only a comparison of bits shows them.
_FINE: Final = (
    "scale-half", "activation-four-scales", "activation-blocks-32", "activation-blocks-64", "activation-128",
    "activation-one-scale", "activation-not-quantized", "activation-2026", "eps-0", "eps-1e-6", "rope-from-1",
)  # fmt: skip

#: The gross mistakes that need sub-norms or squared ReLU.
_BITNET: Final = (
    "attn-sub-norm-missing", "ffn-sub-norm-missing", "sub-norms-missing", "ffn-sub-norm-first", "relu-not-squared",
    "activation-silu",
)  # fmt: skip

#: How much a correct answer may differ; for logits, the most likely last token must be the same as well.
_CLOSE: Final = {"class": "corr", "corr": 0.9995}
#: The same for random models of one layer, whose activations are quantized by each runtime in its own way, in blocks or
#: not at all: the profiles of this package differ by up to 0.00036 there, and in the token where two are nearly alike.
_WIDE: Final = {"class": "corr", "corr": 0.999}
#: The same for values between the layers of trained models.
_VALUE: Final = {"class": "corr", "corr": 0.9999}
#: The types that are given in rows of 512 and 1,024.
_WIDE_TYPES: Final = ("IQ1_BN", "IQ2_BN", "TQ1_0", "TQ2_0", "Q2_0")

#: Tokens that `generate` asks for, and what is a near tie: logits that differ by less may be in another order for
#: programs that quantize activations in another way. The profiles of this package agree up to it.
_GENERATED: Final = 16
_NEAR: Final = 0.2


class _File(NamedTuple):
    """A model in one packing."""

    name: str
    data: bytes
    features: tuple[str, ...]
    tokens: tuple[int, ...]
    flags: tuple[str, ...]
    fine: tuple[str, ...]
    values: tuple[str, ...] = ()
    dialect: str = "canonical"
    close: Mapping[str, Any] = _CLOSE
    exact: bool = True


_TEXTS: Final = (
    ("words", "Once upon a time there was a little girl."),
    ("capitals", "THE CAT sat. The CAT SAT!"),
    ("digits", "1 12 123 1234 12345"),
    ("blanks", "  two  blanks\n\nand\ttabs \n"),
    ("contractions", "I'm sure they'll say we've gone; it's DON'T."),
    ("accents", "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m"),
    ("other-scripts", "\u043f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d"),
    ("emoji", "ok \U0001f600!"),
    ("punctuation", "a...b,,c??d!!"),
    ("one", "a"),
    ("empty", ""),
)


def drafts() -> Iterator[Draft]:
    """Yield every vector of whole models."""
    for file in _files():
        yield from _forward(file)
        if file.name in _PROMPTED:
            yield from _generate(file)
        if file.dialect == "canonical":
            types = tuple(each for each in file.features if each.startswith("type."))
            yield _valid(file.name, file.data, "A sound model, as this package's writer makes it.", types)
    for name in ("stories", "llama"):
        yield from _tokens(f"tokenize/{name}", gguf_bytes(name), ("type.i2_s",))
    for name in ("stories", "llama"):
        data = _for_text(name)
        yield from _tokens(f"tokenize/{name}/f16", data, ())
        yield _valid(f"{name}/f16", data, "A sound model of F16, which llama.cpp loads.", ())


def _valid(name: str, data: bytes, comment: str, features: tuple[str, ...]) -> Draft:
    """Return a sound model as a question to validators."""
    return Draft(f"verdict/sound/{name}", "verdict", "11.2", data, comment, json={"verdict": "valid"}, features=features,
                 flags=("refuses-everything",))  # fmt: skip


def _files() -> Iterator[_File]:
    text = "Once upon a time there was a little"
    for name, architecture, values in (
        ("llama", "llama", ("attn_norm-0", "Qcur-0", "Qcur-0#1", "kqv_out-0", "ffn_inp-0", "l_out-0", "result_norm")),
        (
            "stories",
            "bitnet-b1.58",
            ("attn_sub_norm-0", "ffn_gate-0", "ffn_sub_norm-0", "ffn_out-0", "l_out-0", "result_norm"),
        ),
    ):
        tokens = tuple(load_tokenizer(open(gguf_bytes(name))).encode(text))
        arch = f"arch.{architecture}"
        yield _File(f"{name}/i2_s", gguf_bytes(name), (arch, "type.i2_s", "layout.x86-128"), tokens,
                    (*_GROSS, *(_BITNET if name == "stories" else ("activation-relu2",))), _FINE, values)  # fmt: skip
        if name == "llama":
            packings = (
                ("arm-64", "interleave-64", ("type.i2_s", "layout.arm-64"), ("layout-interleave-128",)),
                ("q2_0", "Q2_0", ("type.q2_0",), ("rope-pairs", "gains-missing")),
                ("ptq1_0", "PTQ1_0", ("type.ptq1_0",), ("rope-pairs", "gains-missing")),
                ("trained-f16", "F16", ("type.f16",), ("rope-pairs", "gains-missing")),
            )
            for packing, to, features, flags in packings:
                yield _File(f"{name}/{packing}", _trained(architecture, to), (arch, *features), tokens, flags, (),
                            values=("l_out-0", "result_norm") if to == "F16" else (), exact=to != "F16",
                            dialect=to if packing == "arm-64" else "canonical")  # fmt: skip
    ids = (5, 9, 77, 130, 31, 200, 8, 44)
    yield _File("qwen3/i2_s", _random("qwen3"), ("arch.qwen3", "type.i2_s", "layout.x86-128"), ids,
                ("pooling-mean", "pooling-first", "head-norms-missing", "input-norms-missing", "up-activated"),
                ("rope-base-500000", "eps-1e-5", "activation-blocks-128", "activation-half-up"))  # fmt: skip
    yield _File("gemma3/i2_s", _random("gemma3"), ("arch.gemma3", "type.i2_s", "layout.x86-128"), ids,
                ("pooling-mean", "pooling-first", "embedding-not-scaled"),
                ("attn-post-norm-missing", "ffn-post-norm-missing", "input-norms-missing", "head-norms-missing",
                 "activation-silu", "activation-relu2"))  # fmt: skip
    yield _File("llama/rotated", _random("llama", rotated=True),
                ("arch.llama", "type.i2_s", "layout.x86-128", "prism.hadamard"), ids, ("rotation-ignored", "head-tied"),
                ())  # fmt: skip
    for kind in _WIDE_TYPES:
        yield _File(f"llama-wide/{kind.lower()}", _wide(kind),
                    ("arch.llama", f"type.{kind.lower()}"), ids, ("rope-pairs", "gains-missing"), (),
                    ("l_out-0", "result_norm"), close=_WIDE, exact=False)  # fmt: skip


def _trained(architecture: str, to: str) -> bytes:
    target = io.BytesIO()
    write_trained(target, architecture, to=to)
    return target.getvalue()


def _random(architecture: str, *, unit_tables: bool = True, **options: Any) -> bytes:
    """Return a small model with random weights.

    :param unit_tables: with the tables of 0.1.0: what was published never changes. Their logits are so far apart that a
        program that gives probabilities, and not logits, shows most of them as 0
    """
    target = io.BytesIO()
    vocab = ARCHITECTURES[architecture].small_vocab
    new(target, architecture, layers=1, vocab=vocab, unit_tables=unit_tables, **options)
    return target.getvalue()


def _wide(kind: str) -> bytes:
    return _random("llama", unit_tables=False, embd=512, ff=1024, heads=4, heads_kv=1, type=kind)


def _for_text(name: str) -> bytes:
    """Return a small llama of F16 with the vocabulary of a trained model: programs that do not know I2_S load it to
    tokenize.
    """
    trained, width, ff = open(gguf_bytes(name)).metadata, 32, 64
    tokens = len(trained["tokenizer.ggml.tokens"])
    target = io.BytesIO()
    with Writer(target) as writer:
        writer.add("general.architecture", "llama")
        writer.add("general.name", f"{name}-f16")
        writer.add("general.file_type", 1)
        for key, value in (("block_count", 1), ("context_length", 384), ("embedding_length", width), ("vocab_size", tokens),
                           ("feed_forward_length", ff), ("rope.dimension_count", 16), ("attention.head_count", 2),
                           ("attention.head_count_kv", 2)):  # fmt: skip
            writer.add(f"llama.{key}", value)
        writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5)
        writer.add("llama.rope.freq_base", 10000.0)
        for key in trained:
            if key.startswith("tokenizer."):
                writer.add(key, trained[key])
        writer.add("general.quantization_version", 2)
        shapes = {"token_embd": (tokens, width), "output_norm": (width,), "blk.0.attn_norm": (width,),
                  "blk.0.ffn_norm": (width,), **{f"blk.0.attn_{each}": (width, width) for each in ("q", "k", "v", "output")},
                  "blk.0.ffn_gate": (ff, width), "blk.0.ffn_up": (ff, width), "blk.0.ffn_down": (width, ff)}  # fmt: skip
        for tensor, shape in shapes.items():
            if len(shape) == 1:
                writer.add_tensor(f"{tensor}.weight", shape, "F32", np.ones(shape, np.float32))
            else:
                values = vector.floats(f"{name}/f16/{tensor}", *shape, spread=0.125).astype(np.float16)
                writer.add_tensor(f"{tensor}.weight", shape, "F16", values)
    return target.getvalue()


def _forward(file: _File) -> Iterator[Draft]:
    model = load_model(file.data, dialect=file.dialect)
    result = model.forward(file.tokens, taps=file.values)
    output = "embedding" if result.logits is None else "logits"
    found = result.logits if result.logits is not None else result.embedding
    assert found is not None
    top = {"columns": found.shape[-1], **({"rank": 1} if file.close is _CLOSE else {})} if output == "logits" else {}
    made = Draft(
        f"forward/{file.name}/{output}", "forward", _clause(model), file.data, f"The {output} of {len(file.tokens)} tokens.",
        second=np.array(file.tokens, dtype="<i4").tobytes(), expected=float_bytes(found),
        args={"value": output, "shape": [*found.shape][::-1], "tokens": list(file.tokens)}, features=file.features,
        flags=file.flags, compare={**file.close, **top},
        requirement="R9.3-1" if "llama" in file.name else "R9.2-1" if "stories" in file.name else "R9.4-1",
    )  # fmt: skip
    yield made
    if file.exact:
        yield replace(made, name=f"{made.name}/golden", features=(*file.features, "profile.golden-1"),
                      compare={"class": "bits"}, comment=f"{made.comment[:-1]}, to the bit.",
                      flags=(*file.flags, *file.fine), requirement="R9.7-1", clause="9.7")  # fmt: skip
    for value in file.values:
        each = result.taps[value]
        yield replace(made, name=f"forward/{file.name}/{value}", expected=float_bytes(np.asarray(each, np.float32)),
                      args={**made.args, "value": value, "shape": [*each.shape][::-1]}, flags=_VALUE_FLAGS[value],
                      features=(*file.features, "forward.values"), compare=_WIDE if file.close is _WIDE else _VALUE,
                      comment=f"The value {value}, as section 9.10 names it.", clause="9.10",
                      requirement="R9.7-2")  # fmt: skip


#: Trained models that `generate` asks for, and the beginnings of texts.
_PROMPTED: Final = ("stories/i2_s", "llama/i2_s", "llama/q2_0", "llama/trained-f16")
_PROMPTS: Final = ("Once upon a time there was a little", "The weaver went to", "One morning", "My")


def _generate(file: _File) -> Iterator[Draft]:
    """Yield the likeliest tokens behind the beginnings of texts, and up to where correct programs agree."""
    model, tokenizer = load_model(file.data, dialect=file.dialect), load_tokenizer(open(file.data))
    for prompt in _PROMPTS:
        tokens = [int(token) for token in tokenizer.encode(prompt)]
        cache, ids, margins, given = model.new_cache(), [], [], tokens
        for _ in range(_GENERATED):
            logits = model.forward(given, cache=cache, logits="last").logits
            assert logits is not None
            second, first = np.argsort(logits[-1])[-2:]
            ids.append(int(first))
            margins.append(float(logits[-1][first] - logits[-1][second]))
            given = ids[-1:]
        least = next((i for i, margin in enumerate(margins) if margin < _NEAR), _GENERATED)
        if least < 3:
            continue
        yield Draft(
            f"generate/{file.name}/{prompt.split()[0].lower()}", "generate", _clause(model), file.data,
            f"The {_GENERATED} tokens that follow {prompt!r}, each the most likely one.",
            second=np.array(tokens, dtype="<i4").tobytes(), json={"ids": ids}, args={"tokens": tokens, "count": _GENERATED},
            features=file.features, flags=("rope-pairs", "gains-missing", "scale-ignored"),
            compare={"class": "prefix", "least": least, "margin": round(min(margins[: least + 1]), 4)},
            requirement="R9.3-1" if "llama" in file.name else "R9.2-1",
        )  # fmt: skip


#: The mistakes that a value between the layers shows.
_VALUE_FLAGS: Final[dict[str, tuple[str, ...]]] = {
    "attn_norm-0": ("gains-missing", "gains-plus-one", "norm-centred", "embedding-scaled"),
    "Qcur-0": ("layout-interleave-64", "weights-transposed", "codes-signs-swapped"),
    "Qcur-0#1": ("rope-pairs", "rope-from-1", "rope-reversed", "rope-base-10000"),
    "kqv_out-0": ("attention-not-causal", "heads-in-turn", "attention-not-scaled"),
    "ffn_inp-0": ("residual-missing", "residual-normed"),
    "l_out-0": ("residual-of-layer", "activation-gelu"),
    "result_norm": ("gains-missing",),
    "attn_sub_norm-0": ("attn-sub-norm-missing",),
    "ffn_gate-0": ("gate-up-exchanged", "scale-twice", "scales-requantised"),
    "ffn_sub_norm-0": ("ffn-sub-norm-missing", "relu-not-squared"),
    "ffn_out-0": ("scale-ignored", "activation-silu"),
}


def _clause(model: Model) -> str:
    return {"llama": "9.3", "qwen3": "9.4", "gemma3": "9.4"}.get(model.architecture.name, "9.2")


def _tokens(name: str, data: bytes, features: tuple[str, ...]) -> Iterator[Draft]:
    tokenizer = load_tokenizer(open(data))
    for word, text in _TEXTS:
        ids = tokenizer.encode(text, add_special=False)
        yield Draft(
            f"{name}/{word}", "tokenize", "3.5", data, f"A text of {word.replace('-', ' ')}, and no first token.",
            second=text.encode(), json={"ids": [int(token) for token in ids]}, args={"add_special": False},
            features=("tokenizer.llama-bpe", *features), requirement="R3.5-5",
            flags=("merges-missing", "text-encoding", "text-normalised", "first-token"),
        )  # fmt: skip
    ids = tokenizer.encode("a", add_special=True)
    yield Draft(
        f"{name}/special", "tokenize", "3.5", data, "With the first token that the file wants.", second=b"a",
        json={"ids": [int(token) for token in ids]}, args={"add_special": True}, features=("tokenizer.llama-bpe", *features),
        flags=("first-token",), requirement="R3.5-3",
    )  # fmt: skip


# --- computations ----------------------------------------------------------------------------------------------------
# Quantizing weights and activations, integer products, BitLinear.

#: Quantization rules that round ties to even, and whose result does not depend on a library's order of additions.
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


def number_drafts() -> Iterator[Draft]:
    """Yield every vector of computations."""
    yield from _quantize()
    yield from _quantize_groups()
    yield from _activations()
    yield from _products()


def _quantize() -> Iterator[Draft]:
    ternary = vector.trits("ternary weights", 4, 128).astype(np.float32) * np.float32(0.8)
    master = vector.floats("master weights", 4, 128, spread=0.25)
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
    half = np.resize(np.array([1, -1, 3, -3], dtype=np.float32), (1, 128))
    zeros = np.zeros((1, 128), dtype=np.float32)
    for name, weights, comment, flags in (
        *(case for case in cases if case[0] in ("ternary", "master", "negative")),
        ("half-of-the-mean", half, "Half of the mean, which goes away from 0.", ("quantize-rounding",)),
        ("zeros", zeros, "Weights of 0, whose scale is 1.", ("quantize-scale",)),
    ):
        yield _quantized(f"loom/{name}", weights, "loom", comment, flags)
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
        weights = vector.floats(f"{name}/master", 2, 512, spread=0.25)
        weights[0, 256:] = 0
        yield Draft(
            f"{name}/quantize/master", "quantize", "5.6", weights.astype("<f4").tobytes(),
            "Master weights, and blocks of zeros.", expected=blocks_native.quantize(weights, type),
            args={"type": name, "shape": [512, 2], "rule": "ggml"}, features=(f"type.{name}", "quantize.ggml"),
            flags=("quantize-group-scale", "quantize-rounding"),
        )  # fmt: skip


def _activations() -> Iterator[Draft]:
    x = vector.floats("activations", 4, 256, spread=3.0)
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
    made = bitlinear.quantize(x, ActivationQuantizer(**_ACTIVATIONS[rule]))
    bits = [f"{word:08x}" for word in made.scale.astype("<f4").reshape(-1).view("<u4").tolist()]
    return Draft(
        f"activation/{name}", "activation", "9.8" if rule == "golden" else "9.9", x.astype("<f4").tobytes(), comment,
        expected=made.codes.tobytes(), json={"scale_bits": bits}, args={"rule": rule, "shape": [x.shape[1], x.shape[0]]},
        features=(f"activation.{rule}",), flags=flags,
    )  # fmt: skip


def _products() -> Iterator[Draft]:
    for rows, cols, tokens in ((4, 128, 1), (6, 256, 3), (4, 384, 2)):
        trits = vector.trits(f"product/{rows}x{cols}", rows, cols)
        codes = (vector.integers(f"product/{rows}x{cols}/x", tokens * cols, 255) - 127).astype(np.int8)
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
    x = vector.floats("bitlinear", 3, 256, spread=2.0)
    trits = vector.trits("bitlinear", 6, 256)
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
