"""The memory of a model: held to the sizes that llama.cpp logs, and to arithmetic."""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from builders import model_bytes
from peers.llama_cpp import missing
from peers.programs import PROGRAM

from i2s_spec.checkup import summary
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.memory import MemoryUse, all_tensors, memory, trained_context
from i2s_spec.linter.runtimes.devices import weight_places
from i2s_spec.schema.llama_cpp import table

REASON: Final = missing("xllamacpp")
_CHILD: Final = Path(__file__).parent.parent / "peers" / "children" / "log_sizes.py"
_SIZE: Final = re.compile(r"(model|KV|RS) buffer size = +([\d.]+) MiB")
MIB: Final = 1 << 20


def with_keys(data: bytes, keys: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    with open_file(data) as file:
        rewrite(file, out, set=keys)
    return out.getvalue()


def logged(path: Path, context: int, cache: str) -> dict[str, float]:
    """Bytes of the model, of keys and values and of recurrent states by the log of llama.cpp; empty if it refuses."""
    words = [*PROGRAM["xllamacpp"].command()[:-1], str(_CHILD), str(path), str(context), cache]
    with tempfile.TemporaryFile() as log:
        subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, timeout=300, check=False)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    found = {"model": 0.0, "KV": 0.0, "RS": 0.0}
    for kind, size in _SIZE.findall(text):
        found[kind] += float(size) * MIB
    return found if found["model"] else {}


def assert_as_logged(found: MemoryUse, log: dict[str, float]) -> None:
    """Within 3 %, and the hundredth of a MiB, for each of at most two buffers, to which the log rounds."""
    assert found.weights is not None
    assert found.cache is not None
    states = sum(part.bytes for part in found.cache if part.name == "recurrent state")
    for ours, theirs in ((found.weights, log["model"]), (sum(part.bytes for part in found.cache) - states, log["KV"])):
        assert ours == pytest.approx(theirs, rel=0.03, abs=0.011 * MIB)
    assert states == pytest.approx(log["RS"], rel=0.03, abs=0.011 * MIB)


WIDE: Final = {"embd": 512, "ff": 1024, "heads": 8, "layers": 3, "context": 8192}

MODELS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "llama TQ2_0": ("llama", {**WIDE, "heads_kv": 2, "type": "TQ2_0", "vocab": 4000}, {}),
    "llama tied": ("llama", {**WIDE, "heads_kv": 4, "type": "Q2_0", "vocab": 4000}, {}),
    "bitnet F16": ("bitnet", {**WIDE, "type": "F16", "vocab": 4000}, {}),
    "qwen3-lm": ("qwen3-lm", {**WIDE, "heads_kv": 4, "head_dim": 128, "type": "Q2_0"}, {}),
    "gemma2 windows": ("gemma2", {"context": 8192}, {"gemma2.attention.sliding_window": Value("u32", 700)}),
    "cohere2 windows": ("cohere2", {"context": 8192}, {"cohere2.attention.sliding_window": Value("u32", 100)}),
    "qwen35": ("qwen35", {"context": 8192, "layers": 40, "type": "F16"}, {}),
    "mamba2": ("mamba2", {"context": 8192, "layers": 20}, {}),
}


@pytest.mark.skipif(REASON is not None, reason=REASON or "")
@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    architecture, options, keys = MODELS[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(with_keys(model_bytes(architecture, **options), keys))
    with open_file(path) as file:
        for context, cache in ((1000, "f16"), (4096, "f16"), (4096, "q8_0")):
            if found := memory(file, context, cache):
                log = logged(path, context, cache)
                assert bool(log) or found.cache is None
                if found.cache is not None:
                    assert_as_logged(found, log)


@pytest.mark.thorough
@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_every_architecture_of_the_table(tmp_path: Path) -> None:
    """What is known of the cache of any architecture is right; of most it is known."""
    known = 0
    for name in sorted(table().names):
        path = tmp_path / "model.gguf"
        try:
            path.write_bytes(model_bytes(name, context=4096))
        except ValueError:
            continue
        with open_file(path) as file:
            found = memory(file, 4000)
        if found.cache is not None and (log := logged(path, 4000, "f16")) and name != "qwen35moe":  # it skips layers
            assert_as_logged(found, log)
            known += 1
    assert known > 90


def sizes(data: bytes, context: int = 4096, cache: str = "f16") -> MemoryUse:
    with open_file(data) as file:
        return memory(file, context, cache)


def test_a_cache_of_a_fork_follows_from_the_declaration() -> None:
    """bitnet-b1.58 is in no table of llama.cpp: 2 layers, 2 of 4 heads of 32."""
    data = model_bytes("bitnet-b1.58", layers=2, embd=128, heads=4, heads_kv=2)
    found = sizes(data, 300)
    assert found.cache is not None
    assert [tuple(part) for part in found.cache] == [("keys and values", 2, 512, 2 * 2 * 2 * 32 * 512 * 2)]
    assert sizes(data, 512, "q8_0").cache_bytes == 2 * 2 * 2 * 34 * 512


def test_a_tied_embedding_is_counted_once() -> None:
    data = model_bytes("bitnet-b1.58", vocab=2000)
    with open_file(data) as file:
        assert memory(file, 1).weights == sum(tensor.nbytes for tensor in file.tensors.rows) < len(data)


def of_file(data: bytes) -> tuple[File, Any]:
    file = open_file(data)
    return file, weight_places(file, all_tensors(file))


def nbytes(file: File, wanted: Iterable[str]) -> int:
    return sum(file.tensors[name].nbytes for name in wanted)


def test_the_head_of_bitnet_stays_in_host_memory() -> None:
    file, places = of_file(model_bytes("bitnet", **WIDE, type="Q2_0"))
    assert places.host == nbytes(file, ["token_embd.weight"])
    assert places.host + places.device == memory(file, 1).weights
    assert "multiplied there as the head" in places.words
    assert "2026-11-28" in places.source


def test_a_tied_head_of_another_architecture_is_copied() -> None:
    file, places = of_file(model_bytes("qwen3-lm", **WIDE, type="Q2_0"))
    assert "output.weight" not in file.tensors
    assert places.host == nbytes(file, ["token_embd.weight"])
    assert places.device == memory(file, 1).weights


def test_ternary_types_of_llama_cpp_stay_in_host_memory() -> None:
    file, places = of_file(model_bytes("llama", **WIDE, type="TQ2_0"))
    ternary = [name for name, tensor in file.tensors.items() if tensor.kind == "TQ2_0"]
    assert places.host == nbytes(file, ["token_embd.weight", *ternary])
    assert "TQ2_0" in places.words


@pytest.mark.parametrize("architecture", ["llama", "bitnet-b1.58", "gemma2"])
def test_nothing_is_said_of_files_that_no_run_is_like(architecture: str) -> None:
    """I2_S was refused, and other architectures were not tried."""
    assert of_file(model_bytes(architecture))[1] is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"llama.block_count": Value("u32", 4_294_967_295)}, "layers"),
        ({"llama.block_count": Value("u32", 0)}, "layers"),
        ({"llama.attention.head_count_kv": Value("str", "two")}, "not known"),
        ({"llama.attention.key_length": Value("u64", 1 << 63)}, "not known"),
        ({"general.architecture": Value("str", "no\nsuch")}, "is not known"),
    ],
)
def test_wrong_metadata_give_a_reason(keys: dict[str, Any], words: str) -> None:
    found = sizes(with_keys(model_bytes("llama"), keys))
    assert found.cache is None
    assert words in (found.unknown or "")
    assert "\n" not in (found.unknown or "")
    assert found.weights


def test_no_context_without_the_key() -> None:
    with open_file(with_keys(model_bytes("llama"), {"llama.context_length": Value("u32", 0)})) as file:
        assert trained_context(file) is None
        assert not any("memory" in words for words in summary(file))


def test_what_keeps_something_else_is_not_known() -> None:
    assert "attention.kv_lora_rank" in (sizes(model_bytes("deepseek2")).unknown or "")
    assert "whole blocks" in (sizes(model_bytes("gemma2"), cache="q8_0").unknown or "")
