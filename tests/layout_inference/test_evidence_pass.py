"""The compiled pass equals `count` and `profile_comparisons`, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted import layouts, opened, planted, written

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FileSource
from i2s_spec.layout_inference import _bit_sums, evidence, profiles
from i2s_spec.layout_inference.comparisons import MatrixComparison, profile_comparisons
from i2s_spec.layout_inference.counts import count, room
from i2s_spec.layout_inference.evidence import EvidencePass, Plan, of_rows
from i2s_spec.layout_inference.roles import Roles, roles
from i2s_spec.schema.dialect import CODE_MAPS

CANONICAL = CODE_MAPS["offset-1"]
SETS = [name for name, available in _bit_sums.score_sets() if available]


def with_gain(values: Any) -> dict[str, np.ndarray]:
    return {**planted(1), "blk.1.ffn_sub_norm.weight": np.asarray(values, dtype=np.float32)}


def with_columns(name: str) -> dict[str, np.ndarray]:
    """A matrix whose columns all have as many weights that are not 0."""
    tensors = planted(1)
    return {**tensors, name: np.ones_like(tensors[name])}


def without(*words: str) -> dict[str, np.ndarray]:
    return {name: array for name, array in planted(1).items() if not any(word in name for word in words)}


FILES = {
    "whole": planted(1),
    "constant gain": with_gain(np.ones(384)),
    "gain that is not finite": with_gain([np.inf, *range(383)]),
    "gain of another length": with_gain(np.arange(128)),
    "no gains": without("norm"),
    "no rows of gate": without("ffn_gate"),
    "layers that differ": without("blk.0.ffn", "blk.1.attn_v"),
    "constant columns": with_columns("blk.0.ffn_down.weight"),
    "constant rows": with_columns("blk.0.attn_v.weight"),
}


def shown(comparisons: list[MatrixComparison]) -> list[Any]:
    return [(each.matrix, each.text, each.gram, each.partners, np.array(each.found).tobytes()) for each in comparisons]


def by_definition(file: File, found: Roles, code_map: str) -> tuple[Any, list[MatrixComparison]]:
    counts = {
        key: count(file.source, each.start, each.rows, each.cols, CODE_MAPS[code_map], of_rows=of_rows(each))
        for key, each in found.matrices.items()
    }
    return counts, list(profile_comparisons(found, counts))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("kind", ["bytes", "file"])
def test_the_pass_is_the_definition(
    name: str, case: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("I2S_ISA", name)
    monkeypatch.setattr(EvidencePass, "grams", lambda _: [])  # the compiled pass does not compute these
    monkeypatch.setattr(evidence, "THREAD_BYTES", 1)
    path, code_map = tmp_path / "model.gguf", "zero-first" if case == "whole" else "offset-1"
    path.write_bytes(written(FILES[case], f"sequential-msb/{code_map}"))
    for heads, key_heads in ((4, 2), (4, 4), (0, 0)):
        with File(FileSource(path)) if kind == "file" else opened(path.read_bytes()) as file:
            found = roles(file)._replace(heads=heads, key_heads=key_heads)
            wanted_counts, wanted = by_definition(file, found, code_map)
            for threads in (1, 3):
                counts, made = EvidencePass(file, found, CODE_MAPS[code_map]).run(threads)
                assert shown([each for each in made if "all-zero" not in each.text]) == shown(wanted)
                assert list(counts) == list(wanted_counts)
                for key, one in counts.items():
                    assert np.array_equal(one.bases, wanted_counts[key].bases)
                    for each in (True, False):
                        hypothesis = next(one for one in evidence.HYPOTHESES if one.in_rows == each)
                        assert np.array_equal(one.rows(hypothesis), wanted_counts[key].rows(hypothesis))
    assert wanted or case == "no gains"


def test_layouts_that_share_shapes_share_tables() -> None:
    with opened(written(planted(1), layouts()[0])) as file:
        plan = Plan(roles(file))
    assert len(plan.target((0, "attn_q"))) == 2 * (256 + 256)
    assert len(plan.target((1, "ffn_down"))) == 2 * 384


def test_sums_that_are_too_large_are_computed_by_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(planted(1))
    with opened(data) as file:
        wanted = shown(EvidencePass(file, roles(file), CANONICAL).run(1)[1])
        monkeypatch.setattr(profiles, "COUNTS", 2 * 256)
        assert Plan(roles(file)).too_large
        assert shown(EvidencePass(file, roles(file), CANONICAL).run(1)[1]) == wanted


def test_a_failure_stops_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "THREAD_BYTES", 1)
    path = tmp_path / "model.gguf"
    path.write_bytes(written(planted(1)))
    source = FileSource(path)
    file = File(source)
    found = roles(file)
    whole_pass = EvidencePass(file, found, CANONICAL)
    last = max(each.start for each in found.matrices.values())
    path.write_bytes(path.read_bytes()[: last + 64])
    with pytest.raises(FormatError):
        whole_pass.run(2)
    source.close()


def tables(table: str = "", place: tuple[int, ...] = (), value: int = 0) -> dict[str, Any]:
    """The arguments of a pass over one layer of two matrices; with `table`, one number in that table is replaced."""
    made: dict[str, Any] = {
        "sums": 0, "scores": 0, "either": False, "others": False, "values": 4,
        "matrices": np.array([[0, 128, 128, 128, 0, 1, 0], [4096, 128, 128, 256, 512, 0, 0]]),
        "profiles": np.array([[0, 0, 128], [1, 256, 128]]), "profile_ends": np.array([0, 2]),
        "asked": np.array([[1, 0, 2, 1, 1, 0, 1, 1]]), "asked_ends": np.array([0, 1]),
        "uses": np.array([[0, -1], [1, 1]]), "numbers": np.array([0]), "places": np.arange(128, dtype=np.int32)[None],
        "counts": np.zeros(768, np.uint32), "gains": np.arange(128, dtype=np.float32),
        "found": np.full((2, 2, 3), np.nan), "made": np.zeros(2, np.uint8), "left": np.zeros(1, np.int64),
    }  # fmt: skip
    if table:
        made[table][place] = value
    return {name: each.reshape(-1) if isinstance(each, np.ndarray) else each for name, each in made.items()}


WRONG = [
    *(("matrices", (0, place), value) for place, value in (
        (0, -1), (1, 0), (1, 126), (1, 1 << 30), (2, 0), (2, 64), (2, 1 << 30), (3, 64), (3, 192), (4, -1), (4, 300),
        (6, 1), (6, -1))),
    *(("profiles", (1, place), value) for place, value in ((1, -1), (1, 700), (2, 0), (2, 64), (2, 1 << 30))),
    ("profiles", (0, 1), 1),
    *(("asked", (0, place), value) for place, value in (
        (0, 2), (0, -1), (1, -1), (1, 3), (2, 3), (2, -1), (3, 0), (3, 2), (3, 1 << 20), (4, 0), (4, 129), (5, 1), (5, -1),
        (6, 2), (6, -1), (7, 2), (7, -1))),
    ("profile_ends", (0,), 1), ("profile_ends", (1,), 1), ("asked_ends", (1,), 2), ("asked_ends", (0,), -1),
    ("uses", (0, 0), 2), ("uses", (0, 0), -1), ("uses", (1, 1), 2), ("numbers", (0,), 3), ("numbers", (0,), -1),
    ("places", (0, 5), -1), ("places", (0, 5), 128),
]  # fmt: skip


@pytest.mark.parametrize(("table", "place", "value"), WRONG)
def test_tables_that_do_not_fit_are_refused(table: str, place: tuple[int, ...], value: int) -> None:
    _bit_sums.Pass(**tables())
    with pytest.raises(ValueError, match=r"whole|beyond|length|too long|beside"):
        _bit_sums.Pass(**tables(table, place, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [("sums", 99), ("scores", -1), ("places", np.zeros(64, np.int32)), ("made", np.zeros(1, np.uint8)),
     ("found", np.zeros(10)), ("found", np.zeros(13)), ("numbers", np.zeros(2, np.int64)),
     ("uses", np.zeros(3, np.int64)), ("matrices", np.zeros(15, np.int64)), ("profiles", np.zeros(5, np.int64)),
     ("asked", np.zeros(7, np.int64))],
)  # fmt: skip
def test_tables_of_another_shape_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"no such|shape"):
        _bit_sums.Pass(**{**tables(), name: value})


def test_scratch_memory_that_is_too_small() -> None:
    made = _bit_sums.Pass(**tables())
    with pytest.raises(ValueError, match="too small"):
        made.work(-1, room(made.step - 1), room(made.room), 1)
    with pytest.raises(ValueError, match="too small"):
        made.work(-1, room(made.step), room(made.room - 1), 1)
    with pytest.raises(ValueError, match="too small"):
        made.counted(0, room(made.room - 1))
    with pytest.raises(ValueError, match="too small"):
        made.counted(2, room(made.room))
    assert (made.take(), made.work(-1, room(made.step), room(made.room), 1), made.take()) == (0, 1, -1)


def test_counts_that_no_matrix_has_are_not_compared() -> None:
    """Counts of a caller are not trusted: tables of ranks have room for the largest possible counts."""
    made = tables()
    given = _bit_sums.Pass(**made)
    made["counts"][:] = 1 << 30
    for matrix in (given.take(), given.take()):
        given.counted(matrix, room(given.room))
    assert made["made"].tolist() == [0, 0]
    assert np.isnan(made["found"]).all()
