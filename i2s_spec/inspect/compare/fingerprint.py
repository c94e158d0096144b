"""This module keeps the all-zero rows of a file as JSON, and reads them back: what `i2s hash --lineage --json` prints.

Of that document a reader needs `tensors`, a list of objects with `name`, `rows` and `zero_rows`: runs of all-zero rows, each
the first and the first behind it. All else in it is left alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from i2s_spec.errors import quote
from i2s_spec.inspect.compare.lineage import rows_of_runs, runs

if TYPE_CHECKING:
    from i2s_spec.inspect.compare.identity import TensorIdentity
    from i2s_spec.inspect.compare.lineage import Fingerprint

#: Bytes of a document that are read, and rows of all its tensors: 27B models have 3 million rows.
MOST_BYTES: Final = 64 << 20
MOST_ROWS: Final = 1 << 28


def zero_row_data(tensor: TensorIdentity) -> dict[str, Any]:
    """The all-zero rows of a tensor as plain data; empty for one that is not ternary."""
    if tensor.zero_rows is None:
        return {}
    return {"rows": tensor.zero_rows.size, "zero_rows": runs(tensor.zero_rows)}


def read_fingerprint(data: bytes) -> Fingerprint:
    """The all-zero rows that a document holds.

    :raises ValueError: for what no `i2s hash --lineage --json` has printed
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    tensors = document.get("tensors") if isinstance(document, dict) else None
    if not isinstance(tensors, list):
        raise ValueError("it has no list of tensors")
    found: Fingerprint = {}
    left = MOST_ROWS
    for each in tensors:
        if not isinstance(each, dict) or "zero_rows" not in each:
            continue
        name, rows, zero = _name(each.get("name")), each.get("rows"), each["zero_rows"]
        if name is None or not _is_count(rows) or not isinstance(zero, list):
            raise ValueError("a tensor lacks its name, its rows or the runs of all-zero rows")
        left -= rows
        if left < 0:
            raise ValueError(f"its tensors have more than {MOST_ROWS:,} rows")
        at = 0
        for run in zero:
            if not (
                isinstance(run, list) and len(run) == 2 and all(map(_is_count, run)) and at <= run[0] < run[1] <= rows
            ):
                raise ValueError(f"the runs of all-zero rows of {quote(name)} do not follow each other")
            at = run[1]
        found[name] = rows_of_runs(rows, zero)
    if not found:
        raise ValueError("it has no all-zero rows of any tensor: made without --lineage?")
    return found


def _name(value: object) -> bytes | None:
    """The bytes of a name as `json_string` writes it: text, or hexadecimal digits where they are not UTF-8."""
    try:
        if isinstance(value, dict):
            return bytes.fromhex(value["hex"])
        return value.encode("utf-8") if isinstance(value, str) else None
    except (KeyError, TypeError, ValueError):
        return None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
