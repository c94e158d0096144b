"""Programs that run models wrongly, tokenize wrongly, or check files wrongly.

Of models these are the mistakes that `golden compare` names, each applied to the model that a vector holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from i2s_spec.conformance.vectors.vector import Vector
from i2s_spec.gguf.reader import open
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.tokenizer.tokenizer import Tokenizer, load_tokenizer
from mutants.answers import DecoderAnswer


class ModelMutant(NamedTuple):
    """A program with one mistake in how it processes a whole file.

    :param op: the operation that it gets wrong
    :param answer: what it answers to a vector; None where the mistake makes no difference to the file
    """

    name: str
    flag: str
    op: str
    answer: Callable[[Vector], DecoderAnswer | None]


def all_mutants() -> Iterator[ModelMutant]:
    """Every mutant of models, tokenizers and validators."""
    for mistake in MISTAKES:
        yield ModelMutant(mistake.name, mistake.name, "forward", _forward(mistake.apply))
        if mistake.name in _GENERATING:
            yield ModelMutant(f"{mistake.name}-tokens", mistake.name, "generate", _tokens(mistake.apply))
    yield ModelMutant("letters-alone", "merges-missing", "tokenize", _letters)
    yield ModelMutant(
        "text-latin-1", "text-encoding", "tokenize", _changed(lambda text: text.encode().decode("latin-1"))
    )
    yield ModelMutant("text-lower", "text-normalised", "tokenize", _changed(str.lower))
    yield ModelMutant("text-blanks", "text-normalised", "tokenize", _changed(lambda text: " ".join(text.split())))
    yield ModelMutant("first-token-missing", "first-token", "tokenize", _first(False))
    yield ModelMutant("first-token-always", "first-token", "tokenize", _first(True))
    for phase in ("magic", "header", "metadata", "info", "extent", "payload"):
        yield ModelMutant(f"accepts-bad-{phase}", f"accepts-bad-{phase}", "verdict", _accepts("GIB", phase))
    yield ModelMutant("refuses-all-files", "refuses-everything", "verdict", lambda vector: DecoderAnswer(refused=True))
    yield ModelMutant("refuses-files-of-36", "refuses-type-36", "verdict", _refuses_36)
    for family, flag in (("M", "model-not-checked"), ("S", "bounds-not-checked")):
        yield ModelMutant(flag, flag, "verdict", _accepts(family, None))


def right_answer(vector: Vector) -> DecoderAnswer | None:
    """What the program without a mistake answers."""
    if vector.op == "forward":
        return _values(_model(vector), vector)
    if vector.op == "generate":
        return _greedy(_model(vector), vector)
    if vector.op == "tokenize":
        return DecoderAnswer(json={"ids": _ids(vector, vector.second().decode(), vector.args["add_special"])})
    return (
        DecoderAnswer(json={"verdict": "invalid"}, refused=True)
        if _errors(vector.input())
        else DecoderAnswer(json={"verdict": "valid"})
    )


#: The mistakes that programs make which return tokens alone; of the others, values show more.
_GENERATING: Final = ("rope-pairs", "gains-missing", "scale-ignored")


def _tokens(apply: Callable[[Model], Model | None]) -> Callable[[Vector], DecoderAnswer | None]:
    def answer(vector: Vector) -> DecoderAnswer | None:
        model = apply(_model(vector))
        return None if model is None else _greedy(model, vector)

    return answer


def _greedy(model: Model, vector: Vector) -> DecoderAnswer:
    """The likeliest tokens that follow, each from a pass over all before it."""
    tokens = list(vector.args["tokens"])
    for _ in range(vector.args["count"]):
        logits = model.forward(tokens).logits
        assert logits is not None
        tokens.append(int(logits[-1].argmax()))
    return DecoderAnswer(json={"ids": tokens[len(vector.args["tokens"]) :]})


def _refuses_36(vector: Vector) -> DecoderAnswer | None:
    """A validator to which type 36 is a fault."""
    return DecoderAnswer(refused=True) if "type.i2_s" in vector.features else right_answer(vector)


def _forward(apply: Callable[[Model], Model | None]) -> Callable[[Vector], DecoderAnswer | None]:
    changed: dict[str, dict[str, Any] | None] = {}

    def answer(vector: Vector) -> DecoderAnswer | None:
        key = vector.input_blob.sha256
        if key not in changed:
            model = apply(_model(vector))
            changed[key] = None if model is None else _outputs(model, vector.args["tokens"])
        found = changed[key]
        return None if found is None else _answer(found.get(vector.args["value"]))

    return answer


@cache
def _loaded(data: bytes, dialect: str) -> Model:
    return load_model(data, dialect=dialect)


def _model(vector: Vector) -> Model:
    return _loaded(vector.input(), "interleave-64" if "layout.arm-64" in vector.features else "canonical")


#: Values between the layers that vectors ask for.
_TAPS: Final = (
    "attn_norm-0", "Qcur-0", "Qcur-0#1", "kqv_out-0", "ffn_inp-0", "l_out-0", "result_norm", "attn_sub_norm-0", "ffn_gate-0",
    "ffn_sub_norm-0", "ffn_out-0",
)  # fmt: skip


def _outputs(model: Model, tokens: list[int]) -> dict[str, Any]:
    names = {node.name for node in model.graph}
    taps = [name for name in _TAPS if name.partition("#")[0] in names]
    with np.errstate(all="ignore"):
        try:
            result = model.forward(tokens, taps=taps)
        except ValueError:
            result = model.forward(tokens)
    return {"logits": result.logits, "embedding": result.embedding, **result.taps}


def _values(model: Model, vector: Vector) -> DecoderAnswer:
    return _answer(_outputs(model, vector.args["tokens"])[vector.args["value"]])


def _answer(values: Any) -> DecoderAnswer:
    if values is None:
        return DecoderAnswer(refused=True)
    floats = np.asarray(values, dtype=np.float32)
    bits = floats.astype("<f4").view("<u4").copy()
    bits[np.isnan(floats)] = 0x7FC00000
    return DecoderAnswer(bits.tobytes())


@cache
def _tokenizer_of(data: bytes) -> Tokenizer:
    return load_tokenizer(open(data))


def _ids(vector: Vector, text: str, special: bool) -> list[int]:
    return [int(token) for token in _tokenizer_of(vector.input()).encode(text, add_special=special)]


def _changed(change: Callable[[str], str]) -> Callable[[Vector], DecoderAnswer | None]:
    """The text changed before it is split."""
    return lambda vector: DecoderAnswer(
        json={"ids": _ids(vector, change(vector.second().decode()), vector.args["add_special"])}
    )


def _first(special: bool) -> Callable[[Vector], DecoderAnswer | None]:
    """The first token always there, or never."""
    return lambda vector: DecoderAnswer(json={"ids": _ids(vector, vector.second().decode(), special)})


def _letters(vector: Vector) -> DecoderAnswer:
    """Each letter split by itself, so that nothing is merged."""
    each = (_ids(vector, letter, False) for letter in vector.second().decode())
    return DecoderAnswer(json={"ids": [token for ids in each for token in ids]})


@cache
def _errors(data: bytes) -> tuple[str, ...]:
    """The codes of every error that the linter finds."""
    return tuple(finding.code for finding in lint(data).findings if finding.rule.severity is Severity.ERROR)


def _accepts(families: str, phase: str | None) -> Callable[[Vector], DecoderAnswer | None]:
    """A validator that does not look at a part of a file."""

    def answer(vector: Vector) -> DecoderAnswer | None:
        errors = _errors(vector.input())
        blind = vector.rule is not None and vector.rule[0] in families and (phase is None or vector.phase == phase)
        found = () if blind else errors
        return (
            DecoderAnswer(json={"verdict": "invalid"}, refused=True)
            if found
            else DecoderAnswer(json={"verdict": "valid"})
        )

    return answer
