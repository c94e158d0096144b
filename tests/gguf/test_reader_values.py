"""A reader returns the values that the file contains, in either byte order."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.errors import FormatError
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, array, key_value

U8, U32, F64, BOOL, STRING, ARRAY = (
    ValueType.UINT8, ValueType.UINT32, ValueType.FLOAT64, ValueType.BOOL, ValueType.STRING, ValueType.ARRAY,
)  # fmt: skip

VALUES: dict[bytes, tuple[ValueType, Any, Any]] = {
    b"a.number": (U32, 0x01020304, 0x01020304),
    b"a.float": (F64, -0.75, -0.75),
    b"a.bool": (BOOL, 2, True),
    b"a.text": (STRING, "grün\udcff".encode("utf-8", "surrogateescape"), "grün\udcff"),
    b"a.numbers": (ARRAY, array(U32, [1, 2, 0x01020304]), [1, 2, 0x01020304]),
    b"a.bools": (ARRAY, array(BOOL, [0, 1, 2, 255]), [False, True, True, True]),
    b"a.texts": (ARRAY, array(STRING, [b"", b"one", b"\xff"]), ["", "one", "\udcff"]),
    b"a.nest": (
        ARRAY,
        array(ARRAY, [array(STRING, [b"ab", b"", b"cde"]), array(U32, [7, 1 << 30]), array(BOOL, [2])]),
        [["ab", "", "cde"], [7, 1 << 30], [True]],
    ),
    b"a.deep": (ARRAY, array(ARRAY, [array(ARRAY, [array(F64, [0.5, 1.5]), array(U8, [])])]), [[[0.5, 1.5], []]]),
}


@pytest.mark.requirement("R2.5-4")
@pytest.mark.parametrize("order", ["little", "big"])
def test_values(order: Any) -> None:
    draft = Draft(order)
    file = draft.records()
    file.key_values += [key_value(key, kind, value) for key, (kind, value, _) in VALUES.items()]
    metadata = i2s.open(draft.built(file)).metadata
    for key, (_, _, wanted) in VALUES.items():
        got = metadata[key.decode()]
        assert (got.tolist() if isinstance(got, np.ndarray) else got) == wanted, key
    for limit in (0, 1, 2, 3, 4):
        assert metadata.decode(metadata.entry("a.numbers"), limit).tolist() == [1, 2, 0x01020304][:limit]
        assert metadata.decode(metadata.entry("a.bools"), limit) == [False, True, True, True][:limit]
    assert metadata["a.numbers"].dtype == np.dtype("=u4")


@pytest.mark.requirement("R2.4-5")
def test_of_two_values_the_first_counts() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"a.twin", U32, 1), key_value(b"a.twin", U32, 2)]
    metadata = i2s.open(draft.built(file)).metadata
    assert metadata["a.twin"] == 1
    assert [row.key for row in metadata.rows].count("a.twin") == 2
    assert list(metadata).count("a.twin") == 1
    assert len(list(metadata)) == len(metadata)
    assert "a.twin" in metadata
    assert "a.stranger" not in metadata


@pytest.mark.parametrize(
    ("at", "patch"),
    [(0, struct.pack("<I", 13)), (0, struct.pack("<I", 99)), (0, struct.pack("<I", 0)), (0, struct.pack("<I", 9)),
     (4, struct.pack("<Q", 2)), (4, struct.pack("<Q", 1 << 40)), (36, struct.pack("<Q", 2)), (36, struct.pack("<Q", 4)),
     (36, struct.pack("<Q", 1 << 63)), (0, struct.pack("<IQ", 9, 1) * 4)],
)  # fmt: skip
def test_nested_arrays_that_changed_after_they_were_indexed(at: int, patch: bytes) -> None:
    draft = Draft()
    file = draft.records()
    nest = array(ARRAY, [array(U32, [1, 2, 3]), array(STRING, [b"abc"])])
    file.key_values += [key_value(b"a.nest", ARRAY, nest)]
    data = bytearray(draft.built(file))
    metadata = i2s.open(data).metadata
    assert metadata["a.nest"] == [[1, 2, 3], ["abc"]]
    start = metadata.entry("a.nest").value_span.start + at
    data[start : start + len(patch)] = patch
    with pytest.raises(FormatError, match="a nested array no longer fills its bytes") as error:
        metadata["a.nest"]
    assert error.value.code == "S903"
