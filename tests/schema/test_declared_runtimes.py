"""The declared runtimes: every fact has a source, tables fit each other, and the installed reader has the types we say."""

from __future__ import annotations

import re

import pytest

from i2s_spec.schema.architecture import ARCHITECTURES
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.runtimes import RETIRED_SLOTS, RUNTIME, RUNTIMES, Fact, Runtime
from i2s_spec.schema.types import TENSOR_TYPES

SOURCE = re.compile(
    r"[\w.-]+/[\w.-]+(#\d+|@\w+|\s\S.*)?$|vectors/\S+(\s\d+)?$|gguf [\d.]+ \S+$|@huggingface/gguf [\d.]+ \S+$|"
    r"[\w.-]+/[\w.-]+ discussion \d+$"
)


def facts(runtime: Runtime) -> list[Fact]:
    found = [fact for _, fact in runtime.facts]
    return [*found, runtime.refusal] if runtime.refusal is not None else found


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.name)
def test_everything_has_a_source(runtime: Runtime) -> None:
    assert SOURCE.match(runtime.source), runtime.source
    for fact in facts(runtime):
        assert SOURCE.match(fact.source), fact.source
        assert fact.text
        assert not fact.text.endswith(".")


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.name)
def test_tables_fit_the_schema(runtime: Runtime) -> None:
    assert {*runtime.architectures, *runtime.unsure} <= set(ARCHITECTURES)
    assert {layout for _, layout in runtime.layouts} <= {*LAYOUTS, ""}
    assert {name for name, _ in runtime.activations} <= set(runtime.architectures)
    if runtime.kind == "front":
        assert RUNTIME[runtime.of].kind == "engine"
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
    constants = pytest.importorskip("gguf.constants", reason="pip install 'i2s-spec[gguf]'")
    from importlib.metadata import version

    if version("gguf") != "0.19.0":
        pytest.skip(f"gguf {version('gguf')} is installed; the declaration is about 0.19.0")
    assert {int(kind) for kind in constants.GGMLQuantizationType} == RUNTIME["gguf-py"].types


def test_upstream_knows_what_it_has_not_retired() -> None:
    ours = {kind.number for kind in TENSOR_TYPES if kind.family == "ggml"}
    assert RUNTIME["llama.cpp"].types == ours - RETIRED_SLOTS
