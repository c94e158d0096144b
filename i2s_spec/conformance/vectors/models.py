"""This module makes the vectors of whole models: logits, embeddings, values between the layers, and tokens of texts.

The trained models that come with the package are given in several packings; embedding models and a rotated one are
small and random. A file is shared by all vectors about it. There are two kinds of comparison: `corr` for any program,
which only gross mistakes fail, and `bits` for programs that claim the profile bitnet-golden-1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.conformance.vectors.draft import Draft
from i2s_spec.conformance.vectors.i2s_payloads import float_bytes
from i2s_spec.convert.synthetic.new import new
from i2s_spec.convert.trained.model import gguf_bytes, write_trained
from i2s_spec.gguf.reader import open
from i2s_spec.model.load import load_model
from i2s_spec.model.tokenizer.tokenizer import load_tokenizer
from i2s_spec.schema.architectures.architecture import ARCHITECTURES

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model

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
    """Every vector of whole models."""
    for file in _files():
        yield from _forward(file)
    for name in ("stories", "llama"):
        yield from _tokens(name)


def _files() -> Iterator[_File]:
    text = "Once upon a time there was a little"
    for name, architecture, values in (
        ("llama", "llama", ("attn_norm-0", "Qcur-0", "Qcur-0#1", "kqv_out-0", "ffn_inp-0", "l_out-0", "result_norm")),
        ("stories", "bitnet-b1.58", ("attn_sub_norm-0", "ffn_gate-0", "ffn_sub_norm-0", "ffn_out-0")),
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
            )
            for packing, to, features, flags in packings:
                yield _File(f"{name}/{packing}", _trained(architecture, to), (arch, *features), tokens, flags, (),
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


def _trained(architecture: str, to: str) -> bytes:
    target = io.BytesIO()
    write_trained(target, architecture, to=to)
    return target.getvalue()


def _random(architecture: str, **options: Any) -> bytes:
    target = io.BytesIO()
    # the tables of 0.1.0: what was published never changes
    vocab = ARCHITECTURES[architecture].small_vocab
    new(target, architecture, layers=1, vocab=vocab, unit_tables=True, **options)
    return target.getvalue()


def _forward(file: _File) -> Iterator[Draft]:
    model = load_model(file.data, dialect=file.dialect)
    result = model.forward(file.tokens, taps=file.values)
    output = "embedding" if result.logits is None else "logits"
    found = result.logits if result.logits is not None else result.embedding
    assert found is not None
    made = Draft(
        f"forward/{file.name}/{output}", "forward", _clause(model), file.data, f"The {output} of {len(file.tokens)} tokens.",
        second=np.array(file.tokens, dtype="<i4").tobytes(), expected=float_bytes(found),
        args={"value": output, "shape": [*found.shape][::-1], "tokens": list(file.tokens)}, features=file.features,
        flags=file.flags, compare={**_CLOSE, **({"rank": 1, "columns": found.shape[-1]} if output == "logits" else {})},
        requirement="R9.3-1" if "llama" in file.name else "R9.2-1" if "stories" in file.name else "R9.4-1",
    )  # fmt: skip
    yield made
    yield replace(made, name=f"{made.name}/golden", features=(*file.features, "profile.golden-1"), compare={"class": "bits"},
                  comment=f"{made.comment[:-1]}, to the bit.", flags=(*file.flags, *file.fine), requirement="R9.7-1",
                  clause="9.7")  # fmt: skip
    for value in file.values:
        each = result.taps[value]
        yield replace(made, name=f"forward/{file.name}/{value}", expected=float_bytes(np.asarray(each, np.float32)),
                      args={**made.args, "value": value, "shape": [*each.shape][::-1]}, flags=_VALUE_FLAGS[value],
                      features=(*file.features, "forward.values"), compare={"class": "corr", "corr": 0.9999},
                      comment=f"The value {value}, as section 9.10 names it.", clause="9.10",
                      requirement="R9.7-2")  # fmt: skip


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
    "ffn_gate-0": ("gate-up-exchanged", "scale-twice"),
    "ffn_sub_norm-0": ("ffn-sub-norm-missing", "relu-not-squared"),
    "ffn_out-0": ("scale-ignored", "activation-silu"),
}


def _clause(model: Model) -> str:
    return {"llama": "9.3", "qwen3": "9.4", "gemma3": "9.4"}.get(model.architecture.name, "9.2")


def _tokens(name: str) -> Iterator[Draft]:
    data = gguf_bytes(name)
    tokenizer = load_tokenizer(open(data))
    for word, text in _TEXTS:
        ids = tokenizer.encode(text, add_special=False)
        yield Draft(
            f"tokenize/{name}/{word}", "tokenize", "3.5", data, f"A text of {word.replace('-', ' ')}, and no first token.",
            second=text.encode(), json={"ids": [int(token) for token in ids]}, args={"add_special": False},
            features=("tokenizer.llama-bpe",), flags=("merges-missing", "text-encoding", "text-normalised", "first-token"),
            requirement="R3.5-5",
        )  # fmt: skip
    ids = tokenizer.encode("a", add_special=True)
    yield Draft(
        f"tokenize/{name}/special", "tokenize", "3.5", data, "With the first token that the file wants.", second=b"a",
        json={"ids": [int(token) for token in ids]}, args={"add_special": True}, features=("tokenizer.llama-bpe",),
        flags=("first-token",), requirement="R3.5-3",
    )  # fmt: skip
