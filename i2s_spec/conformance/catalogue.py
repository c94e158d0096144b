"""This module lists the rows of the catalogues of faults that the rules answer for, and says why some have no file.

Rules name the rows that they stand for (`Rule.sources`). Two catalogues give letters and numbers: that of the format
(C, T, P, S, M, A, K: container, tensor table, payload, scale, metadata, architecture, tokenizer) and that of hostile
files (M01 to M72, whose M01 to M12 are other faults than those of the metadata).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: How many rows each letter of the catalogue of the format has.
FORMAT: Final = {"C": 32, "T": 25, "P": 18, "S": 17, "M": 25, "A": 17, "K": 17}

#: The numbers that the catalogue of hostile files gives.
HOSTILE: Final = (*range(1, 13), *range(20, 31), *range(40, 47), *range(60, 73))

_LAYOUT: Final = (
    "nothing in a file says which layout its payloads have: every such file is sound to whoever has no reference"
)

#: Rows that no single file can show, with the reason.
WITHOUT_FILE: Final = {
    "P04": "rows of other than whole 256 elements are sound; only one runtime's kernel cannot take them",
    "P05": _LAYOUT,
    "P14": _LAYOUT,
    "P15": _LAYOUT,
    "M29": "what happens to a file while it is read is in none of its bytes",
    "M67": _LAYOUT,
}


def rows() -> Iterator[str]:
    """Every row of both catalogues, each id once."""
    seen = [f"{letter}{number:02}" for letter, count in FORMAT.items() for number in range(1, count + 1)]
    seen += [f"M{number:02}" for number in HOSTILE]
    yield from dict.fromkeys(seen)
