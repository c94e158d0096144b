"""The definition of the codec: what packing and unpacking of ternary weights mean, for every dialect of the schema.

It is the definition, not the fast path (`native`): the place of each code is computed from the layout's two formulas,
element by element, and from nothing else (clause 5.5). Large tensors are worked through in windows, so that beside
input and output only a few megabytes and a byte for each element are in use.

Whole tensors with their scale:

    >>> trits, scale = unpack(pack([[1, 0, -1, 0] * 32], 0.5), (1, 128))
    >>> trits[0, :4].tolist(), float(scale)
    ([1, 0, -1, 0], 0.5)

Then payloads, which are codes without a tail (`pack_codes`, `unpack_trits` and others); what needs codes only and no
weights (`transcode`, `histogram`, `scan`); and what a survey sees:

    >>> seen = observe(bytes([0x55] * 300 + [0x2d]))
    >>> seen.counts, seen.first_unused, (seen.run_at, seen.run, seen.run_value)
    ((1, 1201, 1, 1), 300, (0, 300, 85))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from i2s_spec.codec.observation import (
    BLOCK,
    LEAST_RUN,
    PayloadObservation,
    ScalePlaces,
    one_scale,
    read_tail,
    write_tail,
)
from i2s_spec.codec.shape import (
    PayloadShape,
    check_readable,
    check_writable,
    octets,
    payload_shape,
    place,
    sized,
    whole_blocks,
    windows,
)
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, CodeMap, Dialect, Layout, parse
from i2s_spec.schema.faults import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def pack(
    trits: ArrayLike,
    scale: float | ArrayLike,
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
) -> bytes:
    """Return the bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

    :param trits: integers -1, 0 and +1, [rows, cols] or [n]
    :param scale: what +1 stands for; stored as float32, whatever its value
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the scale is written for; the payload has none
    :param strict: refuse elements outside whole blocks, and rows that begin inside a block (clause 5.3). If False, write
        what the released quantizer of the layout writes, whole blocks and zeros, with an `UndefinedElementsWarning`
    :returns: n/4 + 32 bytes, rounded down
    :raises TypeError: if `trits` are not integers
    :raises ValueError: for other values than -1, 0, +1, for a shape that the layout cannot hold, and for a scale beyond
        what a float32 holds
    """
    dialect = parse(dialect)
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    tensor = payload_shape(array.shape)
    check_writable(dialect.layout, tensor, strict=strict)
    tail = write_tail(one_scale(scale), dialect.tail, byte_order)
    return join(codes_of_trits(array, dialect.code_map), tensor, dialect.layout, tail)


def unpack(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
) -> tuple[NDArray[np.int8], np.float32]:
    """Return the trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the bytes come from; concerns the scale only
    :param unused_code: what the unused code becomes: `reject` (an error), `zero`, or `plus-two`
    :param strict: refuse a tensor with an incomplete last block (clause 5.3). If False, these are 0, and an
        `UndefinedElementsWarning` says which they are
    :returns: int8 trits of the given shape, float32 scale
    :raises ValueError: for a shape that the layout cannot hold, for data of another size than n/4 + 32, for copies of the
        scale that differ, and for `plus-two` with a code map where no program reads +2
    :raises UnusedCodeError: for the unused code, which is a ValueError, unless `unused_code` has an answer
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scale = _decode(data, tensor, dialect, byte_order, unused_code)
    return trits.reshape(tuple(shape)), scale


def dequantize(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
) -> NDArray[np.float32]:
    """Return the weights of a ternary tensor: each is its trit times the scale, one multiplication of float32
    (clause 6.2).

    So 0 times a negative scale is -0.0, and everything times NaN is NaN. Parameters and errors are those of `unpack`;
    elements of an incomplete last block, if not `strict`, are 0 times the scale.

    :returns: float32 weights of the given shape
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scale = _decode(data, tensor, dialect, byte_order, unused_code)
    weights = np.empty(trits.shape, dtype=np.float32)
    with np.errstate(all="ignore"):  # infinities and NaN are answers here
        for start, stop in windows(tensor.elements):
            np.multiply(trits[start:stop].astype(np.float32), scale, out=weights[start:stop])
    return weights.reshape(tuple(shape))


def _decode(
    data: Any, tensor: PayloadShape, dialect: Dialect, byte_order: ByteOrder, unused_code: UnusedCode
) -> tuple[NDArray[np.int8], np.float32]:
    """Trits [elements] and the scale."""
    trit_of = trits_of_codes(dialect.code_map, unused_code)
    payload, tail = tensor.split(data)
    scale = read_tail(tail, dialect.tail, byte_order)
    trits = np.zeros(tensor.elements, dtype=np.int8)
    unused = dialect.code_map.unused
    wrong = first = 0
    codes = held_codes(payload, tensor, dialect.layout)
    for start, stop in windows(codes.size):
        bad = codes[start:stop] == unused
        if unused_code == "reject" and bad.any():
            first = first if wrong else start + int(bad.argmax())
            wrong += int(np.count_nonzero(bad))
        trits[start:stop] = trit_of[codes[start:stop]]
    if wrong:
        raise UnusedCodeError(unused, dialect.code_map.name, wrong, first, tensor.cols)
    return trits, scale


# --- payload ---------------------------------------------------------------------------------------------------------
# Codes as payloads and back. A payload has no tail, and so no scale. A layout packs whole blocks, and everything takes
# nothing else, but for `held_codes` and `join`: these leave out what is in none, as released quantizers do.

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
    """Return the payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; n/4 bytes (clause 5.5).

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
    """Return the codes 0 to 3 that a payload holds, uint8 [rows, cols], whatever they stand for (clause 5.5).

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
    """Return the payload that holds trits, integers -1, 0 and +1 [rows, cols], in a dialect.

    :raises ValueError: for other values, and for a shape that is not a whole number of blocks
    """
    dialect.layout.check(*trits.shape)
    return pack_codes(codes_of_trits(trits, dialect.code_map).reshape(trits.shape), dialect.layout)


def unpack_trits(
    payload: Any, shape: tuple[int, int], dialect: Dialect, unused_code: UnusedCode = "reject"
) -> NDArray[np.int8]:
    """Return the trits that a payload holds, int8 [rows, cols].

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
    """Return the same trits in another dialect; the unused code becomes the unused code.

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


def check_codes(codes: NDArray[np.uint8]) -> None:
    """Refuse values that are no codes.

    :raises ValueError: for values above 3
    """
    if codes.size and (most := int(codes.max())) > 3:
        raise ValueError(f"codes are 0 to 3, not {most}")


@cache
def recoded_codes(source: CodeMap, target: CodeMap) -> tuple[int, ...]:
    """Return the code of the target for each code of the source: the one of the same trit, and of nothing for
    nothing.
    """
    return tuple(target.unused if trit is None else target.code_of(trit) for trit in source.trits)


def codes_of_trits(trits: NDArray[Any], code_map: CodeMap) -> NDArray[np.uint8]:
    """Return the codes of trits -1, 0 and +1, flat.

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


@cache
def trits_of_codes(code_map: CodeMap, unused_code: UnusedCode = "reject") -> NDArray[np.int8]:
    """Return the trits of the codes 0 to 3, int8 [4], read-only; with `reject`, 0 stands in for the code that is an error.

    :raises ValueError: for a policy that does not exist, and for `plus-two` where no program reads +2
    """
    if unused_code not in get_args(UnusedCode):
        raise ValueError(f"unused_code is one of {', '.join(get_args(UnusedCode))}, not {unused_code!r}")
    if unused_code == "plus-two" and code_map != _MINUS_ONE:
        raise ValueError(f"code {code_map.unused} is +2 to readers of {_MINUS_ONE} only, not of {code_map}")
    unused = 2 if unused_code == "plus-two" else 0
    trits = np.array([unused if trit is None else trit for trit in code_map.trits], dtype=np.int8)
    trits.flags.writeable = False
    return trits


def held_codes(payload: NDArray[np.uint8], tensor: PayloadShape, layout: Layout) -> NDArray[np.uint8]:
    """Return the codes in the whole blocks of a payload of floor(n/4) bytes: those of the first elements, flat."""
    rows, cols = whole_blocks(layout, tensor.rows, tensor.cols)
    return unpack_codes(payload[: rows * cols // CODES_PER_BYTE], (rows, cols), layout).reshape(-1)


def join(codes: NDArray[np.uint8], tensor: PayloadShape, layout: Layout, tail: bytes) -> bytes:
    """Return the bytes of a tensor: its whole blocks, zeros up to floor(n/4) bytes, and its tail."""
    rows, cols = whole_blocks(layout, tensor.rows, tensor.cols)
    blocks = pack_codes(codes.reshape(-1)[: rows * cols].reshape(rows, cols), layout)
    return b"".join((blocks, bytes(tensor.payload_bytes - len(blocks)), tail))


# --- recode ----------------------------------------------------------------------------------------------------------
# What can be done with codes without asking for weights: another dialect, a count, a search.


@dataclass(frozen=True, slots=True)
class Scan:
    """How often the unused code occurs, and at which flat element first."""

    count: int
    first: int | None


def transcode(
    data: Any,
    shape: Sequence[int],
    source: str | Dialect = "canonical",
    target: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
) -> bytes:
    """Return the same trits and the same scale, bit for bit, in another dialect.

    The code that stands for nothing becomes the unused code, so that there is always a way back. The
    bytes of the tail that mean nothing become zeros, or copies of the scale if the target has those.

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param source: the dialect that the data is in
    :param target: the dialect that is wanted
    :param strict: refuse what either layout has no whole block for, and rows that begin inside a block of the target. If
        False, what the source does not hold is 0 in the target
    :returns: as many bytes as there were
    :raises ValueError: as `unpack` and `pack` do
    """
    source, target = parse(source), parse(target)
    tensor = payload_shape(shape)
    check_readable(source.layout, tensor, strict=strict)
    check_writable(target.layout, tensor, strict=strict)
    payload, tail = tensor.split(data)
    new_tail = write_tail(read_tail(tail, source.tail, byte_order), target.tail, byte_order)

    code_of = np.array(recoded_codes(source.code_map, target.code_map), dtype=np.uint8)
    codes = np.full(tensor.elements, target.code_map.code_of(0), dtype=np.uint8)
    known = held_codes(payload, tensor, source.layout)
    for start, stop in windows(known.size):
        codes[start:stop] = code_of[known[start:stop]]
    return join(codes, tensor, target.layout, new_tail)


def histogram(data: Any, shape: Sequence[int], *, strict: bool = True) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout.

    All n/4 bytes of payload are counted, also those after the last whole block, which hold code 0 in released files.

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param strict: refuse a number of elements that is not a multiple of 4. If False, what does not fill a byte is left out
    :raises ValueError: for data of another size than n/4 + 32
    """
    tensor = payload_shape(shape)
    if strict and (over := tensor.elements % CODES_PER_BYTE):
        raise ValueError(
            f"{counted(tensor.elements, 'element leaves', 'elements leave')} {over} over, which "
            f"fill no byte; strict=False counts the others"
        )
    payload, _ = tensor.split(data)
    return count_codes(payload)


def scan(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    strict: bool = True,
) -> Scan:
    """How often the unused code occurs, and where first (clause 5.4).

    Only elements in whole blocks are examined. Parameters and errors are those of `unpack`.
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    count, first = 0, None
    payload, _ = tensor.split(data)
    codes = held_codes(payload, tensor, dialect.layout)
    for start, stop in windows(codes.size):
        here = codes[start:stop] == dialect.code_map.unused
        if here.any():
            count += int(np.count_nonzero(here))
            first = start + int(here.argmax()) if first is None else first
    return Scan(count, first)


# --- observation -----------------------------------------------------------------------------------------------------
# What is seen in a stretch of a payload: the slow twin of the compiled survey.

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTORS: Final = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
_END: Final = 1 << 64


def observe(
    data: Any, pos: int = 0, width: int = 0, mask: int = 0, scales: ScalePlaces | None = None
) -> PayloadObservation:
    """Observe a stretch of a payload.

    :param data: its bytes, anything with the buffer protocol
    :param pos: where in the payload it begins, a multiple of `BLOCK`
    :param width: 0 for codes, the bytes of a float, or 1 for anything else
    :param mask: the bits of such a float's exponent, or of a scale's, as a little-endian machine loads them from the file
    :param scales: where the scales are, in blocks that are not ternary; one that the stretch begins inside is left out
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    seen = raw.size
    starts, lengths, values = _runs(raw)
    run_at = run = run_value = 0
    if lengths.size and lengths.max() >= LEAST_RUN:
        best = int(lengths.argmax())
        run_at, run, run_value = pos + int(starts[best]), int(lengths[best]), int(values[best])
    counts, first_unused = _codes(raw) if width == 0 else ((4 * seen, 0, 0, 0), -1)
    odd = _odd(raw, width, mask) if scales is None else _odd_scales(raw, pos, scales, mask)
    return PayloadObservation(
        seen, counts, pos + first_unused if first_unused >= 0 else -1, run_at if run else -1, run, run_value,
        pos + int(starts[-1]) if seen else pos, int(values[-1]) if seen else -1, _digest(raw, pos, width),
        odd.size, pos + int(odd[0]) if odd.size else -1,
    )  # fmt: skip


def _codes(raw: NDArray[np.uint8]) -> tuple[tuple[int, int, int, int], int]:
    codes = raw[:, None] >> np.array([6, 4, 2, 0], dtype=np.uint8) & 3
    zero, one, two, three = (int(count) for count in np.bincount(codes.reshape(-1), minlength=4))
    unused = (codes == 3).any(axis=1)
    return (zero, one, two, three), int(unused.argmax()) if three else -1


def _runs(raw: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Where each run begins, how long it is, and of which value."""
    starts = np.flatnonzero(np.concatenate([[True], raw[1:] != raw[:-1]])) if raw.size else np.empty(0, dtype=np.int64)
    lengths = np.diff(np.append(starts, raw.size))
    return starts, lengths, raw[starts]


def _odd(raw: NDArray[np.uint8], width: int, mask: int) -> NDArray[np.int64]:
    """Where floats are that are infinite or no number."""
    if width < 2:
        return np.empty(0, dtype=np.int64)
    words = raw[: raw.size // width * width].view(f"<u{width}").astype(np.uint64)
    return np.flatnonzero(words & np.uint64(mask) == mask) * width


def _odd_scales(raw: NDArray[np.uint8], pos: int, scales: ScalePlaces, mask: int) -> NDArray[np.int64]:
    """Where scales are that are infinite or no number."""
    block, width, *offsets = scales
    starts = [np.arange((offset - pos) % block, raw.size - width + 1, block) for offset in offsets if offset >= 0]
    places = np.sort(np.concatenate(starts))
    words = np.zeros(places.size, dtype=np.uint64)
    for byte in range(width):
        words |= raw[places + byte].astype(np.uint64) << np.uint64(8 * byte)
    odd: NDArray[np.int64] = places[words & np.uint64(mask) == mask]
    return odd


def _digest(raw: NDArray[np.uint8], pos: int, width: int) -> int:
    """Return a fingerprint: the sum over all blocks of what their sums and their places are mixed to, modulo 2^64."""
    whole = raw.size // BLOCK
    total = 0
    for number in range(whole):
        words = raw[number * BLOCK : (number + 1) * BLOCK].view("<u8").reshape(-1, 4)
        place = pos // BLOCK + number + 1
        sums = _sums_of_codes(words) if width == 0 else [int(lane) for lane in words.sum(axis=0, dtype=np.uint64)]
        total += _mix(sum(a * b for a, b in zip(sums, _FACTORS, strict=True)) + place * _GOLDEN)
    rest = raw[whole * BLOCK :].tobytes()
    first = (pos // BLOCK + whole) * (BLOCK // 8) + 1
    for number in range(0, len(rest), 8):
        word = int.from_bytes(rest[number : number + 8], "little")
        total += _mix(word + (first + number // 8) * _GOLDEN)
    return total % _END


def _sums_of_codes(words: NDArray[np.uint64]) -> list[int]:
    """How many codes of each lane have their low bit set, then their high bit; two counts to a number."""
    lanes = np.ascontiguousarray(words.T).view(np.uint8)
    lows, highs = ([int(np.unpackbits(lane & np.uint8(bits)).sum()) for lane in lanes] for bits in (0x55, 0xAA))
    return [a | b << 32 for counts in (lows, highs) for a, b in (counts[:2], counts[2:])]


def _mix(number: int) -> int:
    number %= _END
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % _END
    number = (number ^ number >> 27) * 0x94D049BB133111EB % _END
    return number ^ number >> 31
