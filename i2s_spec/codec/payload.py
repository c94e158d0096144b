"""This module turns codes into payloads and back, by the two formulas of a layout and nothing else (clause 5.5).

A payload has no tail, and so no scale. A layout packs whole blocks, and everything takes nothing else, but for `held_codes`
and `join`: these leave out what is in none, as released quantizers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from i2s_spec.codec.remainder.dropped import whole_blocks
from i2s_spec.codec.shape import PayloadShape, octets, place, windows
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, CodeMap, Dialect, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: What to make of the unused code, since real programs differ (clause 5.4): an error, the trit 0 as the
#: released dequantizer does, or +2 as the released kernels, ik_llama.cpp and 0xBitNet do.
UnusedCode = Literal["reject", "zero", "plus-two"]

#: The code map whose readers take the code minus 1 for the trit, and so read +2.
_MINUS_ONE: Final = CODE_MAPS["offset-1"]


class UnusedCodeError(ValueError):
    """The code that stands for nothing occurs: `count` times, at flat element `first` and perhaps later."""

    def __init__(self, code: int, code_map: str, count: int, first: int, cols: int) -> None:
        super().__init__(code, code_map, count, first, cols)
        self.code, self.code_map, self.count, self.first, self.cols = code, code_map, count, first, cols

    def __str__(self) -> str:
        times = "once," if self.count == 1 else f"{counted(self.count, 'time')}, first"
        return f"code {self.code} has no meaning in {self.code_map}; it occurs {times} {place(self.first, self.cols)}"


def pack_codes(codes: NDArray[np.uint8], layout: Layout) -> bytes:
    """The payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; n/4 bytes (clause 5.5).

    :raises ValueError: for a shape that is not a whole number of blocks, and for values above 3
    """
    rows, cols = codes.shape
    layout.check(rows, cols)
    check_codes(codes)
    flat = codes.reshape(-1)
    payload = np.zeros(flat.size // CODES_PER_BYTE, dtype=np.uint8)
    for start, stop in windows(flat.size):
        k = np.arange(start, stop, dtype=np.int64)
        byte, shift = layout.byte_of(k, rows, cols), layout.shift_of(k, rows, cols)
        for bits in (6, 4, 2, 0):  # no two elements of one shift share a byte, so none is lost in the assignment
            here = shift == bits
            payload[byte[here]] |= flat[start:stop][here] << np.uint8(bits)
    return payload.tobytes()


def unpack_codes(payload: Any, shape: tuple[int, int], layout: Layout) -> NDArray[np.uint8]:
    """The codes 0 to 3 that a payload holds, uint8 [rows, cols], whatever they stand for (clause 5.5).

    :raises ValueError: for a shape that is not a whole number of blocks, and for a payload of another size than n/4 bytes
    """
    rows, cols = shape
    raw = sized(payload, shape, layout)
    codes = np.empty(rows * cols, dtype=np.uint8)
    for start, stop in windows(codes.size):
        k = np.arange(start, stop, dtype=np.int64)
        shift = layout.shift_of(k, rows, cols).astype(np.uint8)
        codes[start:stop] = raw[layout.byte_of(k, rows, cols)] >> shift & 3
    return codes.reshape(rows, cols)


def pack_trits(trits: NDArray[Any], dialect: Dialect) -> bytes:
    """The payload that holds trits, integers -1, 0 and +1 [rows, cols], in a dialect.

    :raises ValueError: for other values, and for a shape that is not a whole number of blocks
    """
    dialect.layout.check(*trits.shape)
    return pack_codes(codes_of_trits(trits, dialect.code_map).reshape(trits.shape), dialect.layout)


def unpack_trits(
    payload: Any, shape: tuple[int, int], dialect: Dialect, unused_code: UnusedCode = "reject"
) -> NDArray[np.int8]:
    """The trits that a payload holds, int8 [rows, cols].

    :param unused_code: what the unused code becomes: `reject` (an error), `zero`, or `plus-two`
    :raises ValueError: as `unpack_codes` does, and for `plus-two` where no program reads +2
    :raises UnusedCodeError: for the unused code, with `reject`
    """
    raw = sized(payload, shape, dialect.layout)
    trit_of = trits_of_codes(dialect.code_map, unused_code)
    codes = unpack_codes(raw, shape, dialect.layout)
    unused = dialect.code_map.unused
    if unused_code == "reject" and (wrong := int(np.count_nonzero(codes == unused))):
        first = int((codes.reshape(-1) == unused).argmax())
        raise UnusedCodeError(unused, dialect.code_map.name, wrong, first, shape[1])
    return trit_of[codes]


def recode(payload: Any, shape: tuple[int, int], source: Dialect, target: Dialect) -> bytes:
    """The same trits in another dialect; the unused code becomes the unused code.

    :raises ValueError: as `unpack_codes` and `pack_codes` do
    """
    raw = sized(payload, shape, source.layout)
    target.layout.check(*shape)
    code_of = np.array(recoded_codes(source.code_map, target.code_map), dtype=np.uint8)
    return pack_codes(code_of[unpack_codes(raw, shape, source.layout)], target.layout)


def count_codes(payload: Any) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout."""
    raw = octets(payload)
    counts = np.zeros(4, dtype=np.int64)
    for start, stop in windows(raw.size):
        for shift in (0, 2, 4, 6):
            counts += np.bincount(raw[start:stop] >> np.uint8(shift) & 3, minlength=4)
    zero, one, two, three = counts.tolist()
    return zero, one, two, three


def sized(payload: Any, shape: tuple[int, int], layout: Layout) -> NDArray[np.uint8]:
    """The bytes of a payload, once its size is known to be right.

    :raises ValueError: for a shape that is not a whole number of blocks, and for another size than n/4 bytes
    """
    rows, cols = shape
    layout.check(rows, cols)
    raw = octets(payload)
    if raw.size != (want := rows * cols // CODES_PER_BYTE):
        raise ValueError(
            f"{rows:,} x {cols:,} codes take {counted(want, 'byte')}; there are {counted(raw.size, 'byte')}"
        )
    return raw


def check_codes(codes: NDArray[np.uint8]) -> None:
    """Refuse values that are no codes.

    :raises ValueError: for values above 3
    """
    if codes.size and (most := int(codes.max())) > 3:
        raise ValueError(f"codes are 0 to 3, not {most}")


def recoded_codes(source: CodeMap, target: CodeMap) -> list[int]:
    """The code of the target for each code of the source: the one of the same trit, and of nothing for nothing."""
    return [target.unused if trit is None else target.code_of(trit) for trit in source.trits]


def codes_of_trits(trits: NDArray[Any], code_map: CodeMap) -> NDArray[np.uint8]:
    """The codes of trits -1, 0 and +1, flat.

    :raises ValueError: for other values
    """
    code_of = np.array([code_map.code_of(trit) for trit in (-1, 0, 1)], dtype=np.uint8)
    flat = trits.reshape(-1)
    wrong = first = 0
    codes = np.empty(flat.size, dtype=np.uint8)
    for start, stop in windows(flat.size):
        part = flat[start:stop]
        bad = (part < -1) | (part > 1)
        if bad.any():
            first = first if wrong else start + int(bad.argmax())
            wrong += int(np.count_nonzero(bad))
        elif not wrong:
            codes[start:stop] = code_of[part.astype(np.int8) + 1]
    if wrong:
        at = place(first, trits.shape[-1])
        raise ValueError(f"{counted(wrong, 'value is', 'values are')} not -1, 0 or +1; the first is {flat[first]} {at}")
    return codes


def trits_of_codes(code_map: CodeMap, unused_code: UnusedCode = "reject") -> NDArray[np.int8]:
    """What each of the codes 0 to 3 becomes, int8 [4]; with `reject`, 0 stands in for the one that is an error.

    :raises ValueError: for a policy that does not exist, and for `plus-two` where no program reads +2
    """
    if unused_code not in get_args(UnusedCode):
        raise ValueError(f"unused_code is one of {', '.join(get_args(UnusedCode))}, not {unused_code!r}")
    if unused_code == "plus-two" and code_map != _MINUS_ONE:
        raise ValueError(f"code {code_map.unused} is +2 to readers of {_MINUS_ONE} only, not of {code_map}")
    unused = 2 if unused_code == "plus-two" else 0
    return np.array([unused if trit is None else trit for trit in code_map.trits], dtype=np.int8)


def held_codes(payload: NDArray[np.uint8], tensor: PayloadShape, layout: Layout) -> NDArray[np.uint8]:
    """The codes in the whole blocks of a payload of floor(n/4) bytes: those of the first elements, flat."""
    rows, cols = whole_blocks(layout, tensor.rows, tensor.cols)
    return unpack_codes(payload[: rows * cols // CODES_PER_BYTE], (rows, cols), layout).reshape(-1)


def join(codes: NDArray[np.uint8], tensor: PayloadShape, layout: Layout, tail: bytes) -> bytes:
    """The bytes of a tensor: its whole blocks, zeros up to floor(n/4) bytes, and its tail."""
    rows, cols = whole_blocks(layout, tensor.rows, tensor.cols)
    blocks = pack_codes(codes.reshape(-1)[: rows * cols].reshape(rows, cols), layout)
    return b"".join((blocks, bytes(tensor.payload_bytes - len(blocks)), tail))
