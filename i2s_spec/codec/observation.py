"""This module defines what is seen in a stretch of a payload, in NumPy: the slow twin of the compiled survey.

>>> seen = observe(bytes([0x55] * 300 + [0x2d]))
>>> seen.counts, seen.first_unused, (seen.run_at, seen.run, seen.run_value)
((1, 1201, 1, 1), 300, (0, 300, 85))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.payload_facts import BLOCK, LEAST_RUN, PayloadObservation

__all__ = ["BLOCK", "LEAST_RUN", "PayloadObservation", "observe"]

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTORS: Final = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
_END: Final = 1 << 64


def observe(data: Any, pos: int = 0, width: int = 0, mask: int = 0) -> PayloadObservation:
    """Look at a stretch of a payload.

    :param data: its bytes, anything with the buffer protocol
    :param pos: where in the payload it begins, a multiple of `BLOCK`
    :param width: 0 for codes, the bytes of a float, or 1 for anything else
    :param mask: the bits of such a float's exponent, as a little-endian machine loads them from the file
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    seen = raw.size
    starts, lengths, values = _runs(raw)
    run_at = run = run_value = 0
    if lengths.size and lengths.max() >= LEAST_RUN:
        best = int(lengths.argmax())
        run_at, run, run_value = pos + int(starts[best]), int(lengths[best]), int(values[best])
    counts, first_unused = _codes(raw) if width == 0 else ((4 * seen, 0, 0, 0), -1)
    odd = _odd(raw, width, mask)
    return PayloadObservation(
        seen, counts, pos + first_unused if first_unused >= 0 else -1, run_at if run else -1, run, run_value,
        pos + int(starts[-1]) if seen else pos, int(values[-1]) if seen else -1, _digest(raw, pos, width),
        odd.size, pos + int(odd[0]) * width if odd.size else -1,
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
    """The floats that are infinite or no number."""
    if width < 2:
        return np.empty(0, dtype=np.int64)
    words = raw[: raw.size // width * width].view(f"<u{width}").astype(np.uint64)
    return np.flatnonzero(words & np.uint64(mask) == mask)


def _digest(raw: NDArray[np.uint8], pos: int, width: int) -> int:
    """A fingerprint: the sum over all blocks of what their sums and their places are mixed to, modulo 2^64."""
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
