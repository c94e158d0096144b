"""Lineage: how many trits a fine-tune changed, by tensor and layer, and which all-zero rows it shares with its base."""

from __future__ import annotations

import io
import itertools
import json
import re
import struct
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from builders import model_bytes
from click.testing import CliRunner
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.cli.compare import diff_command, hash_command
from i2s_spec.codec.native import pack_trits
from i2s_spec.codec.reference import pack
from i2s_spec.compare.diff import Difference, diff
from i2s_spec.compare.diff_text import document, lines
from i2s_spec.compare.hash import Identity, read_fingerprint, zero_row_data
from i2s_spec.compare.hash import hash as identity
from i2s_spec.compare.lineage import (  # fmt: skip
    TensorLineage,
    ZeroRows,
    by_layer,
    digest,
    kinship,
    lineage_lines,
    lineage_page,
    percent,
    picture,
    rows_of_runs,
    runs,
    total,
)
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.draw.text import json_string
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema.dialect import parse

MODEL = model_bytes(layers=2, embd=128, ff=256)
UP = "blk.1.ffn_up.weight"
GATE = "blk.0.ffn_gate.weight"
SCHEMA = json.loads(files("i2s_spec.compare").joinpath("diff.schema.json").read_text("utf-8"))


def changed(edits: dict[str, Any], data: bytes = MODEL) -> bytes:
    """A model whose trits of some tensors a function changed."""
    made = bytearray(data)
    with open_file(BufferSource(data)) as file:
        for name, edit in edits.items():
            tensor = file.tensors[name]
            trits = np.array(tensor.trits())
            edit(trits)
            span = tensor.payload_span
            made[span.start : span.stop + 32] = pack(trits, tensor.scale())
    return bytes(made)


def compared(a: bytes, b: bytes, **options: Any) -> Difference:
    return diff(open_file(BufferSource(a)), open_file(BufferSource(b)), **options)


def flip(count: int) -> Any:
    """Change so many trits, evenly spread."""

    def edit(trits: np.ndarray) -> None:
        flat = trits.reshape(-1)
        at = np.linspace(0, flat.size - 1, count).astype(int)
        flat[at] = np.where(flat[at] == 1, -1, flat[at] + 1)

    return edit


def clear(rows: slice) -> Any:
    def edit(trits: np.ndarray) -> None:
        trits[rows] = 0

    return edit


@examples(60)
@given(data=st.data())
def test_rows_are_found_however_codes_are_cut(data: st.DataObject) -> None:
    rows, cols = data.draw(st.integers(1, 9)), 4 * data.draw(st.integers(1, 9))
    zero = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    trits = np.zeros((rows, cols), dtype=np.int8)
    for row in np.flatnonzero(~np.array(zero)):
        trits[row, data.draw(st.integers(0, cols - 1))] = data.draw(st.sampled_from([-1, 1]))
    codes = bytes(pack_trits(trits.reshape(1, -1), parse("sequential-lsb")))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(codes)), max_size=4)))
    found = ZeroRows(rows, cols)
    for start, stop in zip([0, *cuts], [*cuts, len(codes)], strict=True):
        found.add(codes[start:stop])
    assert found.found().tolist() == zero


def test_rows_of_partial_bytes_are_never_zero() -> None:
    found = ZeroRows(4, 3)
    found.add(bytes([0x55] * 3))
    assert not found.found().any()


def test_changes_are_counted_by_tensor_and_layer() -> None:
    found = compared(MODEL, changed({UP: flip(10), GATE: flip(3)}))
    counts = {each.name.decode(): each.changed for each in found.lineage if each.changed}
    assert counts == {UP: 10, GATE: 3}
    assert len(found.lineage) == 14
    assert {layer: total(inside).changed for layer, inside in by_layer(found.lineage)} == {0: 3, 1: 10}
    assert (
        total(found.lineage).trits == sum(each.trits for each in found.lineage) == 2 * (3 * 128 * 256 + 128 * 128 * 3)
    )
    assert list(lines(found))[-1].endswith("; 13 of 294,912 trits changed, 0.004 %)")


def test_zero_rows_are_a_fingerprint() -> None:
    base = changed({UP: clear(slice(0, 12))})
    tuned = changed({UP: clear(slice(2, 13)), GATE: flip(5)})
    found = compared(base, tuned)
    (up,) = (each for each in found.lineage if each.name == UP.encode())
    assert (up.rows, up.zero_a, up.zero_b, up.zero_both) == (256, 12, 11, 10)
    assert any("10 of the 12 all-zero rows of A are all zero in B" in line for line in lineage_lines(found.lineage))


def fingerprinted(data: bytes, dialect: str = "canonical") -> Identity:
    with open_file(BufferSource(data)) as file:
        return identity(file, dialect, lineage=True)


def test_the_fingerprint_of_one_file_is_kept() -> None:
    base = fingerprinted(changed({UP: clear(slice(0, 12))}))
    kept = {"tensors": [{"name": json_string(each.name), **zero_row_data(each)} for each in base.tensors]}
    known = read_fingerprint(json.dumps(kept).encode())
    assert known.keys() == base.zero_rows.keys()
    assert all(np.array_equal(known[name], base.zero_rows[name]) for name in known)

    shared = kinship(known, fingerprinted(changed({UP: clear(slice(2, 13)), GATE: flip(5)})).zero_rows)
    assert (shared.tensors, shared.zero_a, shared.zero_b, shared.zero_both) == (14, 12, 11, 10)
    assert kinship(known, {}).tensors == 0
    assert kinship({UP.encode(): np.ones(3, dtype=np.bool_)}, base.zero_rows).tensors == 0


def test_the_digest_of_zero_rows_is_that_of_the_documented_bytes() -> None:
    data = changed({UP: clear(slice(3, 5))})
    name = UP.encode()
    text = b"i2s-zero-rows-1\n" + struct.pack("<Q", len(name)) + name + struct.pack("<QQQ", 2, 3, 4)
    assert digest(fingerprinted(data).zero_rows) == sha256(text).hexdigest()
    out = io.BytesIO()
    convert_file(open_file(BufferSource(data)), out, to="interleave-64")
    assert digest(fingerprinted(out.getvalue(), "interleave-64").zero_rows) == sha256(text).hexdigest()
    assert digest(fingerprinted(MODEL).zero_rows) == sha256(b"i2s-zero-rows-1\n").hexdigest()


@given(st.lists(st.booleans(), max_size=40))
def test_rows_survive_their_form_as_runs(zero: list[bool]) -> None:
    found = runs(np.array(zero, dtype=np.bool_))
    assert rows_of_runs(len(zero), [(start, stop) for start, stop in found]).tolist() == zero
    assert all(start < stop for start, stop in found)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("GGUF", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no list of tensors"),
        ('{"tensors": [{"name": "a"}]}', "made without --lineage"),
        ('{"tensors": [{"name": 3, "rows": 1, "zero_rows": []}]}', "lacks its name"),
        ('{"tensors": [{"name": {"hex": "zz"}, "rows": 1, "zero_rows": []}]}', "lacks its name"),
        ('{"tensors": [{"name": "a", "rows": -1, "zero_rows": []}]}', "lacks its name"),
        ('{"tensors": [{"name": "a", "rows": 1e300, "zero_rows": []}]}', "lacks its name"),
        ('{"tensors": [{"name": "a", "rows": 9000000000, "zero_rows": []}]}', "more than"),
        ('{"tensors": [{"name": "a", "rows": 4, "zero_rows": [[0, 5]]}]}', "do not follow"),
        ('{"tensors": [{"name": "a", "rows": 4, "zero_rows": [[2, 3], [1, 2]]}]}', "do not follow"),
        ('{"tensors": [{"name": "a", "rows": 4, "zero_rows": [3]}]}', "do not follow"),
    ],
)
def test_invalid_fingerprints_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_fingerprint(text.encode())


def test_names_of_any_bytes_are_read() -> None:
    text = '{"tensors": [{"name": {"hex": "ff61"}, "rows": 2, "zero_rows": [[1, 2]]}]}'
    assert read_fingerprint(text.encode())[b"\xffa"].tolist() == [False, True]


def test_hash_tells_and_compares_zero_rows(tmp_path: Path) -> None:
    (tmp_path / "base.gguf").write_bytes(changed({UP: clear(slice(0, 12))}))
    (tmp_path / "tuned.gguf").write_bytes(changed({UP: clear(slice(2, 13))}))

    def called(*words: str) -> str:
        result = CliRunner().invoke(hash_command, [*words, "-q"], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    base = str(tmp_path / "base.gguf")
    assert re.search(r"zero rows [0-9a-f]{64}  12 of \d,\d+ rows of 14 ternary tensors", called(base, "--lineage"))
    assert "zero" not in called(base)
    (tmp_path / "base.json").write_text(called(base, "--lineage", "--json"))
    compared = ("--base", str(tmp_path / "base.json"))
    told = called(str(tmp_path / "tuned.gguf"), *compared)
    assert "10 of the 12 all-zero rows of the base are all zero in this file (83.3 %; chance alone gives about " in told
    about = json.loads(called(str(tmp_path / "tuned.gguf"), *compared, "--json"))
    assert about["base"]["zero_rows"] == {"base": 12, "file": 11, "both": 10}
    for words in ([base, "--base", base], [base, "--base", str(tmp_path / "none")]):
        result = CliRunner().invoke(hash_command, [*words, "-q"])
        assert result.exit_code != 0
        assert result.stdout == ""


@pytest.mark.parametrize("layout", ["interleave-64", "rows-1x4"])
def test_the_dialect_makes_no_difference(layout: str) -> None:
    out = io.BytesIO()
    convert_file(open_file(BufferSource(changed({UP: clear(slice(0, 4))}))), out, to=layout)
    found = compared(MODEL, out.getvalue(), dialect_b=layout)
    (up,) = (each for each in found.lineage if each.name == UP.encode())
    trits = np.array(open_file(BufferSource(MODEL)).tensors[UP].trits())
    assert (up.changed, up.zero_b) == (np.count_nonzero(trits[:4]), 4)
    assert total(found.lineage).changed == up.changed


def test_a_lost_fine_tune_is_reported() -> None:
    with_name = MODEL.replace(b"synthetic-", b"fine-tune-", 1)
    found = compared(MODEL, with_name)
    assert not found.same
    assert total(found.lineage).changed == 0
    shown = list(lineage_lines(found.lineage))
    assert any("it was lost" in line for line in shown)
    assert any("0.0 %" in line for line in shown)
    assert list(lines(found))[-1] == ("A and B differ: 1 key (24 tensors compared; 0 of 294,912 trits changed, 0.0 %)")
    assert not any("lost" in line for line in lineage_lines(compared(MODEL, changed({UP: flip(1)})).lineage))


def test_data_fits_the_schema() -> None:
    for other in (MODEL, changed({UP: flip(10)}), model_bytes("llama", layers=1)):
        about = document(compared(MODEL, other), "a", "b")
        jsonschema.validate(json.loads(json.dumps(about)), SCHEMA, jsonschema.Draft202012Validator)
    layers = document(compared(MODEL, changed({UP: flip(10)})), "a", "b")["lineage"]["layers"]
    assert [(each["layer"], each["changed"]) for each in layers] == [(0, 0), (1, 10)]


def test_the_lineage_is_drawn() -> None:
    found = compared(MODEL, changed({UP: flip(328)}))
    svg = picture(found.lineage)
    assert svg.count('class="heat"') == 14
    assert "blk.1.ffn_up: 328 of 32,768 trits changed, 1.0 %" in svg
    deep = [text for text in svg.split("<g>") if 'fill-opacity="0"' not in text and 'class="heat"' in text]
    assert len(deep) == 1
    assert "blk.1.ffn_up" in deep[0]
    page = lineage_page(found.lineage, ["<b>"], "a<i>.gguf", "b")
    assert svg in page
    assert "<b>" not in page.replace("<body>", "")
    assert "<i>" not in page
    assert '<pre class="differences"><span>&lt;b&gt;</span></pre>' in page, "what differs is wrapped, not cut"
    assert ".differences{white-space:pre-wrap" in page


def test_names_from_a_file_stay_text() -> None:
    hostile = TensorLineage(b'blk.0.<script>alert("x")</script>\x1b[2J.weight', 4, 16, 3, 0, 0, 0)
    other = TensorLineage(b"\xff\x00out", 4, 16, 0, 0, 0, 0)
    assert hostile.place[0] == 0
    assert other.place[0] is None
    page = lineage_page([hostile, other], [], "a", "b")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x1b" not in "".join(lineage_lines([hostile, other]))
    assert picture([other]) == ""


def test_shares_in_percent() -> None:
    assert [percent(share) for share in (0, 1, 0.5, 0.001, 0.0005, 1e-5, 1e-6)] == [
        "0.0 %", "100.0 %", "50.0 %", "0.1 %", "0.050 %", "0.001 %", "under 0.001 %",
    ]  # fmt: skip


def test_diff_of_lineage_on_the_command_line(tmp_path: Path) -> None:
    a, b, page = tmp_path / "a.gguf", tmp_path / "b.gguf", tmp_path / "d.html"
    a.write_bytes(MODEL)
    b.write_bytes(changed({UP: flip(10)}))

    def run(*options: str) -> Any:
        return CliRunner().invoke(diff_command, [str(a), str(b), *options], standalone_mode=False)

    said = run("--lineage")
    assert said.return_value == 1
    assert "10 of 294,912 trits changed, 0.003 %, in 1 of 14 tensors" in said.stdout
    assert "lineage" not in run().stdout
    assert json.loads(run("--json").stdout)["lineage"]["changed"] == 10
    assert run("--format", "html", "-o", str(page)).stdout == ""
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    asked = re.search(r"made by i2s-spec \S+, [-\d]+ [:\d]+ UTC: <code>(.*?)</code>", page.read_text(encoding="utf-8"))
    assert asked is not None
    assert asked[1].startswith("i2s diff ")
    assert all(word in asked[1] for word in (str(a), str(b), "--format html"))
    assert "already exists" in str(run("--format", "html", "-o", str(page)).exception)
    assert run("--format", "html", "-o", str(page), "--force").exception is None
    assert run("-q").stdout == ""
