"""This module reads a tensor as programs do: some begin at a row, skip blocks that are not whole, or read past the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.codec.shape import payload_shape, windows
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODES_PER_BYTE, LAYOUTS, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that reads I2_S: by which layout, from where, and what it does with a block that is not whole.

    :param by_rows: whether it looks for row r at byte r*cols // 4, rather than for element k where the layout puts it
    :param partial: it `reads on` into whatever follows, `skips` those elements, or `refuses` the tensor
    """

    name: str
    layout: Layout
    by_rows: bool
    partial: Literal["reads on", "skips", "refuses"]


_L128, _L64, _ROWS = LAYOUTS["interleave-128"], LAYOUTS["interleave-64"], LAYOUTS["rows-1x4"]
_MSB = LAYOUTS["sequential-msb"]

READERS: Final = {
    "dequantize": Reader("dequantize_row_i2_s over a whole tensor", _L128, False, "reads on"),
    "get-rows": Reader("ggml_get_rows of the BitNet fork", _L128, True, "reads on"),
    "mul-mat": Reader("mat-mul kernels on x86, and on ARM until November 2025", _L128, True, "skips"),
    "mul-mat-arm": Reader("mat-mul kernels on ARM since November 2025", _L64, True, "skips"),
    "scalar-2026": Reader("the scalar loop of kernels since May 2026, without AVX2", _MSB, True, "reads on"),
    "ik": Reader("ik_llama.cpp's conversion", _L128, False, "refuses"),
}


def read_as(reader: str | Reader, data: Any, shape: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The codes that a program reads from a tensor, right or wrong.

    :param reader: one of `READERS`, or its key
    :param data: payload and tail
    :param shape: (rows, cols) or (n,)
    :returns: uint8 codes [rows, cols], and bool [rows, cols]: whether the program read a code there; skipped elements
    have code 0 and False. A program that reads too far takes codes from the next row, and at the end from the tail
    :raises ValueError: for an unknown reader, for a tensor that the program refuses, for data of another size
    """
    if isinstance(reader, str):
        if reader not in READERS:
            raise ValueError(f"no reader is called {reader!r}; there are {', '.join(READERS)}")
        reader = READERS[reader]
    tensor = payload_shape(shape)
    tensor.split(data)
    rows, cols, layout = tensor.rows, tensor.cols, reader.layout
    run = cols if reader.by_rows else tensor.elements  # elements that it reads from one address on
    if reader.partial == "refuses" and run % layout.block:
        raise ValueError(
            f"{reader.name} refuses {counted(run, 'element')}, which are not whole blocks of {layout.block}"
        )
    end = run // layout.block * layout.block if reader.partial == "skips" else run

    raw = np.frombuffer(data, dtype=np.uint8)
    codes = np.zeros(tensor.elements, dtype=np.uint8)
    taken = np.zeros(tensor.elements, dtype=np.bool_)
    for start, stop in windows(tensor.elements):
        address, k = np.divmod(np.arange(start, stop, dtype=np.int64), run)
        byte = address * run // CODES_PER_BYTE + layout.byte_of(k, 1, run)
        here = (k < end) & (byte < raw.size)
        shift = layout.shift_of(k, 1, run)[here].astype(np.uint8)
        codes[start:stop][here] = raw[byte[here]] >> shift & 3
        taken[start:stop] = here
    return codes.reshape(rows, cols), taken.reshape(rows, cols)
