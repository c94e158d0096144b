"""The table of llama.cpp's loader: well formed, small, read as it is meant; agreement with our own declarations."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pytest

from i2s_spec.schema import llama_cpp
from i2s_spec.schema.architectures import ARCHITECTURES, Hyperparameters
from i2s_spec.schema.keys import REQUIRED
from i2s_spec.schema.llama_cpp import Demands, KeyContents, in_words, table, takes, types_taken


class Held:
    """The contents of a file, as dictionaries."""

    def __init__(
        self, values: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]], tokens: int | None = 320
    ) -> None:
        self.values, self.tensors, self.tokens = values, tensors, tokens

    def value(self, key: str) -> KeyContents | None:
        if key not in self.values:
            return None
        value = self.values[key]
        label = {bool: "bool", int: "u32", float: "f32", str: "str", tuple: "arr[u32]"}[type(value)]
        return KeyContents(label, len(value) if isinstance(value, tuple) else 1, value)

    def ne(self, tensor: str) -> tuple[int, ...] | None:
        return self.tensors.get(tensor)


def llama(**more: Any) -> dict[str, Any]:
    keys = {"block_count": 2, "context_length": 64, "embedding_length": 64, "feed_forward_length": 128,
            "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5}  # fmt: skip
    return {f"llama.{name}": value for name, value in (keys | more).items()}


def demanded(held: Held, name: str = "llama") -> dict[str, tuple[list[tuple[int, ...]], int | None]]:
    architecture = table().architecture(name)
    assert architecture is not None
    demands = Demands(architecture, held)
    return {each.name: (demands.shapes(each), demands.flags(each)) for each in demands.tensors() if each.certain}


def test_it_is_read_whole() -> None:
    """Every expression of every architecture is understood, and few rows hold something that is not resolved."""
    names = sorted(table().names)
    assert len(names) >= 151
    rows = unresolved = 0
    for name in names:
        architecture = table().architecture(name)
        assert architecture is not None
        assert architecture.rows, name
        rows += len(architecture.rows)
        unresolved += architecture.unresolved
        for text in architecture.definitions.values():
            llama_cpp.compiled(text)
    assert unresolved <= rows // 200
    assert table().architecture("nobody's") is None


def test_it_is_small_and_dated() -> None:
    data = files("i2s_spec.schema").joinpath("llama_cpp.json.gz").read_bytes()
    assert len(data) < 40_000
    text = gzip.decompress(data).decode()
    assert len(text.splitlines()) > 2000  # a row for each line: a change can be read
    assert json.loads(text)["commit"] == table().commit
    assert len(table().commit) == 40
    assert table().date in table().version


def test_it_is_not_read_where_no_architecture_asks_for_it() -> None:
    for architecture, want in (("bitnet-b1.58", "0"), ("llama", "1")):
        program = (
            "import io, sys; import i2s_spec as i2s; from i2s_spec.convert.new import new; "
            f"out = io.BytesIO(); new(out, {architecture!r}, layers=1); i2s.lint(out.getvalue()); "
            "from i2s_spec.schema import llama_cpp as t; print(t.table.cache_info().currsize)"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
        assert ran.stdout.strip() == want, architecture


def test_tensors_of_a_llama() -> None:
    found = demanded(Held(llama(), {}))
    assert found["token_embd.weight"][0] == [(64, 320)]
    assert found["blk.1.attn_k.weight"] == ([(64, 32)], 0)
    assert found["blk.0.attn_q.bias"][1] == llama_cpp.OPTIONAL
    assert "blk.2.attn_k.weight" not in found
    assert "blk.0.ffn_gate_inp.weight" not in found
    experts = demanded(Held(llama(expert_count=4, expert_used_count=2), {}))
    assert experts["blk.0.ffn_up_exps.weight"][0] == [(64, 128, 4)]
    assert "blk.0.ffn_up.weight" not in experts
    fused = demanded(Held(llama(), {"blk.0.attn_qkv.weight": (64, 128)}))
    assert "blk.0.attn_q.weight" not in fused
    assert "blk.1.attn_q.weight" in fused


def test_layers_of_their_own_sizes() -> None:
    found = demanded(Held({"openelm." + key.partition(".")[2]: value for key, value in llama(
        feed_forward_length=(128, 256), **{"attention.head_count": (4, 8), "attention.head_count_kv": (2, 4)}
    ).items()}, {}), "openelm")  # fmt: skip
    assert found["blk.0.ffn_down.weight"][0] == [(128, 64)]
    assert found["blk.1.ffn_down.weight"][0] == [(256, 64)]


def test_what_is_not_known_says_nothing() -> None:
    held = Held({key: value for key, value in llama().items() if not key.endswith("head_count")}, {})
    demands = Demands(table().architecture("llama"), held)  # type: ignore[arg-type]
    known = {each.name: demands.shapes(each) for each in demands.tensors()}
    assert known["blk.0.ffn_up.weight"] == [(64, 128)]
    demands.unusable.add("llama.feed_forward_length")
    again = Demands(table().architecture("llama"), held)  # type: ignore[arg-type]
    again.unusable.add("llama.feed_forward_length")
    assert {each.name: again.shapes(each) for each in again.tensors()}["blk.0.ffn_up.weight"] == []
    no_layers = Held({"llama.embedding_length": 64}, {})
    demands = Demands(table().architecture("llama"), no_layers)  # type: ignore[arg-type]
    assert {each.layer for each in demands.tensors()} == {None}
    assert any(pattern.fullmatch("blk.7.attn_q.weight") for pattern in demands.uncertain_names)


def test_loops_are_bounded_whatever_the_file_says() -> None:
    held = Held(llama(block_count=2**32 - 1), {})
    demands = Demands(table().architecture("llama"), held)  # type: ignore[arg-type]
    assert sum(1 for _ in demands.tensors()) < 40_000
    assert [each for each in demands.broken() if "block_count" in each.holds.text]


def test_nested_loops_are_bounded_too() -> None:
    huge = {f"hrm_text.hrm.{name}": 2**32 - 1 for name in ("h_cycles", "l_cycles", "layers_per_stack")}
    held = Held({f"hrm_text.{key.partition('.')[2]}": value for key, value in llama().items()} | huge, {})
    demands = Demands(table().architecture("hrm_text"), held)  # type: ignore[arg-type]
    assert sum(1 for _ in demands.tensors()) < 40_000


def test_conditions() -> None:
    def broken(**more: Any) -> list[str]:
        demands = Demands(table().architecture("llama"), Held(llama(**more), {}))  # type: ignore[arg-type]
        return [in_words(each.holds.text) for each in demands.broken()]

    assert broken() == []
    assert "the greatest expert_used_count <= expert_count" in broken(expert_count=2, expert_used_count=3)
    assert broken(**{"rope.scaling.type": "foo"}) != []
    assert broken(**{"rope.dimension_count": 8}) != []


def test_types_of_keys() -> None:
    architecture = table().architecture("llama")
    assert architecture is not None
    keys = {key.name: key for key in architecture.keys}
    heads, epsilon = keys["llama.attention.head_count_kv"], keys["llama.attention.layer_norm_rms_epsilon"]
    assert takes(heads, KeyContents("u32", 1, 2))
    assert takes(heads, KeyContents("arr[i32]", 2, (2, 2)))
    assert not takes(heads, KeyContents("arr[u64]", 2, (2, 2)))
    assert not takes(heads, KeyContents("u64", 1, 2))
    assert types_taken(epsilon) == ("f32",)
    assert not takes(epsilon, KeyContents("f64", 1, 1e-5))


@pytest.mark.parametrize("name", ["bitnet", "llama", "qwen3-lm"])
def test_it_agrees_with_our_own_declarations(name: str) -> None:
    """Names, shapes and need of the tensors that both know."""
    ours = ARCHITECTURES[name]
    h = Hyperparameters(layers=2, embd=256, ff=512, heads=4, heads_kv=2, head_dim=64, value_dim=64, vocab=320)
    values = {f"{ours.prefix}.{key}": value for key, value in (
        ("block_count", 2), ("context_length", 64), ("embedding_length", 256), ("feed_forward_length", 512),
        ("attention.head_count", 4), ("attention.head_count_kv", 2), ("attention.layer_norm_rms_epsilon", 1e-5),
    )}  # fmt: skip
    placed = list(ours.tensors(h))
    theirs = demanded(Held(values, {each.name: each.ne for each in placed if each.spec.need == REQUIRED}), ours.prefix)
    for each in placed:
        if each.name in theirs:
            shapes, flags = theirs[each.name]
            if name != "bitnet" or each.spec.role != "scale":
                assert each.ne in shapes, each.name
            assert flags is not None
            assert (each.spec.need == REQUIRED) == (not flags & llama_cpp.OPTIONAL), each.name
        elif each.spec.need == REQUIRED:
            raise AssertionError(f"{each.name} is not in the table")


def test_operations_and_scales() -> None:
    assert table().operation("blk.7.ffn_down_exps.weight") == "MUL_MAT_ID"
    assert table().operation("token_embd.weight") == "GET_ROWS"
    assert table().operation("blk.0.nothing.weight") is None
    assert table().scale_of("blk.3.ffn_up_exps.scale") == ("blk.3.ffn_up_exps", "n_expert")
    assert table().scale_of("blk.3.ffn_norm.scale") is None
    assert table().knows_tensor("blk.31.attn_sub_norm.weight")
    assert not table().knows_tensor("blk.0.attn_zzz.weight")
