"""Changes of weights do what their names say, element by element."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec.native import pack_codes, unpack_codes
from i2s_spec.model.text.hypotheses import recoded, transposed
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL

CODES = np.random.default_rng(2).integers(0, 4, size=(12, 256), dtype=np.uint8)


@pytest.mark.parametrize("shape", [(4, 128), (513, 65), (1100, 200), (200, 1100)])
def test_transposed_is_column_by_column(shape: tuple[int, int]) -> None:
    codes = np.random.default_rng(1).integers(0, 4, size=shape, dtype=np.uint8)
    found = transposed(codes)
    assert np.array_equal(found, codes.reshape(shape[::-1]).T)
    assert found.flags.c_contiguous


def weights() -> Any:
    payload = np.frombuffer(pack_codes(CODES, CANONICAL.layout), dtype=np.uint8)
    matrix = Ternary(payload, 12, 256, np.float32(1))
    return SimpleNamespace(matrix=lambda name: matrix)


@pytest.mark.parametrize("trits", [(1, 0, -1), (0, -1, 1), (1, -1, 0)])
def test_recoded_reads_codes_otherwise(trits: tuple[int, int, int]) -> None:
    found = recoded(trits)("blk.0.attn_q.weight", weights())
    codes = unpack_codes(found.payload, (12, 256), CANONICAL.layout)
    table = np.array([*(trit + 1 for trit in trits), 3], dtype=np.uint8)
    assert np.array_equal(codes, table[CODES])
    same = recoded(trits, {"attn_k"})("blk.0.attn_q.weight", base := weights())
    assert same is base.matrix("")
