"""This module defines what packing and unpacking of ternary weights mean, for every dialect that the schema declares.

It is the definition, not the fast path: the place of each code is computed from the layout's two formulas, element by
element, and from nothing else. Large tensors are worked through in windows, so that beside input and output only a few
megabytes and a byte for each element are in use. What needs codes only, and no weights, is in `recode`.

    >>> trits, scale = unpack(pack([[1, 0, -1, 0] * 32], 0.5), (1, 128))
    >>> trits[0, :4].tolist(), float(scale)
    ([1, 0, -1, 0], 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

import numpy as np

from i2s_spec.codec.payload import codes_of_trits, held_codes, join, pack_codes, unpack_codes
from i2s_spec.codec.recode import Scan, histogram, scan, transcode
from i2s_spec.codec.remainder import check_readable, check_writable
from i2s_spec.codec.shape import Payloads, Slices, matrix, payloads, place, windows
from i2s_spec.codec.tail import read_tail, write_tail
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CODE_MAPS, CodeMap, Dialect, parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: The whole definition can be had from here, wherever its parts are.
__all__ = [
    "Code3",
    "Scan",
    "UnusedCodeError",
    "dequantize",
    "histogram",
    "matrix",
    "pack",
    "pack_codes",
    "place",
    "read_tail",
    "scan",
    "transcode",
    "trits_of_codes",
    "unpack",
    "unpack_codes",
    "windows",
    "write_tail",
]

#: What to make of the code that stands for nothing, since real programs differ (clause 5.4): an error, the trit 0 as the
#: released dequantiser does, or +2 as the released kernels, ik_llama.cpp and 0xBitNet do.
Code3 = Literal["reject", "zero", "plus-two"]

#: The code map whose readers take the code minus 1 for the trit, and so read +2.
_MINUS_ONE: Final = CODE_MAPS["offset-1"]


class UnusedCodeError(ValueError):
    """The code that stands for nothing occurs: `count` times, at flat element `first` and perhaps later."""

    def __init__(self, code: int, code_map: str, count: int, first: int, cols: int) -> None:
        super().__init__(code, code_map, count, first, cols)
        self.code, self.code_map, self.count, self.first, self.cols = code, code_map, count, first, cols

    def __str__(self) -> str:
        times = "once," if self.count == 1 else f"{self.count:,} times, first"
        return (
            f"code {self.code} stands for nothing in {self.code_map}; it occurs {times} {place(self.first, self.cols)}"
        )


def pack(
    trits: ArrayLike,
    scale: float | ArrayLike,
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
    slices: Slices | None = None,
) -> bytes:
    """The bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

    :param trits: integers -1, 0 and +1, [rows, cols] or [n]
    :param scale: what +1 stands for; stored as float32, whatever its value. With `slices="each"` one, or one for each
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the scale is written for; the payload has none
    :param strict: refuse what no whole block holds, and rows that begin inside a block (clause 5.3). If False, write what
        the released quantiser of the layout writes, whole blocks and zeros, with an `UndefinedElementsWarning`
    :param slices: for more than two dimensions, and only if not `strict`: whether `each` slice or `one` whole has a tail
    :returns: n/4 + 32 bytes, rounded down; that for each slice with `slices="each"`
    :raises TypeError: if `trits` are not integers
    :raises ValueError: for other values than -1, 0, +1, for a shape that the layout cannot hold, and for a scale beyond
        what a float32 holds
    """
    dialect = parse(dialect)
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    tensor = payloads(array.shape, strict=strict, slices=slices)
    check_writable(dialect.layout, tensor, strict=strict)
    scales = np.asarray(scale)
    if scales.shape not in {(), (tensor.count,)}:
        raise ValueError(f"{tensor.count:,} payloads have one scale, or one each, not an array of shape {scales.shape}")
    tails = [write_tail(each, dialect.tail, byte_order) for each in np.broadcast_to(scales, (tensor.count,))]

    return join(codes_of_trits(array, dialect.code_map), tensor, dialect.layout, tails)


@overload
def unpack(
    data: Any, shape: Sequence[int], dialect: str | Dialect = ..., *, byte_order: ByteOrder = ..., code3: Code3 = ...,
    strict: bool = ..., slices: Literal["one"] | None = ...,
) -> tuple[NDArray[np.int8], np.float32]: ...  # fmt: skip


@overload
def unpack(
    data: Any, shape: Sequence[int], dialect: str | Dialect = ..., *, byte_order: ByteOrder = ..., code3: Code3 = ...,
    strict: bool = ..., slices: Literal["each"],
) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...  # fmt: skip


def unpack(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    code3: Code3 = "reject",
    strict: bool = True,
    slices: Slices | None = None,
) -> tuple[NDArray[np.int8], np.float32 | NDArray[np.float32]]:
    """The trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the bytes come from; concerns the scale only
    :param code3: what the code that stands for nothing becomes: `reject` (an error), `zero`, or `plus-two`
    :param strict: refuse a tensor with elements in no whole block (clause 5.3). If False, these are 0, and an
        `UndefinedElementsWarning` says which they are
    :param slices: for more than two dimensions, and only if not `strict`: whether `each` slice or `one` whole has a tail
    :returns: int8 trits of the given shape, float32 scale; with `slices="each"` a float32 array of one scale for each
    :raises ValueError: for a shape that the layout cannot hold, for data of another size than n/4 + 32, for copies of the
        scale that differ, and for `plus-two` with a code map where no program reads +2
    :raises UnusedCodeError: for the code that stands for nothing, which is a ValueError, unless `code3` has an answer
    """
    dialect = parse(dialect)
    tensor = payloads(shape, strict=strict, slices=slices)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scales = _decode(data, tensor, dialect, byte_order, code3)
    return trits.reshape(tuple(shape)), scales if slices == "each" else scales[0]


def dequantize(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    code3: Code3 = "reject",
    strict: bool = True,
    slices: Slices | None = None,
) -> NDArray[np.float32]:
    """The weights of a ternary tensor: each is its trit times the scale, one multiplication of float32 (clause 6.2).

    So 0 times a negative scale is -0.0, and everything times NaN is NaN. Parameters and errors are those of `unpack`;
    elements in no whole block, if not `strict`, are 0 times the scale.

    :returns: float32 weights of the given shape
    """
    dialect = parse(dialect)
    tensor = payloads(shape, strict=strict, slices=slices)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scales = _decode(data, tensor, dialect, byte_order, code3)
    weights = np.empty(trits.shape, dtype=np.float32)
    with np.errstate(all="ignore"):  # infinities and NaN are answers here
        for each, scale, product in zip(trits, scales, weights, strict=True):
            for start, stop in windows(tensor.elements):
                np.multiply(each[start:stop].astype(np.float32), scale, out=product[start:stop])
    return weights.reshape(tuple(shape))


def _decode(
    data: Any, tensor: Payloads, dialect: Dialect, byte_order: ByteOrder, code3: Code3
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Trits [payloads, elements] and scales [payloads]."""
    trit_of = trits_of_codes(dialect.code_map, code3)
    parts = tensor.split(data)
    scales = np.array([read_tail(tail, dialect.tail, byte_order) for _, tail in parts], dtype=np.float32)
    trits = np.zeros((tensor.count, tensor.elements), dtype=np.int8)
    unused = dialect.code_map.unused
    wrong = first = 0
    for number, (payload, _) in enumerate(parts):
        codes = held_codes(payload, tensor, dialect.layout)
        for start, stop in windows(codes.size):
            bad = codes[start:stop] == unused
            if code3 == "reject" and bad.any():
                first = first if wrong else number * tensor.elements + start + int(bad.argmax())
                wrong += int(np.count_nonzero(bad))
            trits[number, start:stop] = trit_of[codes[start:stop]]
    if wrong:
        raise UnusedCodeError(unused, dialect.code_map.name, wrong, first, tensor.cols)
    return trits, scales


def trits_of_codes(code_map: CodeMap, code3: Code3 = "reject") -> NDArray[np.int8]:
    """What each of the codes 0 to 3 becomes, int8 [4]; with `reject`, 0 stands in for the one that is an error.

    :raises ValueError: for a policy that does not exist, and for `plus-two` where no program reads +2
    """
    if code3 not in get_args(Code3):
        raise ValueError(f"code3 is one of {', '.join(get_args(Code3))}, not {code3!r}")
    if code3 == "plus-two" and code_map != _MINUS_ONE:
        raise ValueError(f"code {code_map.unused} is +2 to readers of {_MINUS_ONE} only, not of {code_map}")
    unused = 2 if code3 == "plus-two" else 0
    return np.array([unused if trit is None else trit for trit in code_map.trits], dtype=np.int8)
