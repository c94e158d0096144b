"""A file against another file of its model: every dialect, every kind of reference, wrong weights, unusable references."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import hostile_files
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transcripts_runner import run

from i2s_spec.codec.native import pack
from i2s_spec.compare import Reference, known_weights
from i2s_spec.compare.known_weights import ReferenceWeights
from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path, lint_paths
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

DIALECTS = [
    f"{layout}/{code_map}" for layout, each in LAYOUTS.items() if each.in_gguf for code_map in CODE_MAPS
]  # fmt: skip
NAME = "blk.0.attn_q.weight"
I4 = ("I4",)


def file_of(data: bytes, shape: tuple[int, int], kind: str = "I2_S", keys: dict[str, Any] | None = None) -> bytes:
    out = io.BytesIO()
    with Writer(out) as writer:
        for key, value in {"general.architecture": "bitnet-b1.58", **(keys or {})}.items():
            writer.add(key, value)
        writer.add_tensor(NAME, shape, kind, bytes(data))
    return out.getvalue()


def weights(shape: tuple[int, int] = (64, 256), seed: int = 1) -> NDArray[np.int8]:
    return np.random.default_rng(seed).choice([-1, 0, 0, 1], size=shape).astype(np.int8)


def reference_codes(data: bytes, **options: Any) -> list[str]:
    return [finding.code for finding in lint(data, select=I4, **options).findings]


@examples(30)
@given(st.sampled_from(DIALECTS), st.sampled_from(DIALECTS), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
def test_the_same_weights_in_any_dialects_are_the_same(ours: str, theirs: str, rows: int, cols: int, seed: int) -> None:
    trits = weights((32 * rows, 128 * cols), seed)
    data, other = (file_of(pack(trits, 0.5, dialect), trits.shape) for dialect in (ours, theirs))
    assert reference_codes(data, reference=Reference(other, theirs, ours)) == []


@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_every_other_dialect_is_named(dialect: str) -> None:
    trits = weights()
    sound, data = (file_of(pack(trits, 0.5, each), trits.shape) for each in ("canonical", dialect))
    (finding,) = lint(data, select=I4, reference=sound).findings
    assert finding.code == "I401"
    assert str(finding.got) == dialect.removesuffix("/offset-1")
    start = finding.span.start
    assert data[start : finding.span.stop] == pack(trits, 0.5, dialect)[:-32]


def test_the_reference_itself_may_have_another_layout() -> None:
    trits = weights()
    sound, odd = (file_of(pack(trits, 0.5, each), trits.shape) for each in ("canonical", "rows-1x4"))
    (finding,) = lint(sound, select=I4, reference=odd).findings
    assert finding.code == "I402"
    assert "it is the reference that is packed as rows-1x4" in finding.message


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "TQ1_0", "TQ2_0"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_types_of_references(kind: str, order: str, tmp_path: Path) -> None:
    new(tmp_path / "own.gguf", embd=256, ff=512)
    assert run(f"i2s convert own.gguf reference.gguf --to {kind} --endian {order} -q", tmp_path) == ""
    reference = tmp_path / "reference.gguf"
    report = lint(tmp_path / "own.gguf", reference=reference)
    assert report.findings == ()
    assert run("i2s convert own.gguf arm.gguf --to interleave-64 -q", tmp_path) == ""
    found = [f.code for f in lint(tmp_path / "arm.gguf", reference=reference).findings]
    assert set(found) == {"I401"}
    assert len(found) == 14


def test_float_masters_are_rounded_as_in_training() -> None:
    """Weights before they were made ternary: what lies near a half may come out either way."""
    masters = np.random.default_rng(3).normal(0, 0.02, (64, 256)).astype(np.float32)
    mean = np.abs(masters).mean()
    trits = np.clip(np.round(masters / mean), -1, 1).astype(np.int8)
    reference = file_of(masters.tobytes(), masters.shape, "F32")
    assert reference_codes(file_of(pack(trits, mean), trits.shape), reference=reference) == []
    assert (
        reference_codes(file_of(pack(trits, 7 * mean), trits.shape), reference=reference) == []
    )  # rules of scales differ
    assert reference_codes(file_of(pack(trits, mean, "interleave-64"), trits.shape), reference=reference) == ["I401"]
    assert reference_codes(file_of(pack(-trits, mean), trits.shape), reference=reference) == ["I402"]


def test_one_weight_is_enough() -> None:
    """Of exact references each difference counts, and the span is the bytes that hold it."""
    trits = weights()
    sound = file_of(pack(trits, 0.5), trits.shape)
    trits[3, 200] = 1 if trits[3, 200] < 1 else 0
    data = file_of(pack(trits, 0.5), trits.shape)
    (finding,) = lint(data, select=I4, reference=sound).findings
    assert finding.code == "I402"
    assert finding.got == 1
    assert finding.details["first"] == 3 * 256 + 200
    assert finding.span.stop - finding.span.start == 1
    (changed,) = (at for at in range(len(data)) if data[at] != sound[at])
    assert finding.span.start == changed


@pytest.mark.requirement("R8.2-1")
def test_scales() -> None:
    trits = weights()
    sound = file_of(pack(trits, 1.42), trits.shape)
    assert reference_codes(file_of(pack(trits, 1.425), trits.shape), reference=sound) == []
    (finding,) = lint(file_of(pack(trits, 1 / 1.42), trits.shape), select=I4, reference=sound).findings
    assert finding.code == "I403"
    assert "one is the reciprocal of the other" in finding.message
    assert finding.span.stop - finding.span.start == 4


@pytest.mark.parametrize("heads_of", ["checkpoint", "gguf"])
def test_rows_of_heads_in_the_other_order(heads_of: str) -> None:
    from i2s_spec.safetensors.names import to_checkpoint_rows, to_gguf_rows

    keys = {"general.architecture": "llama", "llama.attention.head_count": np.uint32(4)}
    trits = weights()
    moved = np.ascontiguousarray((to_checkpoint_rows if heads_of == "checkpoint" else to_gguf_rows)(trits, 4))
    sound, data = (file_of(pack(each, 0.5), trits.shape, keys=keys) for each in (trits, moved))
    (finding,) = lint(data, select=I4, reference=sound).findings
    assert finding.code == "I402"
    assert ("order of checkpoints" if heads_of == "checkpoint" else "rotate neighbors") in finding.message


def test_a_checkpoint_of_an_architecture_that_moves_rows(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    from i2s_spec.safetensors.names import to_gguf_rows

    trits = weights()
    save_file({"model.layers.0.self_attn.q_proj.weight": trits.astype(np.float32)}, tmp_path / "model.safetensors")
    keys = {"general.architecture": "llama", "llama.attention.head_count": np.uint32(4)}
    right = file_of(pack(np.ascontiguousarray(to_gguf_rows(trits, 4)), 1.0), trits.shape, keys=keys)
    assert reference_codes(right, reference=str(tmp_path)) == []
    assert reference_codes(file_of(pack(trits, 1.0), trits.shape, keys=keys), reference=str(tmp_path)) == ["I402"]
    assert reference_codes(file_of(pack(trits, 1.0), trits.shape), reference=tmp_path / "model.safetensors") == []


def test_a_packed_checkpoint(shared: Path) -> None:
    hf = shared / "vectors" / "hf"
    gguf = shared / "vectors" / "gguf"
    assert lint(gguf / "bitnet-b1.58.packed.i2_s.direct.gguf", select=I4, reference=hf / "b158_packed").findings == ()
    assert (
        lint(gguf / "bitnet-b1.58.i2_s.via_llama_quantize.gguf", select=I4, reference=hf / "b158_float").findings == ()
    )
    found = lint(gguf / "bitnet-b1.58.i2_s.via_llama_quantize.gguf", select=I4, reference=hf / "b158_packed").findings
    assert {finding.code for finding in found} == {"I402"}
    assert len(found) == 14


GOOD = {
    "bitnet.i2_s.gguf": "canonical",
    "bitnet.i2_s.arm64block.gguf": "interleave-64",
    "bitnet.i2_s.row4-BROKEN.gguf": "rows-1x4",
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("other", GOOD)
def test_files_of_reference_tools(shared: Path, name: str, other: str) -> None:
    folder = shared / "vectors" / "gguf"
    known = Reference(folder / other, GOOD[other], GOOD[name])
    assert lint(folder / name, select=I4, reference=known).findings == ()
    report = lint(folder / name, select=I4, reference=Reference(folder / other, GOOD[other]))
    assert report.ok == (GOOD[name] == "canonical")
    assert {str(finding.got) for finding in report.findings} <= {GOOD[name]}
    assert {finding.code for finding in report.findings} <= {"I401"}


def test_a_file_in_the_wrong_layout_gets_an_error(shared: Path) -> None:
    folder = shared / "vectors" / "gguf"
    report = lint(folder / "bitnet.i2_s.row4-BROKEN.gguf", reference=folder / "bitnet.i2_s.gguf")
    assert not report.ok
    assert sum(finding.code == "I401" for finding in report.findings) == 14
    sampled = lint(folder / "bitnet.i2_s.row4-BROKEN.gguf", reference=folder / "bitnet.i2_s.gguf", payload="sample")
    assert sum(finding.code == "I401" for finding in sampled.findings) == 14


def test_tensors_that_cannot_be_compared_are_reported() -> None:
    trits = weights()
    data = file_of(pack(trits, 0.5), trits.shape)
    for other, words in (
        (file_of(pack(trits[:32], 0.5), (32, 256)), "[32, 256] in the reference, and [64, 256] here"),
        (file_of(bytes(64 * 256 // 32 * 18), trits.shape, "Q4_0"), "Q4_0 tensors hold no trits"),
        (file_of(np.full((64, 256), np.nan, np.float32).tobytes(), trits.shape, "F32"), "infinities or NaN"),
        (file_of(pack(trits, 0.5), trits.shape)[:-4000], "does not hold it"),
    ):
        (finding,) = lint(data, select=I4, reference=other).findings
        assert finding.code == "I404", words
        assert words in finding.message
        assert finding.message.isprintable()


def test_zeros_are_no_evidence() -> None:
    """All weights are 0 in both: every layout reads them alike, and nothing is wrong."""
    zeros = np.zeros((64, 256), dtype=np.int8)
    assert (
        reference_codes(
            file_of(pack(zeros, 0.5, "rows-1x4"), zeros.shape), reference=file_of(pack(zeros, 0.5), zeros.shape)
        )
        == []
    )


def test_windows_of_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers however the work is cut, and by however many threads."""
    from i2s_spec.compare import known_weights

    trits = weights((256, 256))
    other = trits.copy()
    other[200, 7], other[10, 3] = -other[200, 7] or 1, -other[10, 3] or 1
    data, sound = (file_of(pack(each, 0.5), trits.shape) for each in (other, trits))
    (whole,) = lint(data, select=I4, reference=sound).findings
    monkeypatch.setattr(known_weights, "WINDOW", 1000)
    monkeypatch.setattr(known_weights, "WINDOW", 1000)
    for threads in (1, 3):
        (cut,) = lint(data, select=I4, reference=sound, threads=threads).findings
        assert (cut.span, cut.got, cut.details) == (whole.span, whole.got, whole.details)
    floats = file_of((trits * np.float32(0.5)).astype(np.float32).tobytes(), trits.shape, "F32")
    assert lint(data, select=I4, reference=floats).findings[0].span == whole.span


def test_unusable_references_are_refused(tmp_path: Path) -> None:
    data = file_of(pack(weights(), 0.5), (64, 256))
    (tmp_path / "model.gguf").write_bytes(data)
    np.save(tmp_path / "one.npy", weights())
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="a single array"):
        lint(data, reference=tmp_path / "one.npy")
    for name in ("text.gguf", "bad.safetensors", "missing.gguf", "/dev/null"):
        with pytest.raises(FormatError):
            lint(data, reference=tmp_path / name)
    with pytest.raises(OSError, match=r"no \*.safetensors"):
        lint(data, reference=tmp_path / "folder")
    with pytest.raises(ValueError, match="needs payloads to be read"):
        lint(data, reference=data, payload="none")
    with pytest.raises(ValueError, match="layout"):
        lint(data, reference=Reference(data, "row-blocks-4"))
    with pytest.raises(ValueError, match="needs payloads to be read"):
        Options(profile="security", reference=Reference(str(tmp_path / "model.gguf")))
    file_report = lint_path(
        tmp_path / "model.gguf", Options(select=I4, reference=Reference(str(tmp_path / "model.gguf")))
    )
    assert file_report["ok"]
    for options in (
        "--reference missing.gguf", "--reference text.gguf", "--reference one.npy", "--reference folder",
        "--reference bad.safetensors", "--reference model.gguf --header-only", "--expect rows-1x4",
        "--reference model.gguf --expect x", "--reference-dialect rows-1x4",
        "--reference model.gguf --reference-dialect row-blocks-4",
    ):  # fmt: skip
        output = run(f"i2s lint model.gguf {options}", tmp_path)
        assert output.endswith("[exit 2]\n"), options
        assert "Error: " in output


def test_a_reference_is_opened_once_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Reference] = []

    class Counted(ReferenceWeights):
        def __init__(self, reference: Reference) -> None:
            opened.append(reference)
            super().__init__(reference)

    monkeypatch.setattr("i2s_spec.compare.known_weights.ReferenceWeights", Counted)
    names = [str(tmp_path / name) for name in ("a.gguf", "b.gguf", "c.gguf")]
    for name in names:
        Path(name).write_bytes(file_of(pack(weights(), 0.5), (64, 256)))
    reports = list(lint_paths(names, Options(select=I4, reference=Reference(names[0]))))
    assert [report["ok"] for _, report in reports] == [True, True, True]
    assert len(opened) == 1
    assert lint(names[0], select=I4, reference=names[1]).ok
    assert len(opened) == 2


def test_the_command_line(tmp_path: Path) -> None:
    trits = weights()
    (tmp_path / "good.gguf").write_bytes(file_of(pack(trits, 0.5), trits.shape))
    (tmp_path / "arm.gguf").write_bytes(file_of(pack(trits, 0.5, "interleave-64"), trits.shape))
    output = run("i2s lint --select I4 --json arm.gguf good.gguf --reference good.gguf --jobs 2", tmp_path)
    document = json.loads(output.partition("stderr:")[0].removesuffix("[exit 1]\n"))
    assert [[f["code"] for f in file["findings"]] for file in document["files"]] == [["I401"], []]
    assert output.endswith("[exit 1]\n")
    meant = run(
        "i2s lint --select I4 good.gguf --reference arm.gguf --reference-dialect interleave-64 --expect canonical",
        tmp_path,
    )
    assert meant.startswith("good.gguf: ok: ")
    expected = run("i2s lint --select I4 arm.gguf --reference good.gguf --expect interleave-64", tmp_path)
    assert expected.startswith("arm.gguf: ok: ")
    assert "I401" not in run("i2s lint arm.gguf", tmp_path)


def test_decoded_trits_are_the_definition(shared: Path) -> None:
    """What is compared is what `ternary` reads."""
    from i2s_spec.compare.known_weights import of_tensor

    with open_file(shared / "vectors" / "gguf" / "bitnet.i2_s.gguf") as file:
        tensor = file.tensors["blk.1.ffn_down.weight"]
        known = of_tensor(file, tensor)
        assert np.array_equal(known.whole(), tensor.ternary().whole()[0])
        assert np.array_equal(known.first_rows(3), known.whole()[:3])


@pytest.mark.parametrize(("size", "most"), [(128, 30), (16, 0)])
def test_few_of_many_floats_are_compared_with_others(size: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, made = np.random.default_rng(0), []
    for _ in range(2):
        out = io.BytesIO()
        with Writer(out) as writer:
            for i in range(40):
                data = random.standard_normal(size).astype("<f4").tobytes()
                writer.add_tensor(f"blk.{i}.ffn_norm.weight", (size,), "F32", data)
        made.append(out.getvalue())
    asked, kept = [], ReferenceWeights.values
    monkeypatch.setattr(
        ReferenceWeights, "values", lambda self, file, tensor: asked.append(tensor.name) or kept(self, file, tensor)
    )
    monkeypatch.setattr(known_weights, "OTHERS", 30)
    report = lint(made[0], select=["I405"], reference=made[1])
    assert len(report.findings) == 40
    assert len(asked) == 40 + most


def test_tensors_that_share_bytes_are_not_read_again_and_again() -> None:
    """Twenty tensors, each 32 bytes behind the one before it: as many bytes as the file has are compared."""
    data = hostile_files.tensors(20, (1 << 16,), hostile_files.FLOAT, 32, bytes(19 * 32 + (1 << 18)))
    (finding,) = lint(data, select=I4, reference=data).findings
    assert finding.code == "I406"
    assert "19 of 20" in finding.message
    assert "share bytes, and as many bytes as it has were compared already" in finding.message
