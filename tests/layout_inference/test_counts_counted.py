"""Counts of nonzero weights equal those of the unpacked matrix, under every layout and code map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import layouts

from i2s_spec.codec.buffers import zeros
from i2s_spec.codec.native import pack
from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import BufferSource, FileSource
from i2s_spec.layout_inference import _bit_sums
from i2s_spec.layout_inference.counts import count, counts_size, room
from i2s_spec.layout_inference.grams import GramReader
from i2s_spec.layout_inference.hypotheses import named
from i2s_spec.layout_inference.roles import Matrix
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
    reader = GramReader(source, code_map)
    got = np.asarray(reader.columns(matrix)[each.in_rows])[np.ix_(index, index)]
    assert np.allclose(got, columns.T @ columns, atol=1e-4)
    rows = TRITS - TRITS.mean(axis=1, keepdims=True)
    assert np.allclose(reader.rows(matrix)[each.in_rows], rows @ rows.T, atol=1e-3)


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


@pytest.mark.parametrize("name", [name for name, available in _bit_sums.kernel_sets() if available])
@pytest.mark.parametrize("code_map", CODE_MAPS)
@pytest.mark.parametrize("of_rows", [True, False])
def test_a_file_is_counted_as_its_bytes_are(
    name: str, code_map: str, of_rows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call reads and counts a matrix of a file; one of a buffer is added up piece by piece. Rows of bytes are more than
    one piece, whole tiles and less."""
    monkeypatch.setenv("I2S_ISA", name)
    monkeypatch.setattr("i2s_spec.layout_inference.counts.PIECE", 48 * 256)
    for rows in (4, 4 * 32, 4 * 101):
        data = np.random.default_rng(rows).integers(0, 256, size=rows * 64, dtype=np.uint8).tobytes()
        path = tmp_path / "payload"
        path.write_bytes(b"head" + data)
        wanted = count(BufferSource(b"head" + data), 4, rows, 256, CODE_MAPS[code_map], of_rows=of_rows)
        target = zeros("I", counts_size(rows, 256, of_rows))
        source = FileSource(path)
        found = count(source, 4, rows, 256, CODE_MAPS[code_map], room(), of_rows, target)
        source.close()
        assert np.array_equal(found.bases, wanted.bases)
        assert target[:512].tolist() == wanted.bases.reshape(-1).tolist()
        for each in (named("interleave-128"), named("rows-1x4")):
            assert np.array_equal(found.rows(each), wanted.rows(each))


def test_buffers_of_the_wrong_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(bytes(4096))
    columns, rows, buffer = np.empty((2, 256), np.uint32), np.empty((2, 12), np.uint32), room(1024)
    with path.open("rb") as file:
        good = [0, file.fileno(), 0, 12, buffer, 256, False, False, columns, rows]
        assert _bit_sums.count_file(*good)
        assert not _bit_sums.count_file(*[3800 if place == 2 else each for place, each in enumerate(good)])
        for place, wrong in ((0, 99), (2, -1), (3, 10), (3, 8), (4, buffer[:255]), (5, 255), (5, 0), (8, columns[:1]),
                             (8, columns[:, :255].copy()), (9, rows[:, :8].copy()), (9, rows[:1])):  # fmt: skip
            arguments = [wrong if place == number else each for number, each in enumerate(good)]
            with pytest.raises(ValueError, match=r"no such|whole rows|another shape|too small"):
                _bit_sums.count_file(*arguments)
    assert not _bit_sums.count_file(*[-1 if place == 1 else each for place, each in enumerate(good)])
