"""Ask a decoder (the plain one or a mutant of it) what a vector asks, and compare the answer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from i2s_spec.conformance.protocol_terms import canonical_json
from i2s_spec.conformance.vectors.vector import Vector
from mutants.plain_container import PlainContainer
from mutants.plain_decoder import RefusedError
from mutants.plain_numbers import PlainNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DecoderAnswer(NamedTuple):
    """A decoder's answer: bytes, JSON, or a refusal."""

    data: bytes = b""
    json: Any = None
    refused: bool = False


class NotAskedError(Exception):
    """The decoder has no answer to this kind of question."""


def asked(decoder: PlainNumbers | type[PlainContainer], vector: Vector) -> DecoderAnswer:
    """The answer of a decoder; any Python exception counts as a refusal, as an exit code would.

    :raises NotAskedError: for an operation or a type that the decoder does not have
    """
    try:
        if isinstance(decoder, PlainNumbers):
            return _numbers(decoder, vector)
        if vector.op != "container":
            raise NotAskedError(vector.op)
        return DecoderAnswer(json=decoder(vector.input()).read())
    except NotAskedError:
        raise
    except (RefusedError, ValueError, IndexError, struct.error, KeyError, OverflowError, ZeroDivisionError, RecursionError,
            MemoryError):  # fmt: skip
        return DecoderAnswer(refused=True)


def _numbers(decoder: PlainNumbers, vector: Vector) -> DecoderAnswer:
    args, data = vector.args, vector.input()
    if vector.op == "decode":
        if args["type"] == "tl2":
            raise NotAskedError("tl2")
        if args["type"] == "tl1":
            return DecoderAnswer(decoder.tl1(data, args).astype(np.int8).tobytes())
        values = decoder.trits(data, args) if args["type"] == "i2_s" else decoder.groups(data, args)[0]
        return DecoderAnswer(values.astype(np.int8).tobytes())
    if vector.op == "dequant":
        if args["type"] == "i2_s":
            trits = decoder.trits(data, args)
            return DecoderAnswer(_float_bytes(decoder.product(trits, decoder.scale(data, args))))
        return DecoderAnswer(_float_bytes(decoder.product(*decoder.groups(data, args))))
    if vector.op == "quantize":
        cols, rows = args["shape"]
        weights = np.frombuffer(data, dtype="<f4").reshape(rows, cols)
        if args["rule"] != "ggml":
            return DecoderAnswer(decoder.quantize(weights, args))
        return DecoderAnswer(json=decoder.ggml(weights, args["type"]))
    if vector.op == "activation":
        cols, rows = args["shape"]
        codes, scale = decoder.activations(np.frombuffer(data, dtype="<f4").reshape(rows, cols), args["rule"])
        bits = [f"{word:08x}" for word in scale.astype("<f4").reshape(-1).view("<u4").tolist()]
        return DecoderAnswer(np.nan_to_num(codes).astype(np.int8).tobytes(), {"scale_bits": bits})
    if vector.op == "bitlinear":
        cols = args["shape"][0]
        if args["accumulate"] == "int32":
            x = np.frombuffer(vector.second(), dtype=np.int8).reshape(-1, cols)
            return DecoderAnswer(decoder.sums(data, x, args).astype(np.int64).astype("<i4").tobytes())
        return DecoderAnswer(
            _float_bytes(decoder.bitlinear(data, np.frombuffer(vector.second(), "<f4").reshape(-1, cols), args))
        )
    raise NotAskedError(vector.op)


def passes(vector: Vector, answer: DecoderAnswer) -> bool:
    """Whether an answer is what the vector expects."""
    if vector.verdict in ("survive", "either"):
        return True
    if vector.verdict == "invalid":
        return answer.refused
    if answer.refused:
        return False
    if vector.op == "quantize" and vector.args["rule"] == "ggml":
        return _same_groups(vector, *answer.json)
    if vector.compare["class"] == "prefix":
        least = vector.compare["least"]
        return bool(answer.json["ids"][:least] == vector.json["ids"][:least])
    if vector.json is not None and canonical_json(answer.json) != canonical_json(vector.json):
        return False
    return vector.expected_blob is None or same(vector.compare, answer.data, vector.expected())


def same(compare: Any, answer: bytes, expected: bytes) -> bool:
    """Whether bytes are equal in a class of comparison; for `rtol`, `ulp`, `corr` and `rank` they are float32.

    `rank` asks for the same largest element in the last row, whose length is `columns`.
    """
    if answer == expected:
        return True
    kind = compare["class"]
    if kind in ("bits", "exact") or len(answer) != len(expected):
        return False
    got, want = np.frombuffer(answer, "<f4"), np.frombuffer(expected, "<f4")
    if kind == "rtol":
        return bool(np.allclose(got, want, rtol=compare["rtol"], atol=compare.get("atol", 0.0), equal_nan=True))
    if kind == "corr":
        if not np.isfinite(got).all() or np.ptp(got) == 0:
            return False
        close = float(np.corrcoef(got.astype(np.float64), want.astype(np.float64))[0, 1]) >= compare["corr"]
        columns = compare.get("columns", 0)
        return close and (not columns or int(got[-columns:].argmax()) == int(want[-columns:].argmax()))
    return False


def _same_groups(vector: Vector, values: NDArray[Any], scales: NDArray[np.float32]) -> bool:
    """Whether a payload with a scale for each group holds these values and scales, as the plain decoder reads it."""
    args = {key: value for key, value in vector.args.items() if key != "rule"}
    held, scale = PlainNumbers().groups(vector.expected(), args)
    return bool(np.array_equal(held, values) and np.array_equal(scale, scales))


def _float_bytes(values: NDArray[np.float32]) -> bytes:
    bits = values.astype("<f4").view("<u4").copy()
    bits[np.isnan(values)] = 0x7FC00000
    return bits.tobytes()
