"""Texts in the form that real runtimes print: nodes without their own values, names that stand for several values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.golden import compare, record
from i2s_spec.golden.llama_cpp import GGML_OPS, read_callback_text
from i2s_spec.golden.tap_names import NODE_NAMES, OPERATIONS, runtime_names
from i2s_spec.model.forward import Model

Rename = Callable[[str, str], "tuple[str, str]"]

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]

NODE = re.compile(r"^(ggml_debug: *)(\S+)( = \(f32\) *)(\w+)(\(.*)$")


def reprinted(lines: list[str], rename: Rename, views: tuple[str, ...] = ()) -> Iterator[str]:
    """The text with other names and operations; behind some operations the same node again, as a view under its name."""
    block: list[str] = []
    again = ""
    for line in [*lines, ""]:
        found = NODE.match(line)
        if found is None and line:
            block.append(line)
            continue
        yield from block
        if again and block:
            yield re.sub(r"\(f32\) *\w+", "(f32)    RESHAPE", block[0])
            yield from block[1:]
        if found is None:
            return
        name, op = found[2], found[4]
        renamed, other = rename(name, op)
        again = op if op in views and name.startswith(("Qcur", "Kcur", "Vcur")) else ""
        block = [f"{found[1]}{renamed}{found[3]}{other}{found[5]}"]


def fork_llama(name: str, op: str) -> tuple[str, str]:
    """The fork's llama graph: the output of attn_output is the last node that is called kqv_out."""
    word, _, layer = name.rpartition("-")
    if (word, op) == ("kqv_out", "CONT"):
        return f"kqv_merged_cont-{layer}", op
    return (f"kqv_out-{layer}", op) if (word, op) == ("attn_out", "MUL_MAT") else (name, op)


def upstream(name: str, op: str) -> tuple[str, str]:
    """llama.cpp of September 2026: the gate and its product are one node, and other names."""
    word, _, layer = name.rpartition("-")
    if name == "inp_embd":
        return "embd", op
    if word in ("ffn_sub_out", "ffn_gate_par"):
        return f"{'ffn_sub_out' if word == 'ffn_sub_out' else 'ffn_swiglu'}-{layer}", "SWIGLU"
    words = {"attn_o_out": "attn_out", "kq_soft_max_ext": "kq_soft_max"}
    return f"{words[word]}-{layer}" if word in words else name, op


def ik(name: str, op: str) -> tuple[str, str]:
    """ik_llama.cpp: the residual sum has the name of the norm behind it, whose node has none; norms are one node."""
    word, _, layer = name.rpartition("-")
    if word == "ffn_inp":
        return f"ffn_norm-{layer}", op
    if word == "ffn_norm":
        return f"node_{layer}7", "FUSED_RMS_NORM"
    if op == "MUL" and word.endswith("norm"):
        return name, "FUSED_RMS_NORM"
    return name, op


RUNTIMES: dict[str, tuple[str, Rename, tuple[str, ...]]] = {
    "fork, llama": ("llama", fork_llama, ()),
    "upstream, bitnet": ("bitnet", upstream, ("MUL_MAT",)),
    "upstream, llama": ("llama", upstream, ("MUL_MAT",)),
    "ik, bitnet-b1.58": ("bitnet-b1.58", ik, ()),
}


@pytest.fixture(scope="module")
def text_of(model_of: Callable[[str], Model], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    made: dict[str, list[str]] = {}

    def find(architecture: str) -> list[str]:
        if architecture not in made:
            folder = tmp_path_factory.mktemp("text") / "theirs"
            record(model_of(architecture), TOKENS, folder, text="all")
            made[architecture] = (folder / "eval-callback.txt").read_text().splitlines()
        return made[architecture]

    return find


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_correct_runtime_has_no_wrong_tap(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], text_of: Callable[[str], list[str]],
    tmp_path: Path, name: str,
) -> None:  # fmt: skip
    architecture, rename, views = RUNTIMES[name]
    lines = list(reprinted(text_of(architecture), rename, views))
    (tmp_path / "x.txt").write_text("\n".join(lines))
    result = compare(golden_of(architecture), tmp_path / "x.txt", model=model_of(architecture))
    assert result.ok, result.verdict
    assert result["Qcur-0#1"].status == "ok"
    if views:
        assert any(node.name == "Qcur-0#2" for node in read_callback_text(lines))
    found = {tap.name: tap.other for tap in result.taps}
    if name == "fork, llama":
        assert (found["kqv_out-0"], found["attn_out-0"]) == ("kqv_merged_cont-0", "kqv_out-0")
    if name == "ik, bitnet-b1.58":
        assert (found["ffn_inp-0"], found["ffn_norm-0"]) == ("ffn_norm-0", "node_07")
        assert result["ffn_norm-0"].status == "ok"


def test_a_scale_that_the_runtime_keeps_beside_the_matrix(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], text_of: Callable[[str], list[str]], tmp_path: Path
) -> None:  # fmt: skip
    """ik_llama.cpp's `bitnet`: the mat-mul without the scale has no name, and the scaled value is called Qcur."""
    lines: list[str] = []
    inside = False
    for line in text_of("bitnet"):
        found = NODE.match(line)
        if found is not None:
            inside = found[2] == "Qcur-0" and found[4] == "MUL_MAT"
            if inside:
                lines.append(line.replace(" Qcur-0 ", " node_3 "))
                lines += ["[", "[", "[ 1.0 ],", "]", "]"]
                lines.append(re.sub(r"MUL_MAT\(.*?\}\)", "SCALE(node_3{1, 1, 1, 1}, })", line))
                continue
        lines.append(line)
    assert any("SCALE(node_3" in line for line in lines)
    (tmp_path / "x.txt").write_text("\n".join(lines))
    result = compare(golden_of("bitnet"), tmp_path / "x.txt", model=model_of("bitnet"))
    assert result.ok, result.verdict
    assert result["Qcur-0"].status == "ok"


def _save(path: Path, taps: dict[str, Any], form: str) -> None:
    """A dump of arrays: one file of all, or a folder with a file for each."""
    if form == "npz":
        np.savez(path, **taps)
        return
    path.mkdir()
    for name, value in taps.items():
        np.save(path / f"{name}.npy", value)


@pytest.mark.parametrize("form", ["npz", "folder"])
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama"])
def test_the_last_of_several_values_with_one_name_counts(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path, architecture: str, form: str,
) -> None:  # fmt: skip
    taps = dict(taps_of(architecture))
    for word in ("Qcur-0", "Kcur-0"):
        taps[word] = taps.pop(f"{word}#1")
    _save(tmp_path / "x.npz", taps, form)
    result = compare(golden_of(architecture), tmp_path / "x.npz", model=model_of(architecture))
    assert result.ok, result.verdict
    assert result["Qcur-0#1"].other == "Qcur-0"
    assert "the last value of its name" in result["Qcur-0#1"].notes
    assert result["Qcur-0"].status == "missing"


def test_an_array_that_equals_the_first_value_of_its_name_is_taken_as_that(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:  # fmt: skip
    taps = {name: value for name, value in taps_of("llama").items() if "#" not in name}
    np.savez(tmp_path / "x.npz", **taps)
    result = compare(golden_of("llama"), tmp_path / "x.npz", model=model_of("llama"))
    assert result.ok, result.verdict
    assert result["Qcur-0"].status == "ok"


@pytest.mark.parametrize("form", ["npz", "folder"])
def test_arrays_of_the_forks_llama_graph(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path, form: str,
) -> None:  # fmt: skip
    """Arrays do not name operations: if kqv_merged_cont exists, kqv_out is the output of attn_output."""
    taps = without_weights(taps_of("llama"))
    taps["kqv_merged_cont-0"], taps["kqv_out-0"] = taps.pop("kqv_out-0"), taps.pop("attn_out-0")
    _save(tmp_path / "x.npz", taps, form)
    result = compare(golden_of("llama"), tmp_path / "x.npz", model=model_of("llama"))
    assert result.ok, result.verdict
    found = {tap.name: (tap.other, tap.status) for tap in result.taps}
    assert found["kqv_out-0"] == ("kqv_merged_cont-0", "ok")
    assert found["attn_out-0"] == ("kqv_out-0", "ok")


@pytest.mark.parametrize("architecture", ["llama", "bitnet-b1.58"])
def test_arrays_in_which_a_name_has_the_numbers_of_another_value(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path, architecture: str,
) -> None:  # fmt: skip
    """ik_llama.cpp gives the residual sum the name of the norm behind it; the fork may omit kqv_merged_cont."""
    taps = {name: value for name, value in taps_of(architecture).items() if not name.startswith(("blk.", "norm"))}
    taps["node_07"], taps["ffn_norm-0"] = taps["ffn_norm-0"], taps.pop("ffn_inp-0")
    if architecture == "llama":
        taps["kqv_out-0"] = taps.pop("attn_out-0")
    np.savez(tmp_path / "x.npz", **taps)
    result = compare(golden_of(architecture), tmp_path / "x.npz", model=model_of(architecture))
    assert result.ok, result.verdict
    assert result["ffn_inp-0"].other == "ffn_norm-0"
    assert result["ffn_norm-0"].status == "missing"
    if architecture == "llama":
        assert (result["attn_out-0"].other, result["kqv_out-0"].status) == ("kqv_out-0", "missing")


def test_two_names_of_one_value_are_recognized(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A program that dumps a node each time it is named has it as kqv_merged_cont and as kqv_out."""
    taps = without_weights(taps_of("bitnet-b1.58"))
    taps["kqv_merged_cont-0"] = taps["kqv_out-0"]
    del taps["attn_o_out-0"]
    np.savez(tmp_path / "x.npz", **taps)
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "x.npz", model=model_of("bitnet-b1.58"))
    assert result.ok, result.verdict
    assert (result["kqv_out-0"].status, result["attn_o_out-0"].status) == ("ok", "missing")


def test_arrays_have_names_of_the_table(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:  # fmt: skip
    """llama.cpp's gate and product are one node, ffn_swiglu, in the graphs of llama and of qwen3."""
    for architecture, ours in (("llama", "ffn_gate_par-0"), ("qwen3-lm", "ffn_gate_up-0")):
        taps = without_weights(taps_of(architecture))
        del taps["ffn_silu-0"]
        taps["ffn_swiglu-0"] = taps.pop(ours)
        for wrong in (False, True):
            taps["ffn_swiglu-0"] = taps["ffn_swiglu-0"] * np.float32(1 + wrong)
            np.savez(tmp_path / "x.npz", **taps)
            result = compare(golden_of(architecture), tmp_path / "x.npz", model=model_of(architecture))
            assert result.ok != wrong, result.verdict
            assert result[ours].other == "ffn_swiglu-0"
            assert (result[ours].status == "wrong") == wrong


def without_weights(taps: dict[str, Any]) -> dict[str, Any]:
    """Values by the names that several programs give: without those that are called by a weight."""
    return {name: value for name, value in taps.items() if not name.startswith("blk.")}


def test_a_dump_of_llama_under_the_names_of_bitnet(
    model_of: Callable[[str], Model],
    golden_of: Callable[[str], Path],
    taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """There `ffn_out` is the product and `ffn_down` the output; a wrong product is found under that name."""
    taps = without_weights(taps_of("llama"))
    layers = [name.removeprefix("ffn_out") for name in taps if name.startswith("ffn_out-")]
    for layer in layers:
        taps[f"ffn_down{layer}"] = taps[f"ffn_out{layer}"]
        taps[f"ffn_out{layer}"] = taps.pop(f"ffn_gate_par{layer}")
    for factor in (1, 2):
        taps["ffn_out-0"] = taps["ffn_out-0"] * np.float32(factor)
        np.savez(tmp_path / "x.npz", **taps)
        result = compare(golden_of("llama"), tmp_path / "x.npz", model=model_of("llama"))
        assert result.ok == (factor == 1), result.verdict
        assert (result["ffn_gate_par-0"].other, result["ffn_out-0"].other) == ("ffn_out-0", "ffn_down-0")
        assert result["ffn_gate_par-0"].status == ("ok" if factor == 1 else "wrong")


def test_the_table_agrees_with_the_operations() -> None:
    """Each name's node is one that can hold the value, and what we write is among what we read."""
    assert all(each.node in OPERATIONS[each.op] for each in NODE_NAMES)
    assert all(GGML_OPS[op].name in names for op, names in OPERATIONS.items())
    assert OPERATIONS.keys() == GGML_OPS.keys()
    assert len(set(NODE_NAMES)) == len(NODE_NAMES)
    assert runtime_names("attn_out", "linear") == ("kqv_out",)


def test_a_name_is_believed_where_its_values_are(
    model_of: Callable[[str], Model],
    golden_of: Callable[[str], Path],
    taps_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """In the last layer of ik_llama.cpp's llama graph `kqv_out` is the output of attn_output."""
    taps = without_weights(taps_of("llama"))
    taps["kqv_merged_cont-0"], taps["kqv_out-0"] = taps["kqv_out-0"], taps["attn_out-0"]
    np.savez(tmp_path / "ik.npz", **taps)
    for model in (model_of("llama"), None):
        result = compare(golden_of("llama"), tmp_path / "ik.npz", model=model)
        assert result.ok, result.verdict
        assert result["kqv_out-0"].other == "kqv_merged_cont-0"
        assert (result["attn_out-0"].status, result["attn_out-0"].other) == ("ok", None)
