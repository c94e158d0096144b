"""Emulations of ggml: its float32 arithmetic where the last bit can change codes, and the mistakes of released kernels.

The arithmetic is that of the kernels for AVX2, whose vectors have 8 lanes, and AVX-512, with 16: `fma` is a fused
multiply-add of float32, in which the product and the sum are exact and rounded once; `silu` is x / (1 + e^-x) with the
polynomial that ggml uses for e^x; `sums` is a dot product over four vectors; `quantized_head` multiplies with a
quantized table. `KERNEL_BUGS` has the mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.codec.reference import pack_codes
from i2s_spec.codec.shape import from_bfloat16, to_bfloat16, whole_blocks
from i2s_spec.schema.dialect import CODES_PER_BYTE, LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from i2s_spec.model.reference.embedding_table import EmbeddingTable

    Floats = NDArray[np.float32]
    Emulation = Callable[[NDArray[np.uint8], NDArray[np.int8]], NDArray[np.int32]]

LANES: Final = 8
#: Vectors of a dot product.
VECTORS: Final = 4


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
    """f32(a b + c) with one rounding.

    The product is exact in float64; the sum is rounded to odd (its last bit says whether anything was lost), so that
    the following rounding to float32 has the effect of a single rounding.
    """
    product = np.asarray(a, dtype=np.float64) * np.asarray(b, dtype=np.float64)
    addend = np.asarray(c, dtype=np.float64)
    total = np.asarray(product + addend)
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(total) & ((bits & 1) == 0)
    odd = np.where(inexact, bits + np.where((lost > 0) == (total > 0), 1, -1), bits)
    result: Floats = odd.view(np.float64).astype(np.float32)
    return result


#: Coefficients of ggml's e^x: 1 + b (c1 + ...), b = x - n ln 2, with ln 2 in two parts.
_SHIFT: Final = np.float32(float.fromhex("0x1.8p23"))
_PER_LN2: Final = np.float32(float.fromhex("0x1.715476p0"))
_LN2_HIGH: Final = np.float32(float.fromhex("0x1.62e4p-1"))
_LN2_LOW: Final = np.float32(float.fromhex("0x1.7f7d1cp-20"))
_C: Final = [
    np.float32(float.fromhex(text))
    for text in ("0x1.ffffecp-1", "0x1.fffdb6p-2", "0x1.555e66p-3", "0x1.573e2ep-5", "0x1.0e402p-7")
]


def exp(x: Floats, vector: int = LANES) -> Floats:
    """e^x as in ggml's vector code, for finite x; overflow gives infinity, underflow 0.

    :param vector: lanes of a vector: with 16, the last product is fused with 1 + b c1
    """
    with np.errstate(all="ignore"):
        x = np.clip(x, np.float32(-200), np.float32(200))
        n = fma(x, _PER_LN2, _SHIFT) - _SHIFT
        b = fma(-n, _LN2_LOW, fma(-n, _LN2_HIGH, x))
        u = b * b
        high = fma(fma(_C[4], b, _C[3]), u, fma(_C[2], b, _C[1]))
        if vector > LANES:
            return np.ldexp(fma(high, u, fma(_C[0], b, np.float32(1))), n.astype(np.int32)).astype(np.float32)
        j = fma(high, u, _C[0] * b)
        # 2^n (1 + j) with one rounding: the float32 sum is scaled exactly, like a fused k + j k if k = 2^n is normal
        result: Floats = np.ldexp(np.float32(1) + j, n.astype(np.int32)).astype(np.float32)
        return result


def silu(x: Floats, vector: int = LANES) -> Floats:
    """x / (1 + e^-x) in float32."""
    with np.errstate(all="ignore"):
        result: Floats = x / (np.float32(1) + exp(np.negative(x), vector))
        return result


def gelu(x: Floats) -> Floats:
    """GELU from ggml's table: x and the result are rounded to F16."""
    from i2s_spec.model.reference import transcendental

    with np.errstate(all="ignore"):
        half = x.astype(np.float16).astype(np.float32)
        looked_up = transcendental.gelu(half).astype(np.float16).astype(np.float32)
        result: Floats = np.where(x <= -10, np.float32(0), np.where(x >= 10, x, looked_up))
        return result


def sums(x: Floats, w: Floats, vector: int = LANES) -> Floats:
    """Return the dot products of rows of x, float32 [T, K], with rows of w, float32 [N, K]: float32 [T, N].

    With vectors of 8, element k goes to lane k % 32 by a fused multiply-add; the lanes are added pairwise, vectors 0+2
    and 1+3, then halves of the vector, then neighbors twice; with vectors of 16, to lane k % 64, and halves are added to
    the end. Elements after the last whole step are multiplied in float32 and added in float64.
    """
    step = VECTORS * vector
    whole = x.shape[1] // step * step
    lanes = np.zeros((len(x), len(w), step), dtype=np.float32)
    for k in range(0, whole, step):
        lanes = fma(x[:, None, k : k + step], w[None, :, k : k + step], lanes)
    v = lanes.reshape(len(x), len(w), VECTORS, vector)
    one = (v[:, :, 0] + v[:, :, 2]) + (v[:, :, 1] + v[:, :, 3])
    total: Floats
    if vector > LANES:
        total = _by_halves(one)
    else:
        four = one[..., :4] + one[..., 4:]
        total = (four[..., 0] + four[..., 1]) + (four[..., 2] + four[..., 3])
    if whole == x.shape[1]:
        return total
    wide = total.astype(np.float64)
    for k in range(whole, x.shape[1]):
        wide += (x[:, None, k] * w[None, :, k]).astype(np.float64)
    narrow: Floats = wide.astype(np.float32)
    return narrow


def sums_of_vectors(x: Floats, vector: int = LANES) -> NDArray[np.float64]:
    """Return the sum over the last axis: of each vector of elements in float32, halves first, then of these in
    float64 by index."""
    rest = -x.shape[-1] % vector
    wide = np.concatenate([x, np.zeros((*x.shape[:-1], rest), dtype=np.float32)], axis=-1) if rest else x
    each = _by_halves(wide.reshape(*x.shape[:-1], -1, vector))
    total: NDArray[np.float64] = np.cumsum(each.astype(np.float64), axis=-1)[..., -1]
    return total


def _by_halves(x: Floats) -> Floats:
    """Return the sum of a vector: its halves are added until one number is left."""
    while x.shape[-1] > 1:
        x = x[..., : x.shape[-1] // 2] + x[..., x.shape[-1] // 2 :]
    return x[..., 0]


def bfloat16(x: Floats) -> Floats:
    """Round to BF16, ties to even."""
    result: Floats = np.where(np.isnan(x), x, from_bfloat16(to_bfloat16(x)))
    return result


#: Elements of a block of activations, by the type of the matrix: Q8_K for Q6_K, Q8_0 for Q8_0.
_BLOCKS: Final = {"Q6_K": 256, "Q8_0": 32}


def quantized_head(table: EmbeddingTable, x: Floats) -> Floats:
    """Return the products of activations with a Q6_K or Q8_0 table as in ggml: activations are quantized to int8 by
    blocks.

    Sums of integers are exact; blocks are added in float64, where ggml adds float32 lanes (8e-8 away).
    """
    size = _BLOCKS[table.type]
    blocks = x.reshape(len(x), -1, size)
    with np.errstate(all="ignore"):
        if table.type == "Q6_K":
            largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=-1)[..., None], axis=-1)
            inverse = np.where(largest == 0, np.float32(0), np.float32(-127) / largest)
            q = np.minimum(np.rint(blocks * inverse), 127)
            d = np.where(inverse == 0, np.float32(0), np.float32(1) / inverse)[..., 0]
        else:
            amax = np.abs(blocks).max(axis=-1, keepdims=True)
            d = amax / np.float32(127)
            inverse = np.where(d == 0, np.float32(0), np.float32(1) / d)
            scaled = blocks * inverse
            q = np.rint(scaled)
            d = d[..., 0].astype(np.float16).astype(np.float32)
    out = np.empty((len(x), table.rows), dtype=np.float32)
    step = max(1, (1 << 20) // table.columns)
    wide = np.nan_to_num(q).astype(np.float64) * d[..., None].astype(np.float64)
    for start in range(0, table.rows, step):
        rows = table.take(np.arange(start, min(start + step, table.rows)))
        for t in range(len(x)):
            terms = wide[t].reshape(-1) * rows.astype(np.float64)
            out[t, start : start + len(rows)] = np.cumsum(terms, axis=-1)[:, -1]
    return out


# --- kernel bugs -----------------------------------------------------------------------------------------------------
# Named mistakes, in plain NumPy. All are deterministic and reproduce the recorded outputs of those kernels bit for bit,
# so a report can say which of them explains a sum. Each takes the weights as codes 0 to 3, uint8 [N, K], and activation
# codes, int8 [T, K], and gives the kernel's result for `dot`, int32 [T, N]: codes times activation codes, before the
# offset is subtracted.
#
# Two more mistakes are only named, because their results depend on the contents of memory: `nrc-4`, where an ARM build
# with dot products passes four tokens to a kernel for one, and `row-split`, where two threads share rows that are not a
# multiple of four and write to each other's rows.

#: Columns of a block, number of 16-bit lanes, and neighboring columns that go to one lane, by kernel.
_KERNELS: Final = {"avx2": (128, 16, 2), "neon": (64, 8, 1)}
#: How many blocks are added before the lanes are widened.
_GROUP: Final = 32

Kernel = Literal["avx2", "neon"]


def int16_wrap(weights: NDArray[np.uint8], codes: NDArray[np.int8], kernel: Kernel = "avx2") -> NDArray[np.int32]:
    """Sum 32 blocks in 16-bit lanes, which wrap around: builds without VNNI or dot products.

    A lane adds 256 products of up to 254, or of -256. Sums that fit are right; a sum that overflows is off by 65,536.

    :param kernel: `avx2`: lanes take neighboring pairs, 4,096 columns at a time; `neon`, ARM since November 2025: every
        eighth column, 2,048 at a time
    """
    block, lanes, neighbors = _KERNELS[kernel]
    sums = np.zeros((len(codes), len(weights)), dtype=np.int32)
    step = block * _GROUP
    for start in range(0, weights.shape[1], step):
        by_lane = [
            each[:, start : start + step]
            .astype(np.float32)
            .reshape(len(each), -1, lanes, neighbors)
            .transpose(2, 0, 1, 3)
            for each in (codes, weights)
        ]
        tokens, rows = (np.ascontiguousarray(each).reshape(lanes, each.shape[1], -1) for each in by_lane)
        lane = np.matmul(tokens, rows.transpose(0, 2, 1))  # exact: below 2^24
        sums += lane.astype(np.int32).astype(np.int16).sum(axis=0, dtype=np.int32)
    return sums


def rows_of_four(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Read a payload in `rows-1x4` as blocks of 128 columns: an x86 build without ACT_PARALLEL on its own files."""
    return _as_blocks(_packed(weights, "rows-1x4"), weights.shape[0], weights.shape[1], codes)


def truncated_rows(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Read rows from byte row * K // 4 in whole blocks, where K is not a multiple of 128.

    Such rows begin inside a block, and their last K % 128 columns are left out. If K is a multiple of 128, the result
    is right.
    """
    return _as_blocks(_packed(weights, "interleave-128"), weights.shape[0], weights.shape[1], codes)


def truncated_columns(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Leave the last K % 128 columns out: a kernel that does read `rows-1x4`, and is right otherwise."""
    whole = weights.shape[1] // LAYOUTS["interleave-128"].block * LAYOUTS["interleave-128"].block
    return int16_wrap(weights[:, :whole], codes[:, :whole])


#: Every mistake that can be computed, by its name.
KERNEL_BUGS: Final[Mapping[str, Emulation]] = MappingProxyType(
    {
        "int16-wrap/avx2": int16_wrap,
        "int16-wrap/neon": lambda weights, codes: int16_wrap(weights, codes, "neon"),
        "rows-of-four": rows_of_four,
        "truncated-rows": truncated_rows,
        "truncated-columns": truncated_columns,
    }
)


def _packed(weights: NDArray[np.uint8], layout: str) -> NDArray[np.uint8]:
    """Return the payload as released quantizers write it: bytes of incomplete blocks are 0."""
    rows, columns = whole_blocks(LAYOUTS[layout], *weights.shape)
    payload = np.zeros(weights.size // CODES_PER_BYTE, dtype=np.uint8)
    whole = pack_codes(weights.reshape(-1)[: rows * columns].reshape(rows, columns), LAYOUTS[layout])
    payload[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
    return payload


def _as_blocks(payload: NDArray[np.uint8], rows: int, columns: int, codes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the sums of a kernel that reads whole blocks from byte row * columns // 4 on, whatever the bytes are."""
    layout = LAYOUTS["interleave-128"]
    k = np.arange(columns // layout.block * layout.block)
    byte, shift = layout.byte_of(k, 1, columns), layout.shift_of(k, 1, columns).astype(np.uint8)
    starts = np.arange(rows)[:, None] * (columns // CODES_PER_BYTE)
    return int16_wrap(payload[starts + byte] >> shift & 3, codes[:, : k.size])
