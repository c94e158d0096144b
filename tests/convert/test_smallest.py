"""The smallest file of each architecture that llama.cpp loads: sound for the linter, and for llama.cpp's own library."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.convert.smallest import ALWAYS, NEEDS, TYPES, VALUES, ChosenSizes, plan
from i2s_spec.schema import llama_cpp
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.expressions import compiled

TABLE = llama_cpp.table()
#: Those that are not declared: `i2s new` writes what their loader requires.
NAMES = sorted(TABLE.names.difference(ARCHITECTURES))

#: What the table does not resolve: there is an error, and no file.
UNRESOLVED = {"eagle3", "dflash"}

#: What libllama 0.5.0 does not compute, with its reason, which is not the file.
NOT_COMPUTED = {
    "gemma4-assistant": "ctx_other",  # it drafts for another model, and computes nothing without one
    "plm": "GGML_ASSERT(a->ne[0] == b->ne[0])",  # its graph stores the values of all tokens as those of one
    "glm5-next": "unknown model architecture",  # younger than the library
}


def written(name: str, **options: Any) -> bytes:
    target = io.BytesIO()
    result = i2s.new(target, name, **options)
    data = target.getvalue()
    file = i2s.open(data)
    assert result == (len(data), len(file.metadata), len(file.tensors))
    return data


def check_clean(data: bytes) -> None:
    report = i2s.lint(data)
    assert [f"{each.code} {each.message}" for each in report.findings if each.code != "G106"] == []
    assert report.ok


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNRESOLVED))
def test_each_architecture_is_sound(name: str) -> None:
    data = written(name)
    assert len(data) < (2_000_000 if name == "chameleon" else 1_000_000)
    check_clean(data)
    file = i2s.open(data)
    assert file.metadata["general.architecture"] == name
    for tensor in file.tensors.rows:
        if tensor.type is not None and tensor.type.name in ("F16", "F32"):
            assert np.isfinite(tensor.array()).all()


@pytest.mark.parametrize("name", sorted(UNRESOLVED))
def test_what_is_not_resolved_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fc\.weight in \w+ is not resolved by the table"):
        i2s.new(tmp_path / "model.gguf", name)
    assert list(tmp_path.iterdir()) == []


def test_the_next_token_layers_are_complete() -> None:
    file = i2s.open(written("qwen3next"))
    assert (file.metadata["qwen3next.block_count"], file.metadata["qwen3next.nextn_predict_layers"]) == (3, 1)
    last = {name for name in file.tensors if name.startswith("blk.2.")}
    assert {f"blk.2.nextn.{each}.weight" for each in ("eh_proj", "enorm", "hnorm")} <= last
    assert {f"blk.2.attn_{each}.weight" for each in ("q", "k", "v", "output")} <= last
    assert "blk.0.ssm_a" in file.tensors
    assert (file.tensors["blk.0.ssm_a"].array() < 0).all()


@pytest.mark.parametrize("name", ["gpt2", "qwen3next", "deepseek4"])
@pytest.mark.parametrize("kind", TYPES)
def test_types_and_byte_orders(name: str, kind: str) -> None:
    for order in ("little", "big"):
        data = written(name, type=kind, byte_order=order, alignment=64)
        check_clean(data)
        file = i2s.open(data)
        kinds = [tensor.type.name for tensor in file.tensors.rows if tensor.type is not None]
        assert kind in kinds
        assert set(kinds) <= {kind, "F32", "F16", "I32"}
        assert (file.byte_order, file.metadata["general.alignment"]) == (order, 64)


def test_the_same_arguments_give_the_same_bytes() -> None:
    first, again, other = (written("qwen3next", seed=seed) for seed in (1, 1, 2))
    assert first == again
    start = i2s.open(first).data_start
    assert (first[:start], len(first)) == (other[:start], len(other))
    assert first[start:] != other[start:]


def test_the_bytes_are_pinned() -> None:
    """The same on every machine, with every version of NumPy; a newer table may change them."""
    pinned = {"gpt2": "2da87372bd770f2b", "qwen3next": "377da8660462cb34", "nemotron_h_moe": "882ad3f066b775b2"}
    assert {name: hashlib.sha256(written(name)).hexdigest()[:16] for name in pinned} == pinned


def test_sizes_can_be_chosen() -> None:
    data = written("qwen3moe", layers=3, embd=96, ff=80, heads=6, heads_kv=3, head_dim=20, vocab=400, context=99)
    check_clean(data)
    metadata = i2s.open(data).metadata
    names = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
             "attention.key_length", "attention.value_length", "context_length")  # fmt: skip
    assert [metadata[f"qwen3moe.{each}"] for each in names] == [3, 96, 80, 6, 3, 20, 20, 99]
    assert len(metadata["tokenizer.ggml.tokens"]) == 400


def test_widths_grow_to_whole_blocks() -> None:
    metadata = i2s.open(written("gpt2", type="TQ2_0")).metadata
    assert (metadata["gpt2.embedding_length"], metadata["gpt2.feed_forward_length"]) == (256, 256)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gpt3", {}, "unknown architecture 'gpt3'; did you mean gpt2?"),
        ("x" * 9, {}, "unknown architecture 'xxxxxxxxx'; there are: bitnet-b1.58"),
        ("gptj", {}, "unknown architecture 'gptj'"),
        ("gpt2", {"rotated": True}, "rotated is for bitnet-b1.58"),
        ("gpt2", {"head": "tied"}, "head is for bitnet-b1.58"),
        ("gpt2", {"shape": "2b4t"}, "shape is for bitnet-b1.58"),
        ("gpt2", {"as_published": True}, "as_published is for bitnet-b1.58"),
        ("gpt2", {"unit_tables": True}, "unit_tables is for bitnet-b1.58"),
        ("gpt2", {"type": "I2_S"}, "'I2_S' is not a type for matrices of gpt2; there are: F16"),
        ("gpt2", {"seed": -1}, "the seed is -1"),
        ("gpt2", {"layers": 0}, "layers is 0; it must be 1 to 512"),
        ("gpt2", {"layers": 513}, "layers is 513; it must be 1 to 512"),
        ("gpt2", {"embd": 0}, "embd is 0; it must be 1 to"),
        ("gpt2", {"embd": 1 << 24}, "sizes are for small files"),
        ("gpt2", {"ff": 1 << 40}, "ff is 1,099,511,627,776; it must be 1 to"),
        ("gpt2", {"heads": 3}, "heads is 3; it must divide embd, which is 64"),
        ("gpt2", {"heads_kv": 0}, "heads_kv is 0; it must be 1 to"),
        ("qwen3moe", {"heads": 4, "heads_kv": 3}, "heads_kv is 3; it must divide heads, which is 4"),
        ("qwen3moe", {"head_dim": 7}, "heads are 7 wide; the width must be even"),
        ("gpt2", {"vocab": 100}, "a vocabulary of this kind has 259 to"),
        ("chameleon", {"vocab": 400}, "vocab is 400; chameleon has at least 8,200 tokens"),
        ("gpt2", {"context": 0}, "context is 0; it must be 1 to"),
        ("mamba", {"heads": 2}, "heads is no size of mamba"),
        ("nemotron_h", {"layers": 2}, "layers is 2; nemotron_h has layers of several kinds, and needs 3"),
        ("qwen2moe", {"head_dim": 48}, "qwen2moe with these sizes is refused: blk.0.attn_q.weight has the rows"),
        ("wavtokenizer-dec", {"layers": 8}, "wavtokenizer-dec with these sizes is refused"),
    ],
)
def test_what_cannot_be_is_refused(name: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        i2s.new(tmp_path / "model.gguf", name, **options)
    assert said in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_declared_is_needed() -> None:
    """Values and exceptions are of keys, tensors and architectures that the table has; each expression can be read."""
    assert set(NEEDS) <= set(NAMES)
    keys = {row.name.partition(".")[2] for name in TABLE.names for row in architecture(name).keys}
    for each in (ALWAYS, VALUES, *(needs.keys for needs in NEEDS.values())):
        assert {key for key in each if not key.startswith("tokenizer.")} <= keys
        assert all(compiled(text) for text in each.values() if text is not None)
    for name, needs in NEEDS.items():
        rows = {row.name for row in architecture(name).rows}
        assert not needs.tensors or needs.tensors.keys() & rows, name
    used = {key.partition(".")[2] for name in set(NAMES) - UNRESOLVED for key in plan(name, ChosenSizes()).keys}
    unused = {"tokenizer.ggml.token_type_count", "target_layers", "target_hidden_size"}  # the last two: of UNRESOLVED
    assert set(VALUES) - used == unused


def architecture(name: str) -> llama_cpp.LoaderArchitecture:
    found = TABLE.architecture(name)
    assert found is not None
    return found


def test_llama_cpp_computes_them(tmp_path: Path) -> None:
    judge = pytest.importorskip("peers.judge", reason="the judge is llama.cpp's library")
    if (reason := judge.missing()) is not None:
        pytest.skip(reason)
    names = sorted(set(NAMES) - UNRESOLVED)
    paths = [tmp_path / f"{name}.gguf" for name in names]
    for name, path in zip(names, paths, strict=True):
        i2s.new(path, name)
    for name, verdict in zip(names, judge.judge(paths), strict=True):
        if name in NOT_COMPUTED:
            assert verdict.bad, f"{name} is computed now"
            assert NOT_COMPUTED[name] in verdict.message
        else:
            assert verdict.word == "load", f"{name}: {verdict}"


@pytest.mark.parametrize("kind", TYPES)
def test_llama_cpp_computes_other_sizes_and_types(kind: str, tmp_path: Path) -> None:
    judge = pytest.importorskip("peers.judge", reason="the judge is llama.cpp's library")
    if (reason := judge.missing()) is not None:
        pytest.skip(reason)
    paths = []
    for name in ("gemma2", "qwen3moe", "nemotron_h", "qwen3next", "falcon-h1"):
        paths.append(tmp_path / f"{name}.gguf")
        i2s.new(paths[-1], name, layers=5, embd=256, ff=512, heads=8, heads_kv=4, vocab=400, seed=3, type=kind)
    assert [verdict.word for verdict in judge.judge(paths)] == ["load"] * len(paths)
