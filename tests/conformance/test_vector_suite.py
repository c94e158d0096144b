"""The suite of vectors: ids and answers stay as they are; an export is complete, always the same, and is read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from i2s_spec.conformance.vectors import Suite, ledger, load, suite
from i2s_spec.conformance.vectors.all_vectors import SUITE_VERSION, drafts
from i2s_spec.conformance.vectors.vector import COMPARISONS, OPS, PHASES, VERDICTS
from i2s_spec.conformance.vectors.write_suite import write_suite

MOST_BYTES = 5_000_000


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


def test_the_ledger_has_every_vector_and_no_answer_changed() -> None:
    lines = ledger.read()
    assert ledger.changed(drafts(), lines) == []
    live = {line.name for line in lines.values() if line.retired == "-"}
    assert live == {draft.name for draft in drafts()}
    assert not [id for id, count in Counter(line.id for line in lines.values()).items() if count > 1]
    assert [*lines.values()] == sorted(lines.values(), key=lambda line: line.id)
    assert ledger.LEDGER.read_text() == ledger.text(ledger.updated(drafts(), lines, SUITE_VERSION))


def test_another_answer_needs_another_name() -> None:
    one = drafts()[0]
    with pytest.raises(ValueError, match="changed"):
        ledger.updated([replace(one, data=one.data[:-1])], ledger.read(), "1.1.0")
    lines = ledger.updated([replace(one, name="new")], ledger.read(), "1.1.0")
    assert lines[-1].since == "1.1.0"
    assert lines[-1].id > max(line.id for line in ledger.read().values())
    assert {line.retired for line in lines[:-1]} == {"1.1.0"}


def test_fields_are_of_closed_sets(made: Suite) -> None:
    for vector in made:
        assert vector.op in OPS
        assert vector.verdict in VERDICTS
        assert (vector.phase in PHASES) == (vector.verdict == "invalid"), vector.id
        assert vector.compare["class"] in COMPARISONS
        assert (vector.verdict in ("valid", "either")) or vector.expected_blob is None
        assert vector.expected() or vector.verdict != "valid", vector.id


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
