"""The text of eval-callback: written and read with both kinds of sums; output of the real programs is read too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from i2s_spec.errors import SettingError
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.golden.llama_cpp import RESOLUTION, node_text, read_callback_text
from i2s_spec.golden.report import report
from i2s_spec.golden.report_text import text_lines as printed
from i2s_spec.golden.store import corner
from i2s_spec.model.forward import Model

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]

#: The output of the fork of 2025 and of llama.cpp, with the prefixes of the log.
REAL = """
llama_new_context_with_model: graph nodes  = 1126
ggml_debug:                 inp_embd = (f32)   GET_ROWS(token_embd.weight{2560, 128256, 1, 1}, inp_tokens{2, 1, 1, 1}}) = {2560, 2, 1, 1}
                                     [
                                      [
                                       [      0.2891,      -0.1367,       0.5195, ...,      -0.0310,       0.1279,       0.9922],
                                       [      0.2891,      -0.1367,       0.5195, ...,      -0.0310,       0.1279,      -1.0000],
                                      ],
                                     ]
                                     sum = 1.529600
0.01.234.567 I common_debug_cb_eval:                   Qcur-0 = (f32)       ROPE(Qcur-0 (reshaped){128, 20, 2, 1}, leaf_6{2, 1, 1, 1}}) = {4, 2, 2, 1}
[
 [
  [ 1.0000, 2.0000, nan, 4.0000],
  [ 1.0000, 2.0000, 3.0000, inf],
 ],
 [
  [ 1.0000, 2.0000, 3.0000, 4.0000],
  [ 1.0000, 2.0000, 3.0000, 4.0000],
 ],
]
sum = nan
ggml_debug:                   Qcur-0 = (f32)    MUL_MAT(blk.0.attn_q.weight{4, 2, 1, 1}, attn_norm-0{4, 2, 1, 1}}) = {2, 2, 1, 1}
                                     [
                                      [
                                       [      1.0000,       2.0000],
                                       [      3.0000],
                                      ],
                                     ]
"""  # noqa: E501


def test_text_of_programs_is_read() -> None:
    embd, q, again = read_callback_text(REAL.splitlines())
    assert (embd.name, embd.op, embd.shape, embd.total) == ("inp_embd", "GET_ROWS", (2, 2560), 1.5296)
    assert embd.value.shape == (2, 6)
    assert embd.value[1].tolist() == np.array([0.2891, -0.1367, 0.5195, -0.0310, 0.1279, -1], np.float32).tolist()
    assert (q.name, q.op, q.shape) == ("Qcur-0", "ROPE", (2, 2, 4))
    assert np.isnan(q.value[0, 0, 2])
    assert np.isinf(q.value[0, 1, 3])
    assert (again.name, again.op, again.total) == ("Qcur-0#1", "MUL_MAT", None)
    assert np.isnan(again.value).all()  # three numbers instead of four


@examples(40)
@given(
    arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=1, max_dims=3, max_side=9),
        elements=st.floats(-1000, 1000, width=32, allow_nan=False),
    ),
    st.sampled_from(["all", "shown"]),
)  # fmt: skip
def test_written_text_is_read_back(value: Any, sums: Any) -> None:
    (tap,) = read_callback_text(node_text("x-0", "MUL", [("a", (2, 3)), ("b", (4,))], value, sums))
    want = value.reshape(tap.shape)
    assert np.abs(tap.value.astype(np.float64) - corner(want)).max() <= RESOLUTION * 1.01 + 1e-4
    adds = corner(want) if sums == "shown" else want
    assert tap.total == pytest.approx(
        float(adds.astype(np.float64).sum()), abs=1e-2 + 1e-5 * float(np.abs(value).sum())
    )


@pytest.mark.parametrize("sums", ["all", "shown"])
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama", "gemma3"])
def test_a_text_is_compared(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path, architecture: str, sums: Any
) -> None:
    record(model_of(architecture), TOKENS, tmp_path / "theirs", text=sums)
    result = compare(golden_of(architecture), tmp_path / "theirs" / "eval-callback.txt", model=model_of(architecture))
    assert result.ok, result.verdict
    assert result.mode == "free-running"
    assert any("corners" in note for note in result.notes)
    embd = result["inp_embd"]
    assert any("corner" in note for note in embd.notes)
    assert ("the sum is that of the shown numbers" in embd.notes) == (sums == "shown")
    assert embd.measures is not None
    assert embd.measures.largest <= RESOLUTION * 1.001


@pytest.mark.parametrize("name", ["layout-interleave-64", "rope-pairs", "activation-silu"])
def test_a_wrong_text_is_explained(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    model = model_of("bitnet-b1.58")
    wrong = next(each for each in MISTAKES if each.name == name).apply(model)
    assert wrong is not None
    record(wrong, TOKENS, tmp_path / "theirs", text="all")
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "theirs" / "eval-callback.txt", model=model)
    assert not result.ok
    assert "  mode          free-running, as nothing can be replayed from the corners that a text shows\n" in "".join(
        printed(result)
    )
    assert name in [each.name for each in result.diagnoses], result.verdict
    alone = compare(golden_of("bitnet-b1.58"), tmp_path / "theirs" / "eval-callback.txt")
    assert alone.first is not None
    assert result.first is not None
    assert alone.first.name == result.first.name


def test_hostile_lines() -> None:
    line = "a: " * 300_000 + " = (f32) MUL(x{1, 1, 1, 1}, }) = {1, 1, 1, 1}"
    assert list(read_callback_text([line, "[" * 100_000, "sum = 1"])) == []
    shape = "x = (f32) MUL(a{1, 1, 1, 1}, }) = {99999999999, 99999999999, 9, 9}"
    with pytest.raises(SettingError, match="elements"):
        list(read_callback_text([shape]))
    many = ["x = (f32) MUL(a{1, 1, 1, 1}, }) = {2, 1, 1, 1}", *(["[ 1.0, 2.0 ]"] * 100_000)]
    (tap,) = read_callback_text(many)
    assert np.isnan(tap.value).all()


def text_and_rows(model: Model, folder: Path) -> tuple[list[str], list[int]]:
    """The lines of a run's text, and which of them are the six rows that are shown of the projection Qcur-0."""
    record(model, TOKENS, folder, text="all")
    lines = (folder / "eval-callback.txt").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if " Qcur-0 = " in line and "MUL_MAT" in line)
    rows = [i for i in range(start, start + 20) if lines[i].strip().startswith("[") and "..." in lines[i]][:6]
    assert len(rows) == 6
    return lines, rows


def test_places_of_elided_numbers_are_those_of_the_whole_value(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of eight rows of 128 columns the text shows rows 0 to 2 and 5 to 7, columns 0 to 2 and 125 to 127."""
    model = model_of("bitnet-b1.58")
    lines, rows = text_and_rows(model, tmp_path / "theirs")
    for i, value in ((rows[3], "90.0000"), (rows[5], "95.0000")):
        lines[i] = f"{lines[i].rpartition(', ')[0]}, {value}],"
    (tmp_path / "x.txt").write_text("\n".join(lines))
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "x.txt", model=model)
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    assert result.first.measures is not None
    assert result.first.measures.at == (7, 127)
    assert "Qcur-0[7, 127] is 95" in "\n".join(report(result))
    assert "of the shown numbers those in rows 5, 7 and column 127 are off" in result.first.notes


def test_one_wrong_number_of_a_corner_decides_no_position(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> None:
    model = model_of("bitnet-b1.58")
    lines, (i, *_) = text_and_rows(model, tmp_path / "theirs")
    lines[i] = f"{lines[i].rpartition(', ')[0]}, 90.0000],"
    (tmp_path / "x.txt").write_text("\n".join(lines))
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "x.txt", model=model)
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    assert not [note for note in result.first.notes if "off" in note]
