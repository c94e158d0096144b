"""The passes over float words in NumPy, where `pyx/_floats.pyx` is not compiled (`_cpu`).

`float_passes` defines them, and imports this module; so they are written here again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.codec.shape import FLOAT_WORDS, from_bfloat16, to_bfloat16, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS: Final = 32
KINDS: Final = {"F32": 0, "F16": 1, "BF16": 2}
_TYPES: Final = tuple(KINDS)
#: Words that are looked at together.
_WINDOW: Final = 1 << 20

kernel_sets, kernel_needs = portable_sets, portable_needs


def _wide(kind: int, words: Any) -> NDArray[np.float32]:
    """Return words, given as bytes, as float32."""
    form = np.dtype(FLOAT_WORDS[_TYPES[kind]])
    bits = np.frombuffer(words, dtype=form.newbyteorder("<")).astype(form, copy=False)
    return widened(bits, _TYPES[kind])


def sums(row: int, kind: int, words: Any, rows: int, out: Any) -> bool:
    """Add up magnitudes in columns, a number of rows at a time; return whether infinities or NaN are among them."""
    totals, odd = np.asarray(out), False
    size = np.frombuffer(words, dtype=np.uint8).size // max(1, len(totals))
    view = memoryview(words).cast("B")
    for run in range(len(totals)):
        values = np.abs(_wide(kind, view[run * size : (run + 1) * size])).reshape(rows, COLUMNS)
        odd = odd or not bool(np.isfinite(values).all())
        total = np.zeros(COLUMNS, dtype=np.float32)
        with np.errstate(all="ignore"):
            for each in values:
                total += each
        totals[run] = total
    return odd


def cut(row: int, kind: int, words: Any, least: int, out: Any) -> None:
    """Write a trit for each word."""
    form, trits = np.dtype(FLOAT_WORDS[_TYPES[kind]]), np.asarray(out)
    edge = widened(np.array([least], dtype=form), _TYPES[kind])
    view = memoryview(words).cast("B")
    for start in range(0, trits.size, _WINDOW):
        values = _wide(kind, view[start * form.itemsize : (start + _WINDOW) * form.itemsize])
        trits[start : start + _WINDOW] = np.sign(values) * (np.abs(values) >= edge)


def change(row: int, kind: int, words: Any, count: int, to: int, out: Any) -> bool:
    """Write words of another type; return whether infinities or NaN are among them."""
    width = np.dtype(FLOAT_WORDS[_TYPES[kind]]).itemsize
    target = np.dtype(FLOAT_WORDS[_TYPES[to]]).newbyteorder("<")
    made, view = np.asarray(out).view(target), memoryview(words).cast("B")
    odd = False
    for start in range(0, count, _WINDOW):
        values = _wide(kind, view[start * width : (start + _WINDOW) * width])
        with np.errstate(all="ignore"):
            if to == KINDS["BF16"]:
                part: NDArray[Any] = to_bfloat16(values)
                back = from_bfloat16(part)
            else:
                back = values.astype("<f4" if to == KINDS["F32"] else "<f2")
                part = back.view(target)
            odd = odd or not bool(np.isfinite(values).all() and np.isfinite(back).all())
        made[start : start + _WINDOW] = part
    return odd


def only(row: int, kind: int, words: Any, count: int) -> int:
    """Return the bits of the magnitude that all words other than 0 have; 0 where all are 0, -1 where there are several."""
    form = np.dtype(FLOAT_WORDS[_TYPES[kind]])
    found, view = 0, np.frombuffer(words, dtype=form.newbyteorder("<"), count=count)
    for start in range(0, count, _WINDOW):
        sizes = view[start : start + _WINDOW].astype(form, copy=False) & form.type((1 << 8 * form.itemsize - 1) - 1)
        present = sizes[sizes != 0]
        if present.size:
            found = found or int(present[0])
            if (present != found).any():
                return -1
    return found
