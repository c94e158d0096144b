"""The declarations of keys and tensors, compared with real files and with recorded results of the reference loaders."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.gguf.reader import File
from i2s_spec.schema import inventory
from i2s_spec.schema.architectures import (
    ARCHITECTURES,
    PREFIXES,
    Architecture,
    Hyperparameters,
    architecture_of,
    declared_architecture,
    hyperparameters,
)
from i2s_spec.schema.inventory import ROLES
from i2s_spec.schema.keys import EXPECTED, OPTIONAL, READERS, REQUIRED
from i2s_spec.schema.types import BY_NAME, VALUE_LABELS

EACH = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=repr)
SMALL = Hyperparameters(layers=12, embd=256, ff=512, heads=4, heads_kv=2, head_dim=128, value_dim=64, vocab=320)

FILES = [
    "bitnet-25.i2_s.arm64block.gguf",
    "bitnet-25.i2_s.gguf",
    "bitnet-b1.58.i2_s.via_llama_quantize.gguf",
    "bitnet-b1.58.packed.i2_s.direct.gguf",
    "bitnet.f32.gguf.gz",
    "bitnet.i2_s.2threads-CORRUPT.gguf",
    "bitnet.i2_s.arm64block.gguf",
    "bitnet.i2_s.gguf",
    "bitnet.i2_s.row4-BROKEN.gguf",
]


def misfits(file: File) -> list[str]:
    """In what a file does not fit the declarations of its architecture."""
    found = []
    architecture = architecture_of(file.metadata, file.tensors)
    holds = {"quantized": any(t.type.is_quantized for t in file.tensors.values() if t.type), "experts": False}
    holds |= {model: file.metadata["tokenizer.ggml.model"] == model for model in ("gpt2", "llama")}
    for entry in file.metadata.rows:
        key = architecture.keys.get(entry.key)
        if key is None:
            found.append(f"{entry.key} is not declared")
        elif entry.label not in key.types:
            found.append(f"{entry.key} is {entry.label}, not {key.types}")
        elif key.values and entry.element == -1 and file.metadata[entry.key] not in key.values:
            found.append(f"{entry.key} is {file.metadata[entry.key]}, not {key.values}")
    for key in architecture.keys.values():
        if key.need == REQUIRED and (not key.when or holds[key.when]) and key.name not in file.metadata:
            found.append(f"{key.name} is missing")
    places = {name: (ne, spec) for name, ne, spec in architecture.tensors(hyperparameters(file.metadata))}
    for tensor in file.tensors.values():
        if tensor.name not in places:
            found.append(f"{tensor.name} is not declared")
            continue
        ne, spec = places[tensor.name]
        assert architecture.match(tensor.name)[0] is spec
        if tensor.ne != ne:
            found.append(f"{tensor.name} has the shape {tensor.ne}, not {ne}")
        if tensor.type is None or tensor.type.name not in spec.types:
            found.append(f"{tensor.name} is {tensor.type}, not {spec.types}")
    for name, (_, spec) in places.items():
        if spec.need == REQUIRED and name not in file.tensors:
            found.append(f"{name} is missing")
    return found


@pytest.mark.parametrize("name", FILES)
def test_real_files_fit(shared: Path, name: str) -> None:
    data = (shared / "vectors/gguf" / name).read_bytes()
    file = i2s.open(gzip.decompress(data) if name.endswith(".gz") else data)
    assert misfits(file) == []


def test_all_real_files_are_tried(shared: Path) -> None:
    assert sorted(path.name for path in (shared / "vectors/gguf").iterdir()) == FILES


def test_keys_of_a_real_vocabulary_file(shared: Path) -> None:
    file = i2s.open(shared / "real/ggml-vocab-llama-spm.gguf")
    keys = ARCHITECTURES["llama"].keys
    assert [entry.key for entry in file.metadata.rows if entry.label not in keys[entry.key].types] == []
    assert hyperparameters(file.metadata).head_dim == 128


def test_required_keys_and_tensors_are_those_of_the_official_loader(shared: Path) -> None:
    """The loader was run with every key and some tensors removed in turn."""
    runs = json.loads((shared / "vectors/errors/missing_keys_and_tensors.json").read_text())
    keys = tensors = 0
    for run in runs:
        if not run["program"].startswith("official"):
            continue
        architecture = ARCHITECTURES["bitnet-25" if run["model"].startswith("b158") else "bitnet"]
        fails = run["result"] == "no logits"
        if name := run.get("removed_key"):
            declared = architecture.keys[name]
            # Without head_count_kv this loader expects as many key heads as query heads, so only the shapes are wrong.
            assert (declared.need == REQUIRED) == (fails and not name.endswith("head_count_kv")), name
            keys += 1
        if name := run.get("removed_tensor"):
            spec, _ = architecture.match(name)
            assert (spec.need == REQUIRED) == fails, name
            tensors += 1
    assert (keys, tensors) == (45, 10)


@EACH
def test_declarations_are_complete(architecture: Architecture) -> None:
    values = {*VALUE_LABELS, *(f"arr[{label}]" for label in VALUE_LABELS)}
    for name, key in architecture.keys.items():
        assert name == key.name
        assert re.fullmatch(r"[a-z0-9_.-]+", name)
        assert set(key.types) <= values
        assert key.need in (REQUIRED, EXPECTED, OPTIONAL)
        assert set(key.readers) <= READERS.keys()
        assert key.meaning.endswith(".")
        assert re.fullmatch(r"[23]\.\d", key.clause)
        assert not (key.default is not None and key.otherwise)
        assert key.default is None or not key.values or key.default in key.values
        assert key.when in ("", "quantized", "gpt2", "llama")
    assert len({spec.name for spec in architecture.inventory}) == len(architecture.inventory)
    for spec in architecture.inventory:
        assert spec.role in ROLES
        assert spec.need in (REQUIRED, EXPECTED, OPTIONAL)
        assert set(spec.types) <= BY_NAME.keys()
        assert all(hasattr(SMALL, size) for size in spec.ne)
        assert spec.when in ("", "dense", "experts", "attention", "delta", "nextn")
        assert re.fullmatch(r"4\.\d", spec.clause)
        assert spec.meaning.endswith(".")
        assert len(spec.name.replace("{i}", "511")) <= 63


def names(architecture: str, need: tuple[str, ...], h: Hyperparameters = SMALL) -> list[str]:
    return [name for name, _, spec in ARCHITECTURES[architecture].tensors(h) if spec.need in need]


@pytest.mark.parametrize(
    ("architecture", "layers", "per_layer", "total"),
    [
        ("bitnet-b1.58", 30, 11, 332),
        ("bitnet", 24, 11, 266),
        ("bitnet", 26, 11, 288),
        ("llama", 32, 9, 291),
        ("llama", 28, 9, 255),
        ("qwen3", 28, 18, 506),
        ("gemma3", 18, 20, 362),
    ],
)
def test_tensor_counts_of_real_models(architecture: str, layers: int, per_layer: int, total: int) -> None:
    found = names(architecture, (REQUIRED, EXPECTED), SMALL._replace(layers=layers))
    assert len(found) == total
    assert sum(name.startswith("blk.7.") for name in found) == per_layer


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet-25", "bitnet"])
def test_the_order_of_the_official_file(architecture: str) -> None:
    found = names(architecture, (REQUIRED,))
    layer = [
        "attn_norm", "ffn_down", "ffn_sub_norm", "ffn_gate", "ffn_up", "ffn_norm", "attn_sub_norm", "attn_k",
        "attn_output", "attn_q", "attn_v",
    ]  # fmt: skip
    layers = (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)
    blocks = [f"blk.{i}.{name}.weight" for i in layers for name in layer]
    assert found == ["token_embd.weight", *blocks, "output_norm.weight"]


def test_shapes() -> None:
    shapes = {name: ne for name, ne, _ in ARCHITECTURES["qwen3"].tensors(SMALL)}
    assert shapes["token_embd.weight"] == (256, 320)
    assert shapes["blk.0.attn_q.weight"] == (256, 512)
    assert shapes["blk.0.attn_k.weight"] == (256, 256)
    assert shapes["blk.0.attn_v.weight"] == (256, 128)
    assert shapes["blk.0.attn_output.weight"] == (256, 256)
    assert shapes["blk.0.attn_k_norm.weight"] == (128,)
    assert shapes["blk.11.ffn_down.weight"] == (512, 256)
    assert shapes["blk.11.ffn_down_norm_in.weight"] == (512,)
    assert {name: ne for name, ne, _ in ARCHITECTURES["llama"].tensors(SMALL)}["rope_freqs.weight"] == (64,)
    assert {name: ne for name, ne, _ in ARCHITECTURES["bitnet"].tensors(SMALL)}["blk.0.attn_q.scale"] == (1,)


def test_layers_may_differ() -> None:
    h = SMALL._replace(layers=2, varying=(("ff", (512, 1024)), ("heads_kv", (2, 4))))
    shapes = {name: ne for name, ne, _ in ARCHITECTURES["llama"].tensors(h)}
    assert shapes["blk.0.ffn_down.weight"] == (512, 256)
    assert shapes["blk.1.ffn_down.weight"] == (1024, 256)
    assert shapes["blk.0.attn_k.weight"] == (256, 256)
    assert shapes["blk.1.attn_k.weight"] == (256, 512)


def test_experts_take_the_place_of_the_feed_forward() -> None:
    dense = set(names("llama", (REQUIRED, EXPECTED, OPTIONAL)))
    shapes = {name: ne for name, ne, _ in ARCHITECTURES["llama"].tensors(SMALL._replace(experts=8))}
    assert "blk.0.ffn_up.weight" in dense
    assert not any("exps" in name or "gate_inp" in name for name in dense)
    assert not any(name.endswith(("ffn_up.weight", "ffn_up.bias")) for name in shapes)
    assert shapes["blk.0.ffn_down_exps.weight"] == (512, 256, 8)
    assert shapes["blk.0.ffn_gate_inp.weight"] == (256, 8)


@EACH
def test_every_placed_name_is_matched(architecture: Architecture) -> None:
    for experts in (0, 8):
        for name, _, spec in architecture.tensors(SMALL._replace(experts=experts)):
            found = architecture.match(name)
            assert found is not None
            assert found[0] is spec
            assert found[1] == (int(name.split(".")[1]) if spec.per_layer else None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "blk",
        "blk..attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk.01.attn_q.weight",
        "blk.٣.attn_q.weight",
        "blk.0.attn_q.weight\n",
        "blk.{i}.attn_q.weight",
        "blk.0.attn_q",
        "blk.0.nothing.weight",
        "blk.0.blk.0.attn_q.weight",
        "x.blk.0.attn_q.weight",
        "blk.99999999999999999999.attn_q.weight",
        "output.weight ",
    ],
)
@EACH
def test_undeclared_names_do_not_match(architecture: Architecture, name: str) -> None:
    assert architecture.match(name) is None


@pytest.mark.parametrize(
    ("value", "keys", "tensors", "name"),
    [
        ("qwen3", (), (), "qwen3-lm"),
        ("qwen3", {"qwen3.block_count"}, ("blk.0.attn_q.weight", "blk.0.attn_norm.weight"), "qwen3-lm"),
        ("qwen3", {"gemma3.pooling_type"}, (), "qwen3-lm"),
        ("qwen3", {"qwen3.pooling_type"}, (), "qwen3"),
        ("qwen3", (), ("blk.0.attn_q.weight", "blk.0.attn_q_norm_in.weight"), "qwen3"),
        ("gemma3", (), (), "gemma3"),
        ("llama", {"llama.pooling_type"}, ("blk.0.attn_q_norm_in.weight",), "llama"),
    ],
)
def test_files_that_share_a_name_are_told_apart(value: str, keys: Any, tensors: Any, name: str) -> None:
    assert declared_architecture(value, keys, tensors) is ARCHITECTURES[name]


def test_internal_names_are_not_values_of_general_architecture() -> None:
    for value in ("qwen3-lm", "qwen36", "", None, 7):
        assert declared_architecture(value) is None
    assert "qwen3-lm" not in PREFIXES
    assert {each.prefix for each in ARCHITECTURES.values()} == set(PREFIXES)


def test_differences_between_the_architectures() -> None:
    """Sub-norms, scales, heads and norms in half precision, as the loaders have them."""
    spec = {name: {s.name: s for s in a.inventory} for name, a in ARCHITECTURES.items()}
    for name in ("bitnet-b1.58", "bitnet-25", "bitnet"):
        assert spec[name]["blk.{i}.attn_sub_norm.weight"].need == REQUIRED
    assert "blk.{i}.attn_sub_norm.weight" not in spec["llama"]
    assert "output.weight" not in spec["bitnet"]
    assert spec["llama"]["output.weight"].need == EXPECTED
    assert spec["bitnet-b1.58"]["output.weight"].need == OPTIONAL
    assert all(each.match("blk.0.attn_q.scale") for each in ARCHITECTURES.values())
    scaled = [name for name, each in ARCHITECTURES.items() if each.match("output.scale")]
    assert scaled == [name for name in ARCHITECTURES if "output.weight" in spec[name]]
    assert spec["qwen3"]["blk.{i}.attn_norm.weight"].usual == "F16"
    assert spec["llama"]["blk.{i}.attn_norm.weight"].usual == "F32"
    assert spec["gemma3"]["blk.{i}.post_ffw_norm.weight"].need == REQUIRED
    assert "blk.{i}.post_ffw_norm.weight" not in spec["qwen3"]
    assert ARCHITECTURES["bitnet-b1.58"].activation == "relu2"
    assert ARCHITECTURES["bitnet"].activation == "silu"
    assert ARCHITECTURES["llama"].rope == "norm"
    assert all(ARCHITECTURES[name].whole_head_rope for name in ("bitnet-b1.58", "bitnet-25", "llama"))
    assert not any(ARCHITECTURES[name].whole_head_rope for name in ("bitnet", "qwen3", "qwen3-lm", "gemma3"))
    assert ARCHITECTURES["gemma3"].key("pooling_type").need == EXPECTED
    assert "llama.pooling_type" not in ARCHITECTURES["llama"].keys
    assert inventory.ATTN_Q.usual == "I2_S"


def test_reading_the_declarations_is_light() -> None:
    heavy = ("numpy", "construct", "rich", "inspect", "dataclasses")
    code = (
        "import sys; before = set(sys.modules); import i2s_spec.schema.architectures;"
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert result.stdout == "[]\n"
