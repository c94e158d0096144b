"""Counts of weights that are not 0 are those of the unpacked matrix, under every layout and code map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import layouts

from i2s_spec.codec.native import pack
from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import BufferSource, FileSource
from i2s_spec.inspect.evidence.counted import count
from i2s_spec.inspect.evidence.grams import column_grams, row_grams
from i2s_spec.inspect.evidence.hypotheses import named
from i2s_spec.inspect.evidence.roles import Matrix
from i2s_spec.schema.dialect import CODE_MAPS, parse

TRITS = np.random.default_rng(3).choice([-1, 0, 1], size=(12, 256), p=[0.2, 0.5, 0.3]).astype(np.int8)


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("code_map", CODE_MAPS)
def test_counts_are_those_of_the_matrix(layout: str, code_map: str) -> None:
    data = pack(TRITS, 1.0, dialect=parse(f"{layout}/{code_map}"))
    found = count(BufferSource(b"head" + data), 4, 12, 256, CODE_MAPS[code_map])
    assert np.array_equal(found.columns(named(layout)), np.count_nonzero(TRITS, axis=0))
    assert np.array_equal(found.rows(named(layout)), np.count_nonzero(TRITS, axis=1))
    without = count(BufferSource(b"head" + data), 4, 12, 256, CODE_MAPS[code_map], of_rows=False)
    assert np.array_equal(without.columns(named(layout)), np.count_nonzero(TRITS, axis=0))
    assert (without.rows_count, without.rows(named(layout)).size) == (12, 0)


@pytest.mark.parametrize("layout", layouts())
def test_grams_are_those_of_the_matrix(layout: str) -> None:
    each, code_map = named(layout), CODE_MAPS["offset-1"]
    source = BufferSource(pack(TRITS, 1.0, dialect=layout))
    matrix = Matrix(0, "attn_q", "blk.0.attn_q.weight", 12, 256, 0)
    index = each.places(256)
    columns = TRITS - TRITS.mean(axis=0, keepdims=True)
    got = column_grams(source, matrix, code_map)[each.in_rows][np.ix_(index, index)]
    assert np.allclose(got, columns.T @ columns, atol=1e-4)
    rows = TRITS - TRITS.mean(axis=1, keepdims=True)
    assert np.allclose(row_grams(source, matrix, code_map)[each.in_rows], rows @ rows.T, atol=1e-3)


def test_a_file_that_is_cut_or_closed(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(pack(TRITS, 1.0, dialect="canonical"))
    source = FileSource(path)
    whole = count(source, 0, 12, 256, CODE_MAPS["offset-1"])
    assert np.array_equal(whole.columns(named("interleave-128")), np.count_nonzero(TRITS, axis=0))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FormatError, match="500"):
        count(source, 0, 12, 256, CODE_MAPS["offset-1"])
    source.close()
    with pytest.raises(ValueError, match="closed"):
        count(source, 0, 12, 256, CODE_MAPS["offset-1"])
