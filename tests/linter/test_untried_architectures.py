"""To declare an architecture makes no claim about any runtime: nobody tried its models until a run of one is recorded."""

from __future__ import annotations

import pytest
from builders import model_bytes
from test_runtimes import changed, renamed, verdicts_of

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.runtimes import records
from i2s_spec.linter.runtimes.records import RunRecord, TriedFile, form_of
from i2s_spec.linter.runtimes.verdicts import Verdict
from i2s_spec.schema import architectures, inventory
from i2s_spec.schema.architectures import ARCHITECTURES, Architecture
from i2s_spec.schema.runtimes import LOOKED_UP, RUNTIMES

NAME = "nobodys"
#: What refuses a type whatever the architecture is.
BY_TYPE_ALONE = {"ollama": "no"}

MADE_UP = Architecture(
    NAME, "made up", inventory.LLAMA, activation="silu", rope="neox", head="untied", whole_head_rope=True
)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "_ALL", (*ARCHITECTURES.values(), MADE_UP))


def model(type: str = "I2_S") -> bytes:
    return changed(model_bytes(architecture="llama", type=type), renamed("llama", NAME))


def runs_cited(found: dict[str, Verdict]) -> list[str]:
    sources = [reason.source for verdict in found.values() for reason in verdict.reasons]
    return [source for source in sources if source.startswith("run ")]


def test_every_declared_runtime_was_examined_for_what_it_lists() -> None:
    assert {name for runtime in RUNTIMES for name in (*runtime.architectures, *runtime.unsure)} <= LOOKED_UP | {
        run.file.architecture for run in records.records().values()
    }


def test_nobody_tried_it() -> None:
    found = verdicts_of(model())
    assert {name: verdict.loads for name, verdict in found.items() if verdict.loads != "not tried"} == BY_TYPE_ALONE
    assert {verdict.computes for verdict in found.values()} == {"not tried", "-"}
    assert runs_cited({name: each for name, each in found.items() if name not in BY_TYPE_ALONE}) == []


@pytest.mark.parametrize("type", ["F32", "Q2_0", "TQ2_0", "IQ2_BN"])
def test_no_run_of_another_architecture_is_cited(type: str) -> None:
    found = verdicts_of(model(type))
    assert runs_cited({name: each for name, each in found.items() if name not in BY_TYPE_ALONE}) == []


def test_an_undeclared_architecture_is_not_tried_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = verdicts_of(model())
    engines = [runtime for runtime in RUNTIMES if runtime.kind == "engine" and runtime.i2s in ("computes", "converts")]
    assert {found[runtime.name].loads for runtime in engines} == {"not tried"}


def test_its_own_run_is_cited(monkeypatch: pytest.MonkeyPatch) -> None:
    with File(BufferSource(model())) as opened:
        form = form_of(opened)
    file = TriedFile(f"{NAME}.i2_s", (), "0" * 64, 1, NAME, frozenset({"F16", "F32", "I2_S"}), form)
    run = RunRecord(f"mistralrs/{file.name}", "mistralrs", "0.9.5", "2026-11-23", file, True, "status 0", (), "", ())
    known = records.records() | {run.id: run}
    monkeypatch.setattr(records, "records", lambda: known)
    monkeypatch.setattr(records, "_runs_of_programs", records._runs_of_programs.__wrapped__)
    found = verdicts_of(model())
    assert (found["mistral.rs"].loads, found["mistral.rs"].computes) == ("yes", "not tried")
    assert run.citation in runs_cited(found)
    assert run.citation not in runs_cited(verdicts_of(model("Q2_0"))), "a run of other types"
