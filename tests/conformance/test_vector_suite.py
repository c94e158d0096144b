"""The suite of vectors: ids and answers never change; an export is complete and reproducible, and can be read back."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
from click.testing import CliRunner, Result

from i2s_spec._version import __version__
from i2s_spec.cli.conform import vectors_command
from i2s_spec.conformance import packages
from i2s_spec.conformance.packages import tarball, write_package
from i2s_spec.conformance.protocol_terms import COMPARISONS, OPERATIONS, PHASES, VERDICTS
from i2s_spec.conformance.vectors import Suite, load, suite
from i2s_spec.conformance.vectors import vector as ledger
from i2s_spec.conformance.vectors.all_vectors import FIRST, HERE, SUITE_VERSION, drafts, suite_of, write_suite
from i2s_spec.conformance.vectors.vector import FEATURES
from i2s_spec.errors import SettingError, counted

MOST_BYTES = 14_000_000


class SingleFile(NamedTuple):
    """What a file says: its lines by their keys, input, second input, and answer."""

    lines: dict[str, str]
    input: bytes
    second: bytes
    expected: bytes


def read_single(data: bytes) -> SingleFile:
    """What such a file holds.

    :raises ValueError: for another kind of file, and for one whose bytes are not those that its lines say
    """
    head, found, raw = data.partition(b"\n\n")
    first, *rest = head.decode("utf-8").split("\n")
    if not found or first != FIRST:
        raise ValueError(f"the first line is {first[:40]!r}, not {FIRST!r}")
    lines = dict(line.split(": ", 1) for line in rest)
    one, two, three = (int(lines[f"{part}-bytes"]) for part in ("input", "second", "expected"))
    if len(raw) != one + two + three:
        raise ValueError(f"the lines say {counted(one + two + three, 'byte')}; there are {len(raw):,}")
    return SingleFile(lines, raw[:one], raw[one : one + two], raw[one + two :])


@pytest.fixture(scope="module")
def made() -> Suite:
    return suite()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite") / "out"
    write_suite(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_published_vector_changed() -> None:
    lines = ledger.read()
    assert ledger.changed(drafts(), lines) == []
    live = {line.name for line in lines.values() if line.retired == "-"}
    assert live <= {draft.name for draft in drafts()}
    assert not [id for id, count in Counter(line.id for line in lines.values()).items() if count > 1]
    assert [*lines.values()] == sorted(lines.values(), key=lambda line: line.id)
    published = [draft for draft in drafts() if draft.name in lines]
    assert ledger.LEDGER.read_text() == ledger.text(ledger.updated(published, lines, SUITE_VERSION))


def test_a_release_has_no_vector_without_an_id() -> None:
    """Before a release: `i2s vectors register`."""
    new = {draft.name for draft in drafts()} - ledger.read().keys()
    assert not new or ".dev" in __version__


def test_a_draft_without_an_id_is_in_no_suite() -> None:
    lines = ledger.read()
    first = next(iter(lines))
    assert len(list(suite_of({name: line for name, line in lines.items() if name != first}))) == len(list(suite())) - 1


def test_a_changed_vector_needs_a_new_name() -> None:
    one = drafts()[0]
    with pytest.raises(ValueError, match="changed"):
        ledger.updated([replace(one, data=one.data[:-1])], ledger.read(), "1.1.0")
    lines = ledger.updated([replace(one, name="new")], ledger.read(), "1.1.0")
    assert lines[-1].since == "1.1.0"
    assert lines[-1].id > max(line.id for line in ledger.read().values())
    assert {line.retired for line in lines[:-1]} == {"1.1.0"}


def test_fields_have_declared_values(made: Suite) -> None:
    for vector in made:
        assert vector.op in OPERATIONS
        assert vector.verdict in VERDICTS
        assert (vector.phase in PHASES) == (vector.verdict == "invalid"), vector.id
        assert vector.compare["class"] in COMPARISONS
        assert (vector.verdict in ("valid", "either")) or vector.expected_blob is None
        assert vector.expected() or vector.verdict != "valid", vector.id


def test_every_refusal_has_a_sound_twin(made: Suite) -> None:
    """The twin asks the same of a sound input, of whoever the faulty one asks or fewer."""
    lone = [vector.id for vector in made if vector.verdict == "invalid" and vector.twin is None]
    assert lone == []
    for vector in made:
        if vector.twin is not None:
            twin = made[vector.twin]
            assert (vector.verdict, twin.verdict, twin.op) == ("invalid", "valid", vector.op)
            more = {"big-endian", "gguf.v2"} if vector.op in ("container", "verdict") else set()
            assert set(twin.features) <= set(vector.features) | more, vector.id
            assert twin.input() != vector.input()


def test_retired_ids_are_not_used_again(made: Suite) -> None:
    retired = {line.id for line in ledger.read().values() if line.retired != "-"}
    assert not retired & {vector.id for vector in made}
    assert len(retired) == 28


def test_an_exported_suite_is_the_same_read_back(made: Suite, exported: Path) -> None:
    again = load(exported)
    assert again.version == made.version
    assert again.vectors == made.vectors
    for vector, other in zip(made, again, strict=True):
        assert (vector.input(), vector.second(), vector.expected()) == (other.input(), other.second(), other.expected())


def test_an_export_is_the_same_each_time_and_small(exported: Path, tmp_path: Path) -> None:
    write_suite(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(exported)
    assert sum(map(len, contents(exported).values())) < MOST_BYTES


def test_the_manifest_and_the_flags_fit_their_schemas(exported: Path) -> None:
    for name in ("manifest", "flags"):
        schema = json.loads((exported / f"schemas/{name}.schema.json").read_text())
        jsonschema.validate(json.loads((exported / f"{name}.json").read_text()), schema)
    manifest = json.loads((exported / "manifest.json").read_text())
    features = set((exported / "features.txt").read_text().split())
    flags = set((exported / "flags.txt").read_text().split())
    assert features == FEATURES.keys()
    needed = {each for entry in manifest["vectors"] for each in entry["features"]}
    new = [draft for draft in drafts() if draft.name not in ledger.read()]
    assert needed <= features <= needed | {each for draft in new for each in draft.features}
    assert {each for entry in manifest["vectors"] for each in entry["flags"]} == flags
    assert f"Version {manifest['interpreting_version']} " in (exported / "INTERPRETING.md").read_text()


def test_the_schema_of_the_manifest_has_the_declared_words() -> None:
    known = json.loads((HERE / "manifest.schema.json").read_text())["$defs"]["vector"]["properties"]
    assert known["op"]["enum"] == list(OPERATIONS)
    assert known["verdict"]["enum"] == list(VERDICTS)
    assert known["phase"]["enum"] == [*PHASES, None]
    assert known["compare"]["properties"]["class"]["enum"] == list(COMPARISONS)
    messages = json.loads((HERE / "messages.schema.json").read_text(encoding="utf-8"))["$defs"]
    assert messages["run"]["properties"]["op"]["enum"] == list(OPERATIONS)
    assert messages["phase"]["enum"] == list(PHASES)


def test_the_text_names_every_field_and_word() -> None:
    text = (HERE / "INTERPRETING.md").read_text()
    for word in (*OPERATIONS, *VERDICTS, *PHASES, *COMPARISONS, *{key for draft in drafts() for key in draft.args}):
        assert f"`{word}`" in text, word


def test_single_files_hold_what_the_manifest_says(made: Suite, exported: Path) -> None:
    for vector in made:
        found = read_single((exported / f"files/{vector.id}.i2sv").read_bytes())
        folder = exported / "files"
        parts = {"input": found.input, "second": found.second, "expected": found.expected}
        for name, data in parts.items():
            if f"{name}-file" in found.lines:
                assert data == b""
                parts[name] = (folder / found.lines[f"{name}-file"]).read_bytes()
        expected = vector.expected_blob.data if vector.expected_blob is not None else b""
        assert parts == {"input": vector.input(), "second": vector.second(), "expected": expected}
        assert found.lines["op"] == vector.op
        assert found.lines.get("flags", "").split() == list(vector.flags)


def test_single_files_that_are_cut_are_refused(exported: Path) -> None:
    data = (exported / "files/I2S-0001.i2sv").read_bytes()
    for bad in (data[:-1], data[:100], b"other\n\n" + data):
        with pytest.raises(ValueError, match=r"bytes|first line"):
            read_single(bad)


def test_packages_hold_the_suite(exported: Path, tmp_path: Path) -> None:
    packed = tarball()
    assert packed == tarball()
    suite_files = contents(exported)
    for registry, folder in (
        ("pypi", "i2s_vectors/vectors"),
        ("npm", "vectors"),
        ("go", "vectors"),
        ("cargo", "vectors"),
    ):
        write_package(tmp_path / registry, registry, packed)
        assert contents(tmp_path / registry / folder) == suite_files
        with pytest.raises(FileExistsError):
            write_package(tmp_path / registry, registry, packed)
    assert tomllib.loads((tmp_path / "pypi/pyproject.toml").read_text())["project"]["license"] == "0BSD"
    assert tomllib.loads((tmp_path / "cargo/Cargo.toml").read_text())["package"]["version"] == SUITE_VERSION
    assert json.loads((tmp_path / "npm/package.json").read_text())["license"] == "0BSD"
    library = (tmp_path / "cargo/lib.rs").read_text()
    assert all(f'include_bytes!("vectors/{path}")' in library for path in suite_files)
    with pytest.raises(ValueError, match="packages are made for"):
        write_package(tmp_path / "x", "cpan", packed)


def test_the_command_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "tarball", lambda: b"packed")  # another test builds it

    def run(*words: str) -> Result:
        return CliRunner().invoke(vectors_command, words)

    done = run("export", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert f"{len(suite())} vectors" in done.output
    assert run("export", str(tmp_path / "out")).exit_code == 2
    assert run("export").exit_code == 2
    assert run("export", str(tmp_path / "a"), "--malformed", str(tmp_path / "b")).exit_code == 2
    assert "I2S-0035" in run("list", "--flag", "scale-as-f16").output
    assert isinstance(run("list", "--flag", "none").exception, SettingError)
    assert run("package", str(tmp_path / "x.tar.gz"), "--for", "tar").exit_code == 0
    assert run("package", str(tmp_path / "x.tar.gz"), "--for", "tar").exit_code == 2


def test_changed_data_is_noticed(exported: Path, tmp_path: Path) -> None:
    write_suite(tmp_path / "bad")
    vector = load(tmp_path / "bad")["I2S-0001"]
    (tmp_path / "bad" / vector.input_blob.path).write_bytes(b"other")
    with pytest.raises(ValueError, match="SHA-256"):
        load(tmp_path / "bad")["I2S-0001"].input()


def test_only_a_suite_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(FileExistsError):
            write_suite(tmp_path, force=force)
    write_suite(tmp_path / "out")
    write_suite(tmp_path / "out", force=True)
    with pytest.raises(FileExistsError):
        write_suite(tmp_path / "out")
