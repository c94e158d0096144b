"""This module computes one projection outside of a model: activations to integers, integers to a product, product to
floats.

It does what a model does with each of its ternary matrices (clause 9.8), with any matrix and activations:

    quantize_activations    codes, scale and sum of each token, by any numeric profile
    integer_product         sums of trits times codes: exact, or as a faulty released kernel computes them
    bitlinear               all three steps

Weights are trits, or the bytes of an I2_S tensor in any dialect. Everything here uses the same code as models, with the
compiled kernels of `matmul`.

>>> x = np.array([[0.5, -1.0, 0.25, 0.0]], dtype=np.float32)
>>> bitlinear(x, np.array([[1, 1, 0, -1]], dtype=np.int8), 2.0)
array([[-0.992126]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec import kernels, native
from i2s_spec.codec.reference import UnusedCode
from i2s_spec.codec.shape import matrix, octets
from i2s_spec.errors import quote
from i2s_spec.model.numerics import NumericProfile, numeric_profile
from i2s_spec.model.reference import bitlinear as activation_quant
from i2s_spec.model.reference import bitlinear as definition
from i2s_spec.model.reference import linear, matmul
from i2s_spec.model.reference.bitlinear import Quantized
from i2s_spec.model.reference.ggml_math import KERNEL_BUGS
from i2s_spec.model.reference.linear import Projections
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Dialect
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The type of weights for which a profile gives the quantizer of activations.
_TYPE: Final = "I2_S"


def quantize_activations(x: NDArray[np.float32], *, numerics: str | NumericProfile = "bitnet-golden-1") -> Quantized:
    """Tokens as int8 codes, with the scales by which they were multiplied and the sums of their codes (clauses 9.8 and
    9.9).

    :param x: float32 [T, K]
    :param numerics: a numeric profile or its name; `bitnet-golden-1` is the definition
    :returns: `codes` int8 [T, K]; `scale` float32 [T], or [T, groups] if a profile has several scales for a token;
    `sums` int32 [T]; `steps` shaped like `scale`, the value of code 1 if the runtime stores that, else None
    :raises TypeError: for a wrong element type
    :raises ValueError: for a wrong number of dimensions, a profile that does not exist or that leaves activations
    floats, and a width that is not a multiple of the profile's groups
    """
    definition.check_tokens(x)
    profile = numeric_profile(numerics)
    rule = profile.quantizer_of(_TYPE)
    if rule.groups == "none":
        raise ValueError(f"numeric profile {quote(profile.name)} leaves activations floats: there are no codes")
    return activation_quant.quantize(x, rule)


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
    """The sums of trits times activation codes (clause 9.8), exact or as a faulty kernel computes them.

    :param weights: int8 trits [N, K]; or, with `shape`, a payload in `dialect`, with or without its tail
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
    found = _weights(weights, None, shape, dialect, unused_code, "little", threads, scaled=False)
    _check_codes(codes, found.codes.shape[1])
    if kernel == "exact":
        ternary, wide = found.whole(), _padded(codes)
        sums = matmul.dot(ternary.payload, ternary.rows, ternary.columns, wide, threads=threads)
    else:
        sums = KERNEL_BUGS[kernel](found.codes, codes)
    if offset == "subtracted":
        sums -= codes.sum(axis=1, dtype=np.int32)[:, None]
    return sums


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
    :param weights: int8 trits [N, K]; or, with `shape`, the bytes of an I2_S tensor in `dialect`: payload and tail, or the
        payload alone
    :param scale: the value of +1; required without a tail, and used instead of the tail's scale if there is one
    :param shape: (N, K) if weights are bytes
    :param numerics: a numeric profile or its name: `bitnet-golden-1` is the definition, the others emulate runtimes
    :param byte_order: the byte order of the tail
    :param unused_code: as for `integer_product`
    :param threads: how many threads may work; the result does not depend on it
    :returns: float32 [T, N]
    :raises TypeError: for activations or trits of a wrong type
    :raises ValueError: for sizes that do not match, a missing scale, and as `integer_product` does
    """
    definition.check_tokens(x)
    found = _weights(weights, scale, shape, dialect, unused_code, byte_order, threads, scaled=True)
    if x.shape[1] != found.codes.shape[1]:
        raise ValueError(f"activations have the shape [tokens, {found.codes.shape[1]:,}], not {list(x.shape)}")
    profile = numeric_profile(numerics)
    rule = profile.quantizer_of(_TYPE)
    if rule.groups == "none":
        floats = (found.codes.astype(np.int8) - np.int8(1)).astype(np.float32) * found.scale
        return Projections(profile, threads).products(x, floats)
    quantized = activation_quant.quantize(x, rule)
    wide = quantized._replace(codes=_padded(quantized.codes))
    y, _ = linear.quantized_linear(wide, rule, found.whole(), threads)
    return y


class _Weights(NamedTuple):
    """A ternary matrix as codes, uint8 [N, K], from trits or bytes of any dialect."""

    codes: NDArray[np.uint8]
    scale: np.float32

    def whole(self) -> Ternary:
        """The matrix in canonical blocks, rows padded with zeros, which are multiplied with activation codes 0."""
        rows, columns = self.codes.shape
        wide, codes = _whole(columns), self.codes
        if wide != columns:
            codes = np.ones((rows, wide), dtype=np.uint8)
            codes[:, :columns] = self.codes
        packed = np.empty(rows * wide // CODES_PER_BYTE, dtype=np.uint8)
        kernels.pack(codes.reshape(-1), kernels.run_layout(CANONICAL.layout, rows, wide), None, packed, 1)
        return Ternary(packed, rows, wide, self.scale)


def _weights(
    weights: Any,
    scale: float | None,
    shape: Sequence[int] | None,
    dialect: str | Dialect,
    unused_code: UnusedCode,
    byte_order: ByteOrder,
    threads: int,
    *,
    scaled: bool,
) -> _Weights:
    """A matrix from the arguments of a caller."""
    if shape is None:
        trits = np.asarray(weights)
        if trits.dtype != np.int8:
            raise TypeError(f"trits must be int8, not {trits.dtype}; for bytes of a tensor, give shape=")
        rows, columns = matrix(trits.shape)
        if ((trits < -1) | (trits > 1)).any():
            raise ValueError("trits must be -1, 0 or +1")
        if scaled and scale is None:
            raise ValueError("trits need a scale: give scale=")
        codes = (trits.reshape(rows, columns) + np.int8(1)).astype(np.uint8)
        return _Weights(codes, np.float32(0 if scale is None else scale))
    rows, columns = matrix(shape)
    raw = octets(weights)
    if raw.size == rows * columns // CODES_PER_BYTE:
        if scaled and scale is None:
            raise ValueError("a payload without its tail needs a scale: give scale=")
        raw = np.concatenate([raw, np.zeros(TAIL_BYTES, dtype=np.uint8)])
    trits, found = native.unpack(
        raw, (rows, columns), dialect, byte_order=byte_order, unused_code=unused_code, threads=threads
    )
    codes = (trits + np.int8(1)).astype(np.uint8)
    return _Weights(codes, found if scale is None else np.float32(scale))


def _whole(columns: int) -> int:
    block = CANONICAL.layout.block
    return -(-columns // block) * block


def _padded(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Activation codes, padded with zeros to whole blocks."""
    wide = _whole(codes.shape[1])
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
