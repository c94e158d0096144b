"""The corpus exported as a folder: complete, described, reproducible, and never overwriting other files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from examples import some

import i2s_spec.conformance
from i2s_spec.cli.conform import vectors_command
from i2s_spec.conformance import malformed_suite as module
from i2s_spec.conformance.malformed_suite import NO_DUTY, Phase, export, needs_of, phase_of, without_i2s
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import container
from i2s_spec.testing.malformed import Case, malformed
from i2s_spec.testing.sample import Draft, tensor_info

SCHEMA = json.loads((Path(i2s_spec.conformance.__file__).parent / "malformed.schema.json").read_text())


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


#: Cases that tests name; a quick run exports these and a share of the others.
NAMED = {
    "bad_magic", "nk_over", "key_len_huge", "align_str", "key_type_i32", "type_neg", "off_wrap", "align_ignored",
    "trunc_data", "tail-missing", "scale_be", "trailing", "ver2", "many_kv_200k", "kv_ceiling",
}  # fmt: skip


def chosen() -> list[Case]:
    cases = list(malformed())
    kept = some(cases, every=4)
    if len(kept) == len(cases):
        return cases
    names = {case.name for case in kept if not case.large} | NAMED
    return [case for case in cases if case.name in names]


@pytest.fixture(scope="module", autouse=True)
def exported() -> Iterator[None]:
    """What `export` takes for all cases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "malformed", lambda: iter(chosen()))
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "out"
    done = export(folder)
    assert done.written + done.described == len(read(folder)["malformed"])
    return folder


@pytest.mark.thorough
def test_manifest_fits_its_schema(corpus: Path) -> None:
    jsonschema.validate(read(corpus), SCHEMA)


def test_files_are_those_of_the_manifest(corpus: Path) -> None:
    held = contents(corpus)
    del held["manifest.json"]
    manifest = read(corpus)
    said = {entry["file"]: entry for entry in (*manifest["malformed"], *manifest["sound"]) if entry["file"] is not None}
    assert {name: entry["sha256"] for name, entry in said.items()} == held
    assert all((corpus / name).stat().st_size == entry["size"] for name, entry in said.items())


def test_every_case_has_its_entry(corpus: Path) -> None:
    entries = {entry["name"]: entry for entry in read(corpus)["malformed"]}
    assert len(entries) >= 100
    assert entries.keys() == {case.name for case in chosen()}


def test_exported_files_get_their_codes(corpus: Path) -> None:
    for entry in read(corpus)["malformed"][::9]:
        if entry["file"] is not None:
            findings = lint(corpus / entry["file"]).findings
            span = entry["span"]
            assert (entry["code"], (span["start"], span["stop"], span["path"])) in {
                (f.code, tuple(f.span)) for f in findings
            }


def test_sound_files_are_sound(corpus: Path) -> None:
    for entry in read(corpus)["sound"]:
        assert lint(corpus / entry["file"]).ok


def test_large_files_are_sparse_or_described(corpus: Path) -> None:
    entries = {entry["name"]: entry for entry in read(corpus)["malformed"]}
    assert entries["many_kv_200k"]["written"] == "described"
    assert entries["many_kv_200k"]["file"] is None
    ceiling = entries["kv_ceiling"]
    assert ceiling["written"] == "sparse"
    status = (corpus / ceiling["file"]).stat()
    assert status.st_size > 13_000_000
    assert status.st_blocks * 512 < 2_000_000


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("bad_magic", "header"), ("nk_over", "header"), ("key_len_huge", "metadata"), ("align_str", "metadata"),
        ("key_type_i32", "metadata"), ("type_neg", "table"), ("off_wrap", "table"), ("align_ignored", "table"),
        ("trunc_data", "data"), ("tail-missing", "data"), ("scale_be", "payload"), ("trailing", "never"),
        ("ver2", "never"), ("many_kv_200k", "never"),
    ],
)  # fmt: skip
def test_phases_of_some_cases(corpus: Path, name: str, phase: str) -> None:
    assert next(entry for entry in read(corpus)["malformed"] if entry["name"] == name)["phase"] == phase


def test_every_phase_occurs_and_every_case_has_one(corpus: Path) -> None:
    assert {entry["phase"] for entry in read(corpus)["malformed"]} == {phase.value for phase in Phase}
    assert all(phase_of(REGISTRY[case.code], case.path) for case in malformed())


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("bad_magic", "headers"), ("key_len_huge", "headers"), ("type_neg", "tensors"), ("trunc_data", "tensors"),
        ("key_type_i32", "nobody"), ("scale_be", "models"), ("trailing", "nobody"), ("tail-missing", "models"),
    ],
)  # fmt: skip
def test_entries_name_the_readers_that_must_reject(corpus: Path, name: str, reader: str) -> None:
    assert next(entry for entry in read(corpus)["malformed"] if entry["name"] == name)["reader"] == reader


def test_rules_without_an_obligation_are_errors() -> None:
    assert all(REGISTRY[code].severity is Severity.ERROR for code in NO_DUTY)


def test_entries_name_the_features_that_a_file_needs(corpus: Path) -> None:
    needs = {entry["what"]: entry["needs"] for entry in read(corpus)["sound"]}
    assert needs["one F32 tensor"] == []
    assert needs["one I2_S tensor"] == ["I2_S"]
    assert "big-endian" in needs["big-endian"]
    assert "version 2" in needs["version 2"]
    assert "alignment" in needs["an alignment of 64"]
    for key in read(corpus)["keys"]:
        assert all(key.encode() in (corpus / entry["file"]).read_bytes() for entry in read(corpus)["sound"])


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without") / "out"
    done = export(folder, i2s=False)
    assert done.written + done.described + done.left_out == len(chosen())
    return folder


def test_a_file_without_i2s_is_as_long_and_as_sound() -> None:
    draft = Draft().data
    twin = without_i2s(draft)
    assert twin is not None
    assert (len(twin), lint(twin).ok, needs_of(draft), needs_of(twin)) == (len(draft), True, ["I2_S"], [])
    assert 0 < sum(a != b for a, b in zip(draft, twin, strict=True)) < 80


@pytest.mark.parametrize("name", ["ver0", "bad_magic", "key_too_long", "nested_arr_5", "name_huge", "ndims5"])
def test_without_i2s_no_type_36_is_left_after_the_fault(name: str) -> None:
    """A lax reader that misses the fault reaches the tensor infos, and must not stop there for another reason."""
    (case,) = (each for each in malformed() if each.name == name)
    twin = without_i2s(case.data)
    assert twin is not None
    assert len(twin) == len(case.data)
    for tensor in (b"first.weight", b"second.weight"):
        at = twin.index(len(tensor).to_bytes(8, "little") + tensor) + 8 + len(tensor)
        sides = int.from_bytes(twin[at : at + 4], "little")
        numbers = [int.from_bytes(data[at + 4 + 8 * sides :][:4], "little") for data in (case.data, twin)]
        assert numbers == [36, 0]
    assert {(f.code, f.span.path) for f in lint(twin).findings} >= {(case.code, case.path)}


@pytest.mark.thorough
def test_without_i2s_every_fault_stays_where_it_is(without: Path, corpus: Path) -> None:
    manifest, whole = read(without), {entry["name"]: entry for entry in read(corpus)["malformed"]}
    jsonschema.validate(manifest, SCHEMA)
    assert manifest["i2s"] is False
    for entry in manifest["malformed"]:
        assert "I2_S" not in entry["needs"]
        assert (entry["code"], entry["span"]["path"]) == (
            whole[entry["name"]]["code"], whole[entry["name"]]["span"]["path"],
        )  # fmt: skip
    for entry in manifest["malformed"][::7]:
        if entry["file"] is not None:
            found = {(f.code, f.span.path) for f in lint(without / entry["file"]).findings}
            assert (entry["code"], entry["span"]["path"]) in found
    assert (
        len([entry for entry in manifest["malformed"] if entry["reader"] in ("headers", "tensors")]) > len(whole) // 6
    )
    for entry in manifest["sound"]:
        assert lint(without / entry["file"]).ok
        assert "I2_S" not in entry["needs"]


@pytest.mark.thorough
def test_sound_files_without_i2s_are_named_as_f32(without: Path) -> None:
    twins = [entry for entry in read(without)["sound"] if "I2_S" in entry["what"]]
    assert twins
    assert all(entry["what"].endswith(", as F32") and entry["file"].endswith("-as-F32.gguf") for entry in twins)


@pytest.mark.thorough
def test_without_i2s_a_reader_that_knows_no_type_36_reads_the_sound_files(without: Path) -> None:
    peer = pytest.importorskip("gguf")
    read_by_it = 0
    for entry in read(without)["sound"]:
        read_by_it += len(peer.GGUFReader(without / entry["file"]).tensors)
    assert read_by_it > 5


def test_files_that_cannot_be_converted_to_f32_are_left_out() -> None:
    odd = Draft().records()
    odd.tensor_infos = [tensor_info(b"odd", (18,), 36, 0)]
    assert without_i2s(container.build(odd)) is None
    plain = b"no GGUF file"
    assert without_i2s(plain) is plain


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first cases, so that folders are written in a moment."""
    cases = [case for case in malformed() if not case.large and len(case.data) < 2000][:12]
    monkeypatch.setattr(module, "malformed", lambda: iter(cases))


@pytest.mark.thorough
def test_two_exports_are_equal(corpus: Path, tmp_path: Path) -> None:
    export(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(corpus)


@pytest.mark.usefixtures("few")
def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        export(target)
    assert contents(target).keys() == {"mine.txt"}
    export(target, force=True)
    assert (target / "mine.txt").read_text() == "mine"
    assert len(contents(target)) == 12 + len(read(target)["sound"]) + 2
    with pytest.raises(FileExistsError, match="this is a file"):
        export(target / "mine.txt", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.usefixtures("few")
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(module, "manifest", full)
    with pytest.raises(OSError, match="no room"):
        export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("few")
def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(vectors_command, ["export", "--malformed", str(tmp_path / "a" / "out")])
    assert run.exit_code == 0, run.output
    assert "12 malformed files" in run.stdout
    again = CliRunner().invoke(vectors_command, ["export", "--malformed", str(tmp_path / "a" / "out")])
    assert again.exit_code == 2
    assert "--force" in again.output
    quiet = CliRunner().invoke(vectors_command, ["export", "-q", "--force", "--malformed", str(tmp_path / "a" / "out")])
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert CliRunner().invoke(vectors_command, ["export"]).exit_code == 2
