"""The fast path of BitLinear: the functions of `bitlinear`, with compiled kernels on the packed bytes.

It has the same names, results and errors, and two more parameters, `threads` and `out`. No matrix is unpacked in
memory: kernels read the payload once for every four tokens, or once for a single token; if that is faster
(`pyx/matmul_panel.h`), many tokens share a few rows that are unpacked into the cache. Rows that begin inside a block
share bytes with other rows; they are repacked first, each time, unless `whole_rows` did that once. Property tests
compare both paths bit for bit.
"""

from __future__ import annotations

from functools import cache
from os import environ
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.codec.isa import VARIABLE, KernelSet, chosen, table
from i2s_spec.codec.kernels import thread_count
from i2s_spec.codec.shape import octets
from i2s_spec.errors import counted
from i2s_spec.model import _matmul
from i2s_spec.model.numerics import ActivationQuantizer
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.reference.bitlinear import Activations, Quantized, check_matrix, check_product, check_tokens
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK: Final = CANONICAL.layout.block
#: The rule of `linear`.
DEFINITION: Final = ActivationQuantizer()


class UnusedCodeFound(ValueError):
    """Code 3 is among weights that were to be looked at."""


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set that was compiled, the slowest first; `portable` always exists and can always run."""
    return table(_matmul.kernel_sets())


def _row() -> int:
    """Return the row of the set in use; cached, because a decoder asks for it hundreds of times for each token."""
    return _row_named(environ.get(VARIABLE))


@cache
def _row_named(name: str | None) -> int:  # the value of the variable is part of the key of the cache
    return chosen(kernel_sets()).row


def quantize_activations(x: NDArray[np.float32], *, threads: int = 1) -> Activations:
    """Quantize tokens to int8 codes with one scale each; like `bitlinear.quantize_activations`.

    :param threads: how many threads may work on it
    """
    check_tokens(x)
    tokens, columns = x.shape
    made = Activations(
        np.empty((tokens, columns), dtype=np.int8), np.empty(tokens, dtype=np.float32), np.empty(tokens, dtype=np.int32)
    )
    if columns:
        _matmul.quantize(_row(), np.ascontiguousarray(x), *made, thread_count(threads))
    else:
        made.scale[:], made.sums[:] = np.float32(127 / 1e-5), 0
    return made


def quantize(x: NDArray[np.float32], rule: ActivationQuantizer, *, threads: int = 1) -> Quantized:
    """Quantize tokens by any rule with groups; like `bitlinear.quantize`, and compiled where the definition quantizes."""
    if bitlinear.quantizes_as_defined(rule):
        return Quantized(*quantize_activations(x, threads=threads))
    return bitlinear.quantize(x, rule)


def dot(
    payload: Any,
    rows: int,
    columns: int,
    codes: NDArray[np.int8],
    *,
    threads: int = 1,
    out: NDArray[np.int32] | None = None,
    look: bool = False,
) -> NDArray[np.int32]:
    """Return the sums of weight codes times activation codes; like `bitlinear.dot`.

    :param threads: how many threads may work on it; the result does not depend on it
    :param out: a contiguous int32 array [T, rows], which is filled and returned
    :param look: whether code 3 is refused. Every set of kernels looks at some rows just before it multiplies them, while
        they are in the first cache; where there are no tokens, nothing is looked at
    :raises ValueError: also for an `out` of a wrong shape or type
    :raises UnusedCodeFound: for code 3 that was looked for
    """
    return _integers(payload, rows, columns, codes, threads, out, look, trits=False)


def accumulate(
    payload: Any,
    rows: int,
    columns: int,
    codes: NDArray[np.int8],
    *,
    threads: int = 1,
    out: NDArray[np.int32] | None = None,
    look: bool = False,
) -> NDArray[np.int32]:
    """Return the sums of trits times activation codes; like `bitlinear.accumulate`. Parameters and errors are those
    of `dot`.
    """
    return _integers(payload, rows, columns, codes, threads, out, look, trits=True)


def _integers(
    payload: Any,
    rows: int,
    columns: int,
    codes: NDArray[np.int8],
    threads: int,
    out: NDArray[np.int32] | None,
    look: bool,
    *,
    trits: bool,
) -> NDArray[np.int32]:
    packed, activations = _whole(payload, rows, columns, codes)
    sums = _array((len(codes), rows), np.int32, out)
    if _matmul.product(_row(), packed, rows, activations, sums, thread_count(threads), trits=trits, look=look):
        raise UnusedCodeFound
    return sums


def linear(
    payload: Any,
    weight_scale: float | np.float32,
    rows: int,
    columns: int,
    x: NDArray[np.float32] | Activations,
    *,
    threads: int = 1,
    out: NDArray[np.float32] | None = None,
    look: bool = False,
) -> NDArray[np.float32]:
    """BitLinear: float32 [T, columns] to float32 [T, rows]; like `bitlinear.linear`.

    :param x: tokens, or the result of `quantize_activations`, which several matrices may share
    :param out: a contiguous float32 array [T, rows], which is filled and returned
    :param look: as for `dot`
    """
    if isinstance(x, Activations):
        made = x
    elif columns % _BLOCK or x.ndim != 2 or x.shape[1] != columns:
        made = quantize_activations(x, threads=threads)
    else:
        check_tokens(x)
        check_matrix(rows, columns)
        packed, floats = _sized(payload, rows, columns), _array((len(x), rows), np.float32, out)
        tokens = x if x.flags.c_contiguous else np.ascontiguousarray(x)
        if _matmul.linear(_row(), packed, rows, tokens, floats, thread_count(threads), float(weight_scale), look):
            raise UnusedCodeFound
        return floats
    packed, codes = _whole(payload, rows, columns, made.codes)
    floats, threads = _array((len(codes), rows), np.float32, out), thread_count(threads)
    sums, scale = np.ascontiguousarray(made.sums), np.ascontiguousarray(made.scale)
    if _matmul.product(
        _row(), packed, rows, codes, floats.view(np.int32), threads, scale, sums, float(weight_scale), look=look
    ):
        raise UnusedCodeFound
    return floats


def whole_rows(payload: Any, rows: int, columns: int) -> tuple[NDArray[np.uint8], int]:
    """Return the payload of a matrix with rows padded to whole blocks, and its number of columns with the padding.

    The padding is code 0, which is the weight -1, but it is multiplied with activation codes 0.
    """
    raw = octets(payload)
    wide = -(-columns // _BLOCK) * _BLOCK
    if wide == columns:
        return raw, columns
    scheme = kernels.run_layout(CANONICAL.layout, rows, columns)
    codes = np.empty(rows * columns, dtype=np.uint8)
    kernels.unpack(raw, scheme, None, codes, 1)
    padded = np.zeros((rows, wide), dtype=np.uint8)
    padded[:, :columns] = codes.reshape(rows, columns)
    packed = np.empty(rows * wide // CODES_PER_BYTE, dtype=np.uint8)
    kernels.pack(padded.reshape(-1), scheme, None, packed, 1)
    return packed, wide


def _whole(
    payload: Any, rows: int, columns: int, codes: NDArray[np.int8]
) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Return payload and activation codes in the form for the kernels: checked, contiguous, with whole blocks in a row."""
    check_product(codes, rows, columns)
    raw = _sized(payload, rows, columns)
    if columns % _BLOCK == 0:
        return raw, codes if codes.flags.c_contiguous else np.ascontiguousarray(codes)
    packed, wide = whole_rows(raw, rows, columns)
    padded = np.zeros((len(codes), wide), dtype=np.int8)
    padded[:, :columns] = codes
    return packed, padded


def _sized(payload: Any, rows: int, columns: int) -> NDArray[np.uint8]:
    """Return the bytes of a payload, which must be as many as the matrix takes."""
    flat = (
        type(payload) is np.ndarray and payload.dtype == np.uint8 and payload.ndim == 1 and payload.flags.c_contiguous
    )
    raw: NDArray[np.uint8] = payload if flat else octets(payload)
    if raw.size != (want := rows * columns // CODES_PER_BYTE):
        raise ValueError(
            f"{rows:,} x {columns:,} codes take {counted(want, 'byte')}; there are {counted(raw.size, 'byte')}"
        )
    return raw


def _array(shape: tuple[int, int], dtype: type[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """Return the array for the result: `out` if it matches exactly, or a new one."""
    if out is None:
        return np.empty(shape, dtype=dtype)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"the result is {np.dtype(dtype)} of shape {shape}; out is {out.dtype} of shape {out.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out is not a contiguous array that can be written to")
    return out
