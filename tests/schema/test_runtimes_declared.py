"""The declared runtimes: every fact has a source, tables are consistent, the installed reader has the declared types."""

from __future__ import annotations

import pytest

from i2s_spec.linter.runtimes.records import citation, records
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.runtimes import RETIRED_SLOTS, RUNTIME, RUNTIMES, Fact, Runtime
from i2s_spec.schema.types import TENSOR_TYPES


def facts(runtime: Runtime) -> list[Fact]:
    found = [fact for _, fact in runtime.facts]
    return [*found, runtime.refusal] if runtime.refusal is not None else found


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.name)
def test_every_fact_has_a_source(runtime: Runtime) -> None:
    assert citation(runtime.source) is not None
    for fact in facts(runtime):
        assert citation(fact.source) is not None
        assert fact.text
        assert not fact.text.endswith(".")


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.name)
def test_tables_fit_the_schema(runtime: Runtime) -> None:
    assert {*runtime.architectures, *runtime.unsure} <= set(ARCHITECTURES)
    assert {layout for _, layout in runtime.layouts} <= {*LAYOUTS, ""}
    assert {name for name, _ in runtime.activations} <= set(runtime.architectures)
    if runtime.kind == "front":
        assert RUNTIME[runtime.of].kind == "engine" if runtime.of else runtime.fact("engines") is not None
    if runtime.recorded:  # its behavior is known only from recorded runs
        assert not runtime.types
        assert any(run.program in runtime.programs for run in records().values())
        return
    if runtime.kind == "engine":
        assert runtime.types
        assert (36 in runtime.types) == (runtime.i2s in ("computes", "converts"))
    if runtime.i2s in ("computes", "converts"):
        assert runtime.layouts
    if runtime.i2s == "rejects" and runtime.kind != "front":
        assert runtime.refusal is not None


def test_names_are_unique() -> None:
    assert len(RUNTIME) == len(RUNTIMES)


def test_the_types_of_the_installed_reader() -> None:
    constants = pytest.importorskip("gguf.constants", reason="pip install -e '.[gguf]'")
    from importlib.metadata import version

    if version("gguf") != "0.19.0":
        pytest.skip(f"gguf {version('gguf')} is installed; the declaration is about 0.19.0")
    assert {int(kind) for kind in constants.GGMLQuantizationType} == RUNTIME["gguf-py"].types


def test_upstream_knows_what_it_has_not_retired() -> None:
    ours = {kind.number for kind in TENSOR_TYPES if kind.family == "ggml"}
    assert RUNTIME["llama.cpp"].types == ours - RETIRED_SLOTS
