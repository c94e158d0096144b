"""Every statement about a runtime cites a record or a source, and our results agree with the records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import model_bytes
from peers.small_files import SMALL_FILES, make
from test_runtimes import changed, verdicts_of, without_key, without_tensor

from i2s_spec.linter.engine import lint
from i2s_spec.linter.runtimes.records import citation, records
from i2s_spec.linter.runtimes.verdicts import Verdict
from i2s_spec.schema.runtimes import RUNTIME, RUNTIMES, Runtime

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def verdicts_on_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Verdict]]:
    folder = tmp_path_factory.mktemp("files")
    return {name: verdicts_of(make(folder, file)) for name, file in SMALL_FILES.items()}


def declared_sources(runtime: Runtime) -> Iterator[str]:
    yield from (runtime.source, runtime.bitnet_names)
    yield from (source for _, source in runtime.loader)
    yield from (fact.source for _, fact in runtime.facts)
    yield from (source for *_, source in runtime.narrower)
    if runtime.refusal is not None:
        yield runtime.refusal.source


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.name)
def test_every_declared_fact_cites_a_run_or_a_source(runtime: Runtime) -> None:
    for source in declared_sources(runtime):
        cited = citation(source)
        assert cited is not None, source
        if cited["kind"] == "vectors":
            assert (ROOT / cited["path"]).exists(), source


def claims_of(found: dict[str, Verdict]) -> None:
    for verdict in found.values():
        assert verdict.reasons, verdict.runtime
        for reason in verdict.reasons:
            if not reason.source:
                assert reason.text.startswith("not tried"), reason
                assert reason.effect in ("unknown", "doubt"), reason
            else:
                assert citation(reason.source), reason


def test_every_verdict_on_a_sound_file_cites(verdicts_on_files: dict[str, dict[str, Verdict]]) -> None:
    for found in verdicts_on_files.values():
        claims_of(found)


@pytest.mark.parametrize("architecture", ["bitnet", "bitnet-25", "bitnet-b1.58", "llama", "qwen3", "gemma3"])
def test_every_verdict_on_another_file_cites(architecture: str) -> None:
    data = model_bytes(architecture=architecture)
    for dialect in ("canonical", "interleave-64", "sequential-msb/zero-first"):
        claims_of(verdicts_of(data, dialect, "full"))
    for name in (
        f"{architecture}.block_count",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "general.architecture",
    ):
        claims_of(verdicts_of(changed(data, without_key(name))))
    for name in ("output_norm.weight", "token_embd.weight"):
        claims_of(verdicts_of(changed(data, without_tensor(name))))
    claims_of(verdicts_of(data[: len(data) // 2]))
    claims_of(verdicts_of(data[:100]))
    claims_of(verdicts_of(b"GGUF"))


def test_invalid_citations_are_refused() -> None:
    assert citation("") is None
    for source in ("somebody said so", "run nobody/llama.q2_0", "microsoft/BitNet setup_env.py", "vectors/errors"):
        with pytest.raises(ValueError, match=r"not a citation|no record"):
            citation(source)
    assert citation("microsoft/BitNet#588") == {"kind": "thread", "repository": "microsoft/BitNet", "number": 588}
    line = {"kind": "source", "repository": "a/b", "commit": "0123abc", "path": "src/x.c", "line": 7}
    assert citation("a/b@0123abc:src/x.c:7") == line


def test_verdicts_on_the_recorded_files_are_what_the_runs_were(
    verdicts_on_files: dict[str, dict[str, Verdict]],
) -> None:
    """For each runtime that has runs: a file that a run loaded is one that it loads, and the other way round."""
    checked = 0
    for runtime in RUNTIMES:
        for run in records().values():
            if run.program in runtime.programs and not run.program.startswith("@node-llama-cpp"):
                verdict = verdicts_on_files[run.file.name][runtime.name]
                said = {"yes", "with option"} if run.loads else {"no", "crash", "with option"}
                assert verdict.loads in {"not tried", *said}, (run.id, verdict)
                checked += verdict.loads != "not tried"
    assert checked > 150


@pytest.mark.parametrize("name", ["llama.q2_0", "llama.tq2_0", "llama.tq1_0"])
def test_recommended_conversions_compute_correctly(verdicts_on_files: dict[str, dict[str, Verdict]], name: str) -> None:
    verdict = verdicts_on_files[name]["llama.cpp"]
    assert (verdict.loads, verdict.computes) == ("yes", "correctly")
    runs = [citation(reason.source) for reason in verdict.reasons if reason.source.startswith("run ")]
    assert {run["program"] for run in runs if run} == {"xllamacpp", "node-llama-cpp"}
    studio = verdicts_on_files[name]["lm-studio"]
    assert "it was not run with such a file" in studio.reasons[0].text
    assert studio.reasons[0].source == RUNTIME["lm-studio"].source


def test_silu_in_llama_cpp_is_a_record(verdicts_on_files: dict[str, dict[str, Verdict]]) -> None:
    verdict = verdicts_on_files["bitnet.q2_0.relu2"]["llama.cpp"]
    assert verdict.computes == "wrongly"
    cited = citation(verdict.reasons[0].source)
    assert cited is not None
    against = {one["against"]: one["correlation"] for one in cited["computed"]}
    assert against["bitnet.i2_s"] > 0.999
    assert against["bitnet.i2_s.relu2"] < 0.95
    unstated = verdicts_on_files["bitnet.q2_0"]["llama.cpp"]
    assert unstated.computes == "expected"
    assert "if the model was trained with SiLU" in unstated.reasons[0].text


def test_verdicts_without_a_run_or_source_are_not_tried() -> None:
    """Missing keys stop llama.cpp's reader; for another reader, nothing was recorded."""
    found = verdicts_of(changed(model_bytes(architecture="llama"), without_key("llama.context_length")))
    assert found["bitnet.cpp-2025"].loads == "no"
    assert found["0xBitNet"].loads == "not tried"


def test_json_carries_the_citation() -> None:
    report: dict[str, Any] = lint(model_bytes(architecture="llama"), payload="none", runtimes=True).as_dict()
    schema = json.loads((ROOT / "i2s_spec/linter/report/lint.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/citation", "$defs": schema["$defs"]})
    kinds = set()
    for verdict in report["runtimes"]:
        for reason in verdict["reasons"]:
            assert (reason["citation"] is None) == (not reason["source"])
            if reason["citation"] is not None:
                validator.validate(reason["citation"])
                kinds.add(reason["citation"]["kind"])
    assert kinds >= {"run", "thread", "source"}
