"""One projection outside of a model: activations to integers, integers to a product, product to floats (clause 9.8).

It is what a model does with each of its ternary matrices, with any matrix and activations:

    quantize_activations    codes, scale and sum of each token, by any numeric profile
    integer_product         sums of trits times codes: exact, or as a faulty released kernel computes them
    bitlinear               all three steps
    prepare                 a matrix once for many products

Weights are trits, the bytes of an I2_S tensor in any dialect, or what `prepare` made of either. Everything here uses the
same code as models, with the compiled kernels of `reference.matmul`. What a call costs beside the product of one token:

    prepared                nothing that grows with the matrix
    canonical bytes         a look for code 3, at rows that are multiplied next and therefore are in cache
    trits                   one pass, which packs them
    all other bytes         they are unpacked and packed again: other dialects, and rows of canonical bytes that are no
                            whole blocks of 128; also the bytes of a tensor in which code 3 was found

    >>> x = np.array([[0.5, -1.0, 0.25, 0.0]], dtype=np.float32)
    >>> bitlinear(x, np.array([[1, 1, 0, -1]], dtype=np.int8), 2.0)
    array([[-0.992126]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np

from i2s_spec.codec import kernels, native
from i2s_spec.codec.observation import read_tail
from i2s_spec.codec.reference import UnusedCode, trits_of_codes
from i2s_spec.codec.shape import matrix, octets
from i2s_spec.errors import quote
from i2s_spec.model.numerics import NumericProfile, numeric_profile
from i2s_spec.model.reference import bitlinear as reference
from i2s_spec.model.reference import linear, matmul
from i2s_spec.model.reference.bitlinear import Activations, Quantized
from i2s_spec.model.reference.ggml_math import KERNEL_BUGS
from i2s_spec.model.reference.linear import Projections
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, CodeMap, Dialect, parse
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Result = TypeVar("_Result")

#: The type of weights for which a profile gives the quantizer of activations.
_TYPE: Final = "I2_S"
_BLOCK: Final = CANONICAL.layout.block


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PreparedMatrix:
    """A ternary matrix that products can begin with at once; `prepare` makes it.

    :param payload: the codes of the trits in the canonical dialect, uint8, rows one after the other and each padded with
        weights 0 to whole blocks of 128: [N * ceil(K / 128) * 32]
    :param shape: (N, K): a product takes tokens [T, K] and gives [T, N]
    :param scale: float32, the value of +1; None if it is not known, and `bitlinear` needs it
    """

    payload: NDArray[np.uint8]
    shape: tuple[int, int]
    scale: np.float32 | None

    def __repr__(self) -> str:
        scale = "unknown" if self.scale is None else str(self.scale)
        return f"<PreparedMatrix: {list(self.shape)} trits, scale {scale}>"

    @property
    def columns(self) -> int:
        """Columns with the padding."""
        return -(-self.shape[1] // _BLOCK) * _BLOCK

    def codes(self) -> NDArray[np.uint8]:
        """Return the codes 0 to 3 of the weights, uint8 [N, K]."""
        rows, columns = self.shape
        codes = np.empty((rows, self.columns), dtype=np.uint8)
        where = kernels.run_layout(CANONICAL.layout, rows, self.columns)
        kernels.unpack(self.payload, where, None, codes.reshape(-1), 1)
        return np.ascontiguousarray(codes[:, :columns])


def prepare(
    weights: Any,
    shape: Sequence[int] | None = None,
    scale: float | None = None,
    *,
    dialect: str | Dialect = "canonical",
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    threads: int = 1,
) -> PreparedMatrix:
    """Return a ternary matrix for many products: `bitlinear` and `integer_product` take the result in the place of
    weights.

    It is read, checked and, where it must be, packed again once; products then neither copy nor check anything of it.

    :param weights: int8 trits [N, K]; or, with `shape`, the bytes of an I2_S tensor in `dialect`: payload and tail, or the
        payload alone. Canonical bytes with rows of whole blocks are not copied: they must stay as they are
    :param shape: (N, K) if weights are bytes
    :param scale: the value of +1, used instead of the tail's; without either, `bitlinear` wants it with each call
    :param byte_order: the byte order of the tail
    :param unused_code: the treatment of code 3: `reject`, `zero` like the dequantizer, or `plus-two` like all kernels
    :param threads: how many threads may work
    :returns: an object with `shape` (N, K), `scale` float32 or None, and `payload`, uint8: the canonical codes with rows
        padded to blocks of 128
    :raises TypeError: for trits of a wrong type
    :raises ValueError: for a size that does not match, values that are not trits, and code 3 if it is rejected
    """
    found, again = _read(weights, scale, shape, dialect, unused_code, byte_order, threads)
    return _looked_at(found, again, threads)


def quantize_activations(x: NDArray[np.float32], *, numerics: str | NumericProfile = "bitnet-golden-1") -> Quantized:
    """Quantize tokens to int8 codes, with the scales by which they were multiplied and the sums of codes (clauses 9.8, 9.9).

    :param x: float32 [T, K]
    :param numerics: a numeric profile or its name; `bitnet-golden-1` is the definition
    :returns: `codes` int8 [T, K]; `scale` float32 [T], or [T, groups] if a profile has several scales for a token;
    `sums` int32 [T]; `steps` shaped like `scale`, the value of code 1 if the runtime stores that, else None
    :raises TypeError: for a wrong element type
    :raises ValueError: for a wrong number of dimensions, a profile that does not exist or that leaves activations
    floats, and a width that is not a multiple of the profile's groups
    """
    reference.check_tokens(x)
    profile = numeric_profile(numerics)
    rule = profile.quantizer_of(_TYPE)
    if rule.groups == "none":
        raise ValueError(f"numeric profile {quote(profile.name)} leaves activations floats: there are no codes")
    return matmul.quantize(x, rule)


def integer_product(
    weights: Any,
    codes: NDArray[np.int8],
    shape: Sequence[int] | None = None,
    *,
    kernel: str = "exact",
    offset: Literal["subtracted", "kept"] = "subtracted",
    dialect: str | Dialect = "canonical",
    unused_code: UnusedCode = "reject",
    threads: int = 1,
) -> NDArray[np.int32]:
    """Return the sums of trits times activation codes (clause 9.8), exact or as a faulty kernel computes them.

    :param weights: int8 trits [N, K]; with `shape`, a payload in `dialect`, with or without its tail; or the result of
        `prepare`, which nothing that says how to read bytes changes
    :param codes: int8 [T, K]
    :param shape: (N, K) if weights are bytes
    :param kernel: `exact`, or a mistake: `int16-wrap/avx2` and `int16-wrap/neon`, lanes of 16 bits that wrap around
        (x86 without VNNI, ARM without dot products); `rows-of-four`, rows-1x4 read as blocks of 128 (x86 without
        ACT_PARALLEL); `truncated-rows` and `truncated-columns`, widths that are not multiples of 128
    :param offset: `subtracted`: the sum of w q; `kept`: the sum of c q with the weights' codes, which kernels compute first
    :param unused_code: the treatment of code 3: `reject`, `zero` like the dequantizer, or `plus-two` like all kernels
    :param threads: how many threads may work; the sums do not depend on it
    :returns: int32 [T, N]
    :raises TypeError: for codes or trits of a wrong type
    :raises ValueError: for sizes that do not match, a kernel or an offset that does not exist, values that are not
    trits, and code 3 if it is rejected
    """
    if kernel != "exact" and kernel not in KERNEL_BUGS:
        raise ValueError(f"unknown kernel {quote(kernel)}; there are: exact, {', '.join(KERNEL_BUGS)}")
    if offset not in ("subtracted", "kept"):
        raise ValueError(f"the offset must be 'subtracted' or 'kept', not {quote(str(offset))}")
    found, again = _read(weights, None, shape, dialect, unused_code, "little", threads)
    rows, columns = found.shape
    _check_codes(codes, columns)
    if kernel != "exact":
        sums = KERNEL_BUGS[kernel](_looked_at(found, again, threads).codes(), codes)
        if offset == "subtracted":
            sums -= codes.sum(axis=1, dtype=np.int32)[:, None]
        return sums
    multiply, wide = matmul.accumulate if offset == "subtracted" else matmul.dot, _padded(codes)
    return _computed(
        found, again, wide, lambda it, look: multiply(it.payload, rows, it.columns, wide, threads=threads, look=look)
    )


def bitlinear(
    x: NDArray[np.float32],
    weights: Any,
    scale: float | None = None,
    shape: Sequence[int] | None = None,
    *,
    numerics: str | NumericProfile = "bitnet-golden-1",
    dialect: str | Dialect = "canonical",
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    threads: int = 1,
) -> NDArray[np.float32]:
    """BitLinear: the product of tokens with a ternary matrix, as a runtime computes it (clauses 9.8 and 9.9).

    :param x: float32 [T, K]
    :param weights: int8 trits [N, K]; with `shape`, the bytes of an I2_S tensor in `dialect`: payload and tail, or the
        payload alone; or the result of `prepare`, which nothing that says how to read bytes changes
    :param scale: the value of +1; required without a tail, and used instead of the scale of a tail or of `prepare`
    :param shape: (N, K) if weights are bytes
    :param numerics: a numeric profile or its name: `bitnet-golden-1` is the definition, the others emulate runtimes
    :param byte_order: the byte order of the tail
    :param unused_code: as for `integer_product`
    :param threads: how many threads may work; the result does not depend on it
    :returns: float32 [T, N]
    :raises TypeError: for activations or trits of a wrong type
    :raises ValueError: for sizes that do not match, a missing scale, and as `integer_product` does
    """
    reference.check_tokens(x)
    found, again = _read(weights, scale, shape, dialect, unused_code, byte_order, threads)
    if (ws := found.scale) is None:
        what = "trits need" if shape is None else "a payload without its tail needs"
        what = "the prepared matrix needs" if isinstance(weights, PreparedMatrix) else what
        raise ValueError(f"{what} a scale: give scale=")
    rows, columns = found.shape
    if x.shape[1] != columns:
        raise ValueError(f"activations have the shape [tokens, {columns:,}], not {list(x.shape)}")
    profile = numeric_profile(numerics)
    rule = profile.quantizer_of(_TYPE)
    if rule.groups == "none":
        trits = _looked_at(found, again, threads).codes().view(np.int8) - np.int8(1)
        return Projections(profile, threads).products(x, trits.astype(np.float32) * ws)
    if rule == matmul.DEFINITION:
        tokens: NDArray[np.float32] | Activations = x
        if found.columns != columns:
            made = matmul.quantize_activations(x, threads=threads)
            tokens = made._replace(codes=_padded(made.codes))
        return _computed(
            found, again, x,
            lambda it, look: matmul.linear(it.payload, ws, rows, it.columns, tokens, threads=threads, look=look),
        )  # fmt: skip
    it, quantized = _looked_at(found, again, threads), matmul.quantize(x, rule, threads=threads)
    wide = quantized._replace(codes=_padded(quantized.codes))
    y, _ = linear.quantized_linear(wide, rule, Ternary(it.payload, rows, it.columns, ws), threads)
    return y


#: A matrix again, by way of its trits: bytes with code 3, which this refuses or makes another weight of.
_Again = Callable[[], PreparedMatrix]


def _read(
    weights: Any,
    scale: float | None,
    shape: Sequence[int] | None,
    dialect: str | Dialect,
    unused_code: UnusedCode,
    byte_order: ByteOrder,
    threads: int,
) -> tuple[PreparedMatrix, _Again | None]:
    """Return the matrix that a caller gives, and what to do about code 3 where it must not be in it and may be."""
    kernels.thread_count(threads)
    if isinstance(weights, PreparedMatrix):
        if shape is not None and matrix(shape) != weights.shape:
            raise ValueError(f"the prepared matrix has the shape {list(weights.shape)}, not {list(shape)}")
        return weights if scale is None else PreparedMatrix(weights.payload, weights.shape, np.float32(scale)), None
    value = None if scale is None else np.float32(scale)
    if shape is None:
        trits = np.asarray(weights)
        if trits.dtype != np.int8:
            raise TypeError(f"trits must be int8, not {trits.dtype}; for bytes of a tensor, give shape=")
        packed = _packed(trits.reshape(matrix(trits.shape)), CANONICAL.code_map, threads)
        if packed is None:
            raise ValueError("trits must be -1, 0 or +1")
        return PreparedMatrix(packed, matrix(trits.shape), value), None
    rows, columns = matrix(shape)
    dialect, raw = parse(dialect), octets(weights)
    payload_bytes = rows * columns // CODES_PER_BYTE
    alone = raw.size == payload_bytes

    def again() -> PreparedMatrix:
        whole = np.concatenate([raw, np.zeros(TAIL_BYTES, dtype=np.uint8)]) if alone else raw
        trits, found = native.unpack(
            whole, (rows, columns), dialect, byte_order=byte_order, unused_code=unused_code, threads=threads
        )
        packed = _packed(trits + np.int8(1), None, threads)  # +2 is no trit
        assert packed is not None
        return PreparedMatrix(packed, (rows, columns), value if alone or value is not None else found)

    plain = (dialect.layout, dialect.code_map) == (CANONICAL.layout, CANONICAL.code_map) and columns % _BLOCK == 0
    if not plain or raw.size not in (payload_bytes, payload_bytes + TAIL_BYTES):
        return again(), None
    if unused_code not in ("reject", "zero"):
        trits_of_codes(dialect.code_map, unused_code)  # refuses policies that do not exist
    found = None if alone else read_tail(raw[payload_bytes:], dialect.tail, byte_order)
    it = PreparedMatrix(raw[:payload_bytes], (rows, columns), found if value is None else value)
    return it, None if unused_code == "plus-two" else again


def _computed(
    found: PreparedMatrix,
    again: _Again | None,
    tokens: NDArray[Any],
    multiply: Callable[[PreparedMatrix, bool], _Result],
) -> _Result:
    """Return a product that looks for code 3 where it must; with code 3 the product of what it is to be."""
    if again is not None:
        if len(tokens):
            try:
                return multiply(found, True)
            except matmul.UnusedCodeFound:
                pass
        found = again()
    return multiply(found, False)


def _looked_at(found: PreparedMatrix, again: _Again | None, threads: int) -> PreparedMatrix:
    """Return a matrix after a look for code 3 in a pass of its own."""
    unused = CANONICAL.code_map.unused
    return again() if again is not None and kernels.occurs(found.payload, unused, threads) else found


def _packed(elements: NDArray[np.int8], code_map: CodeMap | None, threads: int) -> NDArray[np.uint8] | None:
    """Return trits, or codes of a code map, [N, K], as canonical codes, rows padded with weights 0 to whole blocks; None if
    an element is neither."""
    rows, columns = elements.shape
    wide = -(-columns // _BLOCK) * _BLOCK
    whole = np.ascontiguousarray(elements)
    if wide != columns:
        whole = np.full((rows, wide), 1 if code_map is None else 0, dtype=np.int8)
        whole[:, :columns] = elements
    packed = np.empty(rows * wide // CODES_PER_BYTE, dtype=np.uint8)
    where = kernels.run_layout(CANONICAL.layout, rows, wide)
    return packed if kernels.pack(whole.reshape(-1).view(np.uint8), where, code_map, packed, threads) else None


def _padded(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Pad activation codes with zeros to whole blocks."""
    wide = -(-codes.shape[1] // _BLOCK) * _BLOCK
    if wide == codes.shape[1]:
        return codes
    padded = np.zeros((len(codes), wide), dtype=np.int8)
    padded[:, : codes.shape[1]] = codes
    return padded


def _check_codes(codes: NDArray[np.int8], columns: int) -> None:
    if codes.dtype != np.int8:
        raise TypeError(f"activation codes must be int8, not {codes.dtype}")
    if codes.ndim != 2 or codes.shape[1] != columns:
        raise ValueError(f"activation codes must have the shape [tokens, {columns:,}], not {list(codes.shape)}")
