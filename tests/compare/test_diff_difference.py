"""Differences by meaning: each kind of difference alone."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.blocks_native import pack as pack_blocks
from i2s_spec.codec.reference import pack
from i2s_spec.compare import diff as diff_module
from i2s_spec.compare import tensor_rows
from i2s_spec.compare.diff import Difference, TensorChange, diff, first_difference
from i2s_spec.compare.diff_text import document, lines
from i2s_spec.compare.tensor_rows import Rows, rows_of
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.rewrite import Value, convert_endian, rewrite
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.dialect import Dialect

ATTN = "blk.0.attn_q.weight"


#: A file of one small layer.
model_file = partial(model_bytes, layers=1, embd=256)


MODEL = model_file()


def test_a_tensor_without_dimensions_is_one_number() -> None:
    """A hostile file may hold thousands of them; reading one as rows must not fail."""
    rows = tensor_rows.flat_rows((), 4, np.arange, 0.0)
    assert [(start, part.tolist()) for start, part in rows.windows()] == [(0, [[0]])]


def compared(other: bytes, **options: Any) -> Difference:
    return diff(open_file(MODEL), open_file(other), **options)


def rewritten(**changes: Any) -> bytes:
    out = io.BytesIO()
    rewrite(open_file(MODEL), out, **changes)
    return out.getvalue()


def flipped(at: int, bits: int = 1) -> bytes:
    data = bytearray(MODEL)
    data[at] ^= bits
    return bytes(data)


def converted(**options: Any) -> bytes:
    out = io.BytesIO()
    convert_file(open_file(MODEL), out, **options)
    return out.getvalue()


def file() -> File:
    return open_file(MODEL)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_equals_itself(threads: int) -> None:
    found = compared(MODEL, threads=threads)
    assert found.same
    assert found == Difference((), (), (), (), (), (), len(file().tensors), found.lineage)
    assert {each.changed for each in found.lineage} == {0}
    assert list(lines(found)) == [f"A and B mean the same: all keys, {len(file().tensors)} tensors"]


def test_positions_in_the_file_make_no_difference() -> None:
    big = io.BytesIO()
    convert_endian(open_file(rewritten(alignment=64)), big, "big")
    found = compared(big.getvalue())
    assert found.same
    names = {name: (ours, theirs) for name, ours, theirs in found.container}
    assert names["byte order"] == ("little", "big")
    assert names["alignment"] == (32, 64)
    assert "= byte order: little -> big" in list(lines(found))


def test_the_dialect_makes_no_difference_if_it_is_known() -> None:
    other = converted(to="rows-1x4")
    assert compared(other, dialect_b="rows-1x4", threads=2).same
    found = compared(other)
    assert {change.name.decode() for change in found.tensors} == {
        name for name in file().tensors if name.startswith("blk") and "norm" not in name
    }
    assert all(change.trits and change.scale is None and change.data is None for change in found.tensors)


def test_tails_are_told_apart() -> None:
    stop = file().tensors[ATTN].span.stop
    found = compared(flipped(stop - 1))
    assert found.same
    assert found.tails == ((ATTN.encode(), "zero", "stale"),)
    assert any(line.startswith("= tails:") and "zero -> stale" in line for line in lines(found))
    found = compared(converted(to="interleave-128/offset-1/replicated-8"))
    assert found.same
    assert {(tail.before, tail.after) for tail in found.tails} == {("zero", "replicated")}


def test_one_trit() -> None:
    start = file().tensors[ATTN].span.start
    found = compared(flipped(start + 32 + 5, 1 << 4))  # row 0, element 128 + 32 + 5
    assert not found.same
    (change,) = found.tensors
    assert (change.name, change.what, change.trits) == (ATTN.encode(), "trits", (1, 165))
    assert list(lines(found)) == [
        f"~ tensor {ATTN}: 1 trit differs, first at element 165 (0, 165)",
        f"A and B differ: 1 common tensor ({len(file().tensors)} tensors compared; 1 of 393,216 trits changed, "
        "under 0.001 %)",
    ]


def test_one_scale() -> None:
    stop = file().tensors[ATTN].span.stop
    (change,) = compared(flipped(stop - 32 + 3, 1)).tensors
    assert change.trits is None
    assert change.scale is not None
    assert change.scale[0] / change.scale[1] in (2.0**-2, 2.0**2, 2.0**-1, 2.0)


def test_other_data() -> None:
    start = file().tensors["token_embd.weight"].span.start
    (change,) = compared(flipped(start + 9)).tensors
    assert (change.what, change.data) == ("bytes", (1, 9))


def test_keys() -> None:
    found = compared(
        rewritten(set={"general.name": "x", "x.y": [1, 2, 3, 4, 5], "general.file_type": Value("u64", 40)},
                  drop_keys=["tokenizer.chat_template"])
    )  # fmt: skip
    changes = {change.key: change for change in found.keys}
    assert changes.keys() == {b"general.name", b"x.y", b"general.file_type", b"tokenizer.chat_template"}
    assert (changes[b"general.name"].before, changes[b"general.name"].after) == (b"synthetic-bitnet-b1.58", b"x")
    assert changes[b"x.y"].before is None
    assert changes[b"x.y"].after == [1, 2, 3, 4, ...]
    assert (changes[b"general.file_type"].type_before, changes[b"general.file_type"].type_after) == ("u32", "u64")
    said = list(lines(found))
    assert "+ key x.y arr[u32] [1, 2, 3, 4, …]" in said
    assert any(line.startswith("- key tokenizer.chat_template str") for line in said)
    tokens = list(file().metadata["tokenizer.ggml.tokens"])
    tokens[300] = "other"
    (line, _) = lines(compared(rewritten(set={"tokenizer.ggml.tokens": tokens})))
    assert line.startswith("~ key tokenizer.ggml.tokens: arr[str]")
    assert "first at byte" in line


@pytest.mark.requirement("R12.3-3")
def test_of_two_values_of_a_key_the_first_counts() -> None:
    twice = MODEL.replace(b"tokenizer.ggml.eos_token_id", b"tokenizer.ggml.bos_token_id")
    (change,) = compared(twice).keys  # bos_token_id is unchanged
    assert (change.key, change.after) == (b"tokenizer.ggml.eos_token_id", None)


def test_inventory() -> None:
    found = compared(rewritten(drop_tensors=["output_norm.weight"], rename_tensors={ATTN: "x"}))
    assert found.only_a == (ATTN.encode(), b"output_norm.weight")
    assert found.only_b == (b"x",)
    assert "2 tensors" not in list(lines(found))[-1]
    assert "3 tensors in one file only" in list(lines(found))[-1]


def test_shapes_and_types() -> None:
    one, other = io.BytesIO(), io.BytesIO()
    trits = np.random.default_rng(0).integers(-1, 2, (4, 256), dtype=np.int8)
    with Writer(one) as writer:
        writer.add_tensor("a", (4, 256), "I2_S", pack(trits, 0.5))
        writer.add_tensor("b", (4, 256), "F32")
        writer.add_tensor("c", (6,), "F32", np.arange(6, dtype=np.float32))
        writer.add_tensor("d", (1, 1, 6), "F32")
    with Writer(other) as writer:
        writer.add_tensor("a", (4, 256), "F16", (trits * np.float16(0.5)).astype(np.float16))
        writer.add_tensor("b", (256, 4), "F32")
        writer.add_tensor("c", (6,), "F16", np.arange(6, dtype=np.float16))
        writer.add_tensor("d", (6,), "F32")
    found = diff(open_file(one.getvalue()), open_file(other.getvalue()))
    changes = {change.name.decode(): change for change in found.tensors}
    assert changes.keys() == {"a", "b", "c"}  # trailing dimensions of 1 do not count
    assert (changes["a"].type, changes["a"].what, changes["a"].trits) == (("I2_S", "F16"), "trits", None)
    assert changes["b"].shape == ((4, 256), (256, 4))
    assert (changes["c"].type, changes["c"].what, changes["c"].weights) == (("F32", "F16"), "values", None)
    said = list(lines(found))
    assert "~ tensor a: type I2_S -> F16 (trits equal)" in said
    assert "~ tensor b: shape [4, 256] -> [256, 4]" in said
    assert "~ tensor c: type F32 -> F16 (weights equal)" in said


def test_tensors_that_differ_alike_are_counted() -> None:
    changes = [
        TensorChange(
            b"blk.%d.w" % layer, "trits", (2, 128), trits=(layer + 1, 5), how="it is noise" if layer < 8 else None
        )
        for layer in range(10)
    ]
    changes.insert(2, TensorChange(b"norm", "bytes", (4,), data=(1, 0)))
    found = Difference((), (), (), tuple(b"x%d" % i for i in range(50)), tuple(changes), (), 11)
    said = list(lines(found))
    assert said[39:42] == [
        "+ tensor x39",
        "+ 10 more tensors (--all lists them)",
        f"~ tensor {told(changes[0])}; it is noise",
    ]
    assert said[46:-1] == [
        "~ 3 more tensors: 21 trits differ; it is noise (--all lists them)",
        "~ tensor norm: 1 byte of data differs, first at byte 0",
        f"~ tensor {told(changes[9])}",
        f"~ tensor {told(changes[10])}",
    ]
    everything = list(lines(found, everything=True))
    assert len(everything) == 50 + 11 + 1
    assert everything[52] == "~ tensor norm: 1 byte of data differs, first at byte 0"  # in file order
    assert len(document(found, "a", "b")["tensors"]) == 11
    few = found._replace(tensors=tuple(changes[:8]))
    assert "more tensors: " not in "".join(lines(few))


def told(change: TensorChange) -> str:
    assert change.trits is not None
    count = "1 trit differs" if change.trits[0] == 1 else f"{change.trits[0]} trits differ"
    return f"{change.name.decode()}: {count}, first at element 5 (0, 5)"


def test_many_ways_to_differ_are_cut_and_counted() -> None:
    changes = tuple(TensorChange(b"%d" % kind, "nothing", (1,), type=(f"type {kind}", "F32")) for kind in range(100))
    said = list(lines(Difference((), (), (), (), changes, (), 100)))
    assert said[40:] == [
        "~ 60 more tensors (--all lists them)",
        "A and B differ: 100 common tensors (100 tensors compared)",
    ]


def test_text_of_a_file_cannot_act_on_a_terminal() -> None:
    out = io.BytesIO()
    rewrite(open_file(MODEL), out, set={"general.name": "\x1b[2Jx\u202e"})
    said = "\n".join(lines(compared(out.getvalue())))
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_the_difference_as_data() -> None:
    about = document(compared(rewritten(set={"general.name": b"\xff"}, drop_tensors=[ATTN])), "a", "b")
    assert (about["schema_version"], about["same"], about["only_a"]) == (1, False, [ATTN])
    assert about["keys"][0]["b"] == {"type": "str", "value": {"hex": "ff"}}


def test_broken_files_are_refused() -> None:
    with pytest.raises(FormatError, match="G401"):
        compared(MODEL[:-100])
    with pytest.raises(ValueError, match="no layout is called"):
        compared(MODEL, dialect_b="nothing")


@examples(60)
@given(one=st.binary(max_size=40), other=st.binary(max_size=40), cuts=st.lists(st.integers(1, 7), min_size=1))
def test_streams_are_compared_wherever_they_are_cut(one: bytes, other: bytes, cuts: list[int]) -> None:
    def parts(data: bytes, sizes: list[int]) -> Any:
        at = i = 0
        while at < len(data):
            yield data[at : at + sizes[i % len(sizes)]]
            at += sizes[i % len(sizes)]
            i += 1

    both = min(len(one), len(other))
    odd = [i for i in range(both) if one[i] != other[i]] + list(range(both, max(len(one), len(other))))
    assert first_difference(parts(one, cuts), parts(other, cuts[::-1])) == ((len(odd), odd[0]) if odd else None)


def ternary_file(kind: str, scales: list[float], dialect: str = "canonical") -> File:
    """256 x 512 trits, the same for all types; I2_SR has the scales for its rows in turn."""
    trits = np.random.default_rng(5).integers(-1, 2, (256, 512), dtype=np.int8)
    trits[0, :3] = 0, 0, 1
    out = io.BytesIO()
    with Writer(out) as writer:
        if kind == "I2_S":
            data = pack(trits, scales[0], dialect)
        else:
            data = pack_blocks(trits, np.resize(np.float32(scales), 256), kind)
        writer.add_tensor("t", (256, 512), kind, data)
    return open_file(out.getvalue())


def test_another_layout_is_distinguished_from_another_code_map() -> None:
    one, other = ternary_file("I2_S", [1.0]), ternary_file("I2_S", [1.0], "interleave-64")
    for a, b, side in ((one, other, "B"), (other, one, "A")):
        (change,) = diff(a, b).tensors
        assert change.how == f"{side} is packed as interleave-64: another layout"
    (change,) = diff(one, ternary_file("I2_S", [1.0], "interleave-128/zero-first")).tensors
    assert change.how == "B is packed as interleave-128/zero-first: another code map"


def test_scales_of_rows_are_compared_by_the_weights() -> None:
    whole, rows = ternary_file("I2_S", [0.5]), ternary_file("I2_SR", [0.5, 0.25])
    odd = int(np.count_nonzero(whole.tensors["t"].dequantize() != rows.tensors["t"].dequantize()))
    for a, b, types in ((whole, rows, "I2_S -> I2_SR"), (rows, whole, "I2_SR -> I2_S")):
        found = diff(a, b)
        (change,) = found.tensors
        first = int(np.flatnonzero(whole.tensors["t"].trits()[1])[0])
        assert (change.what, change.trits, change.weights) == ("weights", None, (odd, 512 + first))
        assert f"~ tensor t: type {types} (trits equal); {odd:,} weights differ by the scale, first" in "\n".join(
            lines(found)
        )
        assert document(found, "a", "b")["tensors"][0]["weights"] == {"count": odd, "first": 512 + first}


def test_an_infinite_scale_can_be_compared() -> None:
    (change,) = diff(ternary_file("I2_S", [np.inf]), ternary_file("I2_SR", [0.5, 0.25])).tensors
    assert (change.what, change.trits, change.weights) == ("weights", None, (256 * 512, 0))


def test_a_small_file_of_many_changed_tensors_does_not_compare_each_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of them would be compared with thousands of others each, which took a minute for 300 KB."""
    rng = np.random.default_rng(1)
    files = []
    for _ in range(2):
        out = io.BytesIO()
        with Writer(out) as writer:
            for i in range(20):
                writer.add_tensor(f"t{i}", (128,), "I2_S", pack(rng.integers(-1, 2, (1, 128), dtype=np.int8), 1.0))
        files.append(open_file(out.getvalue()))
    read: list[str] = []

    def counted(file: File, tensor: Tensor, dialect: str | Dialect) -> Rows:
        read.append(tensor.name)
        return rows_of(file, tensor, dialect)

    monkeypatch.setattr(tensor_rows, "rows_of", counted)
    monkeypatch.setattr(diff_module, "OTHERS", 30)
    found = diff(files[0], files[1])
    assert len(found.tensors) == 20
    assert len(read) == 2 * 20 + 30  # each tensor in place, and the comparisons with others
