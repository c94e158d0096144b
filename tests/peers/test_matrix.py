"""Damage to sound files: each kind changes one thing; and verdicts of llama.cpp's library on a few copies."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.cli import cli
from peers import matrix
from peers.damage import KINDS, Content, Value, Weight, damages
from peers.judge import VOCABULARY, judge, missing
from peers.matrix import Counts, Matrix, Row, as_text

TOKENS = [*"abcdefgh", "<s>", "</s>"]


def content() -> Content:
    """A small content with every sort of key and tensor that a kind of damage asks for."""
    keys = {
        "general.architecture": Value("str", "llama"),
        "llama.block_count": Value("u32", 1),
        "llama.rope.freq_base": Value("f32", 10000.0),
        "llama.attention.causal": Value("bool", True),
        "llama.feed_forward_length": Value("arr[u32]", [64, 64]),
        "llama.rope.scaling.type": Value("str", "none"),
        "tokenizer.ggml.model": Value("str", "gpt2"),
        "tokenizer.ggml.tokens": Value("arr[str]", TOKENS),
        "tokenizer.ggml.token_type": Value("arr[i32]", [1] * len(TOKENS)),
        "tokenizer.ggml.eos_token_id": Value("u32", 9),
    }
    tensors = {
        "token_embd.weight": Weight.of(np.ones((len(TOKENS), 32)), "F16"),
        "blk.0.attn_norm.weight": Weight.of(np.ones(32), "F32"),
        "blk.1.attn_norm.weight": Weight.of(np.ones(32), "F32"),
    }
    return Content(keys, tensors)


def test_a_content_is_read_as_it_was_written(tmp_path: Path) -> None:
    content().write(tmp_path / "m.gguf")
    assert Content.read(tmp_path / "m.gguf") == content()


def changed(old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    return {name for name in old.keys() | new.keys() if repr(old.get(name)) != repr(new.get(name))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_changes_one_thing(kind: str, tmp_path: Path) -> None:
    whole = content()
    copies = list(KINDS[kind](whole))
    assert copies
    for where, copy in copies:
        keys, tensors = changed(whole.keys, copy.keys), changed(whole.tensors, copy.tensors)
        if kind == "tensor-renamed":
            assert not keys
            assert len(tensors) == 2
        elif kind == "part-of-two":
            assert keys == {"split.no", "split.count", "split.tensors.count"}
        elif kind == "architecture-unknown":
            assert keys == {"general.architecture"}
        else:
            assert keys | tensors == {where}
        copy.write(tmp_path / "m.gguf")
        with i2s.open(tmp_path / "m.gguf") as file:
            assert len(file.tensors) == len(copy.tensors)


def test_blocks_that_are_alike_are_damaged_once() -> None:
    places = [where for where, _ in KINDS["tensor-dropped"](content())]
    assert places == ["token_embd.weight", "blk.0.attn_norm.weight"]


def test_all_kinds_are_made() -> None:
    assert {damage.kind for damage in damages(content())} == set(KINDS)


def test_results_are_a_line_for_each_architecture_and_difference() -> None:
    made = Matrix(
        {"llama": {"a": Counts(3, 2, 1, 1)}, "mamba": {"b": Counts(1, 1, 0, 0)}},
        [Row("llama", "a", "x.weight", "not found")], [Row("llama", "a", "y", "M002")], {"clip": "no loader"},
    )  # fmt: skip
    assert made.total() == Counts(4, 3, 1, 1)
    text = as_text(made, "a judge", "every one")
    found = json.loads(text)
    assert found["kinds"] == ["a", "b"]
    assert found["counts"] == {"llama": [[3, 2, 1, 1], [0, 0, 0, 0]], "mamba": [[0, 0, 0, 0], [1, 1, 0, 0]]}
    assert found["missed"] == [["llama", "a", "x.weight", "not found"]]
    assert '\n"llama": [[3, 2, 1, 1], [0, 0, 0, 0]],\n' in text


# llama.cpp's library.


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("sound") / "llama.gguf"
    status = cli.main(["new", str(path), "--arch", "llama", "--type", "F16", "--quiet"], "i2s", standalone_mode=False)
    assert not status
    return path


def test_the_library_judges_files(sound: Path, tmp_path: Path) -> None:
    whole = Content.read(sound)
    whole.with_tensor("output_norm.weight", None).write(tmp_path / "refuse.gguf")
    whole.with_key("llama.rope.freq_base", Value("f32", 0.0)).write(tmp_path / "nan.gguf")
    (tmp_path / "none.gguf").write_bytes(b"GGUF")
    paths = [sound, *(tmp_path / f"{name}.gguf" for name in ("refuse", "nan", "none"))]
    verdicts = judge(paths)
    assert [each.word for each in verdicts] == ["load", "refuse", "nan", "refuse"]
    assert verdicts[1].message == "check_tensor_dims: tensor 'output_norm.weight' not found"
    assert [each.message for each in (verdicts[0], verdicts[2])] == ["", ""]
    assert [each.word for each in judge(paths[:2], VOCABULARY)] == ["load", "load"]


def test_the_command_counts(sound: Path, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    matrix.add_arguments(parser)
    words = [
        "--from",
        str(sound.parent),
        "--each",
        "1",
        "--keep",
        str(tmp_path / "kept"),
        "-o",
        str(tmp_path / "m.json"),
    ]
    assert matrix.run(parser.parse_args(words)) == 0
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert found["kinds"] == [kind for kind in KINDS if any(KINDS[kind](Content.read(sound)))]
    kept = json.loads((tmp_path / "kept" / "llama" / "verdicts.json").read_text(encoding="utf-8"))
    assert sum(sum(row[::2]) for row in found["counts"]["llama"]) == len(kept)
    by_kind = dict(zip(found["kinds"], found["counts"]["llama"], strict=True))
    assert by_kind["tensor-dropped"][0] == by_kind["nan-in-a-tensor"][0] == 1
