"""Every bug that the suite covers makes a program fail a vector whose flag names it; a correct program passes all."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from mutants import kill, wrong_containers, wrong_groups, wrong_models, wrong_numbers, wrong_payloads
from mutants.answers import DecoderAnswer, passes, same
from mutants.mutant import Mutant
from mutants.plain_numbers import PlainNumbers

from i2s_spec.cli import conform
from i2s_spec.cli.conform import vectors_command
from i2s_spec.conformance.explanations import FLAGS, NOT_IN_MODELS
from i2s_spec.conformance.vectors import Suite, vector
from i2s_spec.conformance.vectors.all_vectors import drafts, suite_of
from i2s_spec.errors import SettingError
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.schema.mistakes import MISTAKES as CATALOGUE
from i2s_spec.schema.mistakes import MODEL_MISTAKES


@pytest.fixture(scope="module")
def declared() -> Suite:
    return suite_of(vector.read(), declared=True)


@pytest.fixture(scope="module")
def without_large_models(declared: Suite) -> Suite:
    """All vectors but those of models, of which whole passes take seconds, and those of one trained model."""
    kept = [each for each in declared if each.op != "forward" or each.input_blob.path == _llama(declared)]
    return Suite(declared.version, tuple(kept))


def _llama(suite: Suite) -> str:
    return next(each.input_blob.path for each in suite if each.op == "forward" and "arch.llama" in each.features)


def test_correct_decoders_pass_every_vector(declared: Suite) -> None:
    assert [each.id for each in kill.right_failures(declared)] == []


def test_every_mutant_dies_and_a_flag_names_its_bug(without_large_models: Suite) -> None:
    killed = kill.results(without_large_models, flagged=True)
    assert len(killed) >= 40
    flags = {flag for each in without_large_models for flag in each.flags}
    assert [each.name for each in killed if each.flag in flags and not each.named] == []
    proven = kill.proven(without_large_models, killed)
    lines = {line.id: line for line in vector.read().values()}
    assert {id: ",".join(found) or "-" for id, found in proven.items()} == {id: lines[id].flags for id in proven}


@pytest.mark.thorough
def test_vectors_that_no_mutant_fails_say_so(without_large_models: Suite) -> None:
    killed = kill.results(without_large_models)
    for each in kill.unused(without_large_models, killed):
        assert "No mutant" in each.comment, each.id
    flagged = kill.results(without_large_models, flagged=True)
    named = {each.name: each.named for each in flagged}
    assert named == {each.name: each.named for each in killed if each.name in named}
    assert kill.proven(without_large_models, flagged) == kill.proven(without_large_models, killed)


@pytest.mark.thorough
def test_every_mutant_fails_with_all_models_too(declared: Suite) -> None:
    assert [each.name for each in kill.results(declared) if not each.named] == []
    assert vector.text(kill.registered()) == vector.LEDGER.read_text()


def test_every_mistake_of_golden_compare_has_a_vector_or_a_reason(declared: Suite) -> None:
    flags = {flag for each in declared for flag in each.flags}
    assert {mistake.name for mistake in MISTAKES} - flags == NOT_IN_MODELS.keys()
    assert FLAGS.keys() == {flag for draft in drafts() for flag in draft.flags}
    published = vector.read()
    assert flags == {flag for draft in drafts() if draft.name in published for flag in draft.flags}


def test_the_catalogue_names_every_mistake() -> None:
    """What `golden compare` tries is the catalogue's part about models, in its order; every mutant has an entry."""
    assert [each.mistake for each in MISTAKES] == list(MODEL_MISTAKES)
    modules = (wrong_containers, wrong_groups, wrong_numbers, wrong_payloads)
    mutants = [*(each for module in modules for each in module.MUTANTS), *wrong_models.all_mutants()]
    assert {each.flag for each in mutants} == CATALOGUE.keys()
    for mistake in CATALOGUE.values():
        assert not mistake.bug[0].islower()
        assert mistake.bug.endswith(".")


def test_mutants_need_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conform, "__file__", str(tmp_path / "i2s_spec" / "cli" / "conform.py"))
    for verb in ("mutants", "register"):
        with pytest.raises(SettingError, match="not part of the installed package: clone the repository"):
            CliRunner().invoke(vectors_command, [verb], catch_exceptions=False)


def test_a_correct_decoder_declared_as_mutant_survives(
    without_large_models: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Suite("1.0.0", tuple(each for each in without_large_models if each.op == "decode"))
    monkeypatch.setattr(wrong_payloads, "MUTANTS", (Mutant("none", "bit-order", PlainNumbers),))
    found = [each for each in kill.results(small) if each.name == "none"]
    assert [each.named for each in found] == [()]
    assert kill.unused(small, found)


def test_refusing_passes_only_where_the_verdict_allows_it(declared: Suite) -> None:
    by_verdict = {each.verdict: each for each in declared if each.op == "dequant"}
    refused = DecoderAnswer(refused=True)
    assert passes(by_verdict["invalid"], refused)
    assert not passes(by_verdict["valid"], refused)
    assert passes(by_verdict["either"], refused)


def test_classes_of_comparison() -> None:
    import numpy as np

    def floats(*values: float) -> bytes:
        return np.array(values, dtype="<f4").tobytes()

    one, near = floats(1, 2, 3, 4), floats(1, 2, 3, 4.00001)
    assert not same({"class": "bits"}, near, one)
    assert not same({"class": "bits"}, floats(-0.0), floats(0.0))
    assert same({"class": "rtol", "rtol": 1e-5}, near, one)
    assert not same({"class": "rtol", "rtol": 1e-7}, near, one)
    assert same({"class": "corr", "corr": 0.999}, near, one)
    assert not same({"class": "corr", "corr": 0.999, "columns": 4}, floats(1, 2, 4.01, 4), floats(1, 2, 4, 4.01))
    assert not same({"class": "corr", "corr": 0.9}, floats(1, 1, 1, 1), one)
    assert not same({"class": "corr", "corr": 0.9}, one[:8], one)


def test_the_table_of_mutants(monkeypatch: pytest.MonkeyPatch, without_large_models: Suite) -> None:
    import i2s_spec.conformance.vectors as package

    payloads = Suite("1.0.0", tuple(each for each in without_large_models if "layout.x86-128" in each.features))
    payloads = Suite("1.0.0", tuple(each for each in payloads if each.op == "decode"))
    monkeypatch.setattr(package, "suite", lambda: payloads)
    run = CliRunner().invoke(vectors_command, ["mutants", "--all"])
    assert run.exit_code == 1  # mutants of other operations survive without their vectors
    rows = {line.split()[0]: line.split()[1:] for line in run.output.splitlines()}
    assert rows["bits-reversed"][0] == "bit-order"
    assert rows["int16-wrap"][-1] == "survives"
