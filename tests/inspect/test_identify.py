"""Producers of files whose producers are known: reference tools, this package, and copies with one mark changed."""

from __future__ import annotations

import io
import json
import math
import struct
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from builders import model_bytes
from construct import Container
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, broken

from i2s_spec.codec.native import pack
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.inspect.identify import Identification, identify, page
from i2s_spec.inspect.match_dialect import ternarised
from i2s_spec.inspect.questions import CANNOT_TELL, CONFIDENCES, PROOF, STRONG, WEAK, QuestionCase
from i2s_spec.schema import container
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.releases import CONVERTERS, QUANTIZER, RELEASES
from i2s_spec.testing.sample import Draft

SCHEMA = Path(__file__).resolve().parents[2] / "i2s_spec" / "inspect" / "identify.schema.json"


def answers(found: Identification) -> dict[str, str | None]:
    return {q.name: None if q.answer is None else q.answer.name for q in found.questions}


def text_of(found: Identification, everything: bool = False) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in page(found, everything))


def changed(data: bytes, change: Any) -> bytes:
    file = container.parse(data)
    change(file)
    return Draft().built(file)


# Files of reference tools.

LLAMA_QUANTIZE: dict[str, str | None] = {
    "quantizer": "llama-quantize",
    "code map": "offset-1",
    "layout": None,
    "tail": "first-float/leftovers",
}

KNOWN: dict[str, dict[str, str | None]] = {
    "bitnet-25.i2_s.gguf": {**LLAMA_QUANTIZE, "converter": "convert-ms"},
    "bitnet-25.i2_s.arm64block.gguf": {**LLAMA_QUANTIZE, "converter": "convert-ms"},
    "bitnet.i2_s.gguf": {**LLAMA_QUANTIZE, "converter": "convert-hf-2024"},
    "bitnet.i2_s.arm64block.gguf": {**LLAMA_QUANTIZE, "converter": "convert-hf-2024"},
    "bitnet.i2_s.row4-BROKEN.gguf": {**LLAMA_QUANTIZE, "converter": "convert-hf-2024"},
    "bitnet-b1.58.i2_s.via_llama_quantize.gguf": {**LLAMA_QUANTIZE, "converter": "convert-hf-2026"},
    "bitnet-b1.58.packed.i2_s.direct.gguf": {
        "converter": "convert-hf-2026", "quantizer": "convert-hf", "code map": "offset-1", "layout": "interleave-128",
        "tail": "first-float/zeros",
    },
    "bitnet.i2_s.2threads-CORRUPT.gguf": {
        "converter": "convert-hf-2024", "quantizer": "llama-quantize-threads", "layout": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("payloads", ["sample", "full"])
def test_files_of_reference_tools(shared: Path, name: str, payloads: Any) -> None:
    found = identify(shared / "vectors" / "gguf" / name, payloads=payloads)
    got = answers(found)
    assert {question: got[question] for question in KNOWN[name]} == KNOWN[name]
    assert got["release"] is None


def test_the_layout_is_left_open_where_it_cannot_be_told(shared: Path) -> None:
    """The three layouts of llama-quantize give files that differ in nothing but their payloads."""
    for name in ("bitnet.i2_s.gguf", "bitnet.i2_s.arm64block.gguf", "bitnet.i2_s.row4-BROKEN.gguf"):
        question = identify(shared / "vectors" / "gguf" / name).question("layout")
        assert question.answer is None
        assert question.confidence == CANNOT_TELL
        assert {each.name for each in question.open} == {"interleave-128", "interleave-64", "rows-1x4"}
        assert "--reference" in question.would_tell


def test_leftovers_in_tails_are_evidence_of_the_quantizer(shared: Path) -> None:
    found = identify(shared / "vectors" / "gguf" / "bitnet.i2_s.gguf")
    answer = found.question("quantizer").answer
    assert answer is not None
    evidence = next(each for each in answer.favour if "one buffer held both" in each.text)
    assert "'token_embd.weight'" in evidence.text
    assert "14 of 14" in evidence.text
    assert evidence.span is not None


DECIDED = {
    "bitnet.i2_s.gguf": "interleave-128",
    "bitnet.i2_s.arm64block.gguf": "interleave-64",
    "bitnet.i2_s.row4-BROKEN.gguf": "rows-1x4",
}


@pytest.mark.parametrize("name", DECIDED)
def test_true_weights_decide_the_layout(shared: Path, name: str) -> None:
    with open_file(shared / "vectors" / "gguf" / "bitnet.i2_s.gguf") as right:
        weights, _ = right.tensors["blk.1.ffn_down.weight"].ternary().whole()
    found = identify(shared / "vectors" / "gguf" / name, reference=weights, tensor="blk.1.ffn_down.weight")
    question = found.question("layout")
    assert question.answer is not None
    assert (question.answer.name, question.confidence) == (DECIDED[name], "certain")
    assert {each.confidence for each in question.hypotheses[1:]} == {"excluded"}
    assert found.dialect == DECIDED[name]


def test_float_masters_decide_the_layout_too(shared: Path) -> None:
    """The bf16 masters, ternarised again: what differs are ties."""
    from i2s_spec.safetensors.files import Checkpoint

    folder = shared / "vectors" / "hf" / "b158_float"
    with Checkpoint(folder / "model.safetensors") as checkpoint:
        stored = checkpoint["model.layers.0.mlp.up_proj.weight"]
        words = np.frombuffer(stored.read(), dtype="<u2").astype(np.uint32) << np.uint32(16)
        weights = words.view(np.float32).reshape(stored.shape)
    path = shared / "vectors" / "gguf" / "bitnet-b1.58.i2_s.via_llama_quantize.gguf"
    found = identify(path, reference=weights, tensor="blk.0.ffn_up.weight")
    assert found.question("layout").confidence == "certain"
    assert found.dialect == "interleave-128"


def test_other_weights_decide_nothing(shared: Path) -> None:
    path = shared / "vectors" / "gguf" / "bitnet.i2_s.gguf"
    other = np.random.default_rng(7).integers(-1, 2, size=(256, 512)).astype(np.int8)
    found = identify(path, reference=other, tensor="blk.1.ffn_down.weight")
    assert found.question("layout").answer is None
    assert "these are not the weights" in found.question("layout").would_tell


@pytest.mark.parametrize("layout", [name for name, each in LAYOUTS.items() if each.in_gguf])
@pytest.mark.parametrize("code_map", ["offset-1", "zero-first", "twos-complement", "offset-2"])
def test_every_dialect_is_decided_by_its_weights(layout: str, code_map: str) -> None:
    weights = np.random.default_rng(1).choice([-1, 0, 0, 1], size=(64, 256)).astype(np.int8)
    data = with_tensor(pack(weights, 0.5, f"{layout}/{code_map}"))
    found = identify(data, reference=weights.astype(np.float32) * 0.25, tensor="blk.0.attn_q.weight")
    assert found.comparison is not None
    assert found.comparison.decided is not None
    assert str(found.comparison.decided.dialect) == (layout if code_map == "offset-1" else f"{layout}/{code_map}")
    assert found.comparison.decided.scale_ratio == 2.0
    assert found.question("layout").answer.name == layout  # type: ignore[union-attr]
    assert found.question("code map").answer.name == code_map  # type: ignore[union-attr]


def with_tensor(data: bytes, shape: tuple[int, int] = (64, 256), name: str = "") -> bytes:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        if name:
            writer.add("general.name", name)
        writer.add_tensor("blk.0.attn_q.weight", shape, "I2_S", data)
    return out.getvalue()


def test_a_reference_needs_its_tensor() -> None:
    data = with_tensor(bytes(64 * 64 + 32))
    weights = np.ones((64, 256), dtype=np.int8)
    with pytest.raises(ValueError, match="belong together"):
        identify(data, reference=weights)
    with pytest.raises(KeyError, match="no tensor"):
        identify(data, reference=weights, tensor="nothing")
    with pytest.raises(ValueError, match="shape"):
        identify(data, reference=weights[:1], tensor="blk.0.attn_q.weight")
    with pytest.raises(TypeError, match="integers or floats"):
        identify(data, reference=weights.astype(np.complex64), tensor="blk.0.attn_q.weight")
    with pytest.raises(ValueError, match="all zeros"):
        identify(data, reference=0 * weights, tensor="blk.0.attn_q.weight")
    with pytest.raises(ValueError, match="infinities"):
        identify(data, reference=weights * np.nan, tensor="blk.0.attn_q.weight")


# Copies with one metadata change.


def test_our_own_models_are_recognised() -> None:
    for architecture in ("bitnet-b1.58", "bitnet", "llama", "qwen3", "gemma3"):
        got = answers(identify(model_bytes(architecture=architecture)))
        assert (got["converter"], got["quantizer"]) == ("i2s-spec", "i2s-spec")
        assert got["layout"] is None  # i2s convert writes any layout under this name


@pytest.mark.parametrize("type", GROUP_LAYOUTS)
def test_types_with_a_scale_for_each_group_are_counted(type: str) -> None:
    """By what the number means there: 40, 41 and 42 have several meanings."""
    data = model_bytes("llama", layers=1, embd=256, ff=256, type=type)
    found = identify(open_file(data))
    assert (found.i2s, found.group_types) == (0, {type: 7})
    assert f" tensors, 7 of them {type}\n" in text_of(found)
    assert found.as_dict()["group_types"] == {type: 7}
    plain = identify(open_file(model_bytes("llama", layers=1, embd=256, ff=256, type="F16")))
    assert not plain.group_types
    assert "tensors, none of them ternary\n" in text_of(plain)


def test_a_shape_of_a_release_is_not_the_release(tmp_path: Path) -> None:
    """A model of the sizes of 2B-4T with another content: the data section has its size, the name gives it away."""
    data = model_bytes(architecture="bitnet-b1.58")
    found = identify(data)
    assert found.question("release").hypotheses == ()


def test_a_size_alone_is_contradicted_by_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    data = model_bytes(architecture="bitnet-b1.58")
    with path.open("wb") as out:
        out.write(data)
        out.truncate(1_187_801_280)  # a hole
    question = identify(path).question("release")
    assert question.answer is None
    (hypothesis,) = question.hypotheses
    assert hypothesis.name == "bitnet-b1.58-2B-4T"
    assert hypothesis.confidence == "excluded"
    assert any("1,187,801,280 bytes" in evidence.text for evidence in hypothesis.favour)


@pytest.mark.requirement("R7.5-1")
def test_a_digest_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    from i2s_spec.inspect import origin, packing

    data = model_bytes(architecture="bitnet")
    digest = hashlib.sha256(data).hexdigest()
    calls: list[tuple[int, int]] = []
    found = identify(data, sha256=True, progress=lambda done, total: calls.append((done, total)))
    assert found.sha256 == digest
    assert calls[0] == (len(data), len(data)) or calls[-1][0] == calls[-1][1]
    bare = changed(data, unnamed)
    with open_file(bare) as file:
        sizes = (("block_count", 2),)
        types = tuple(Counter(str(tensor.type) for tensor in file.tensors.values()).items())
        count = len(file.tensors)
    release = RELEASES[0]._replace(
        name="ours", architecture="bitnet", size=len(bare), sha256=hashlib.sha256(bare).hexdigest(), tensors=count,
        types=types, sizes=sizes,
    )  # fmt: skip
    for module in (origin, packing):
        monkeypatch.setattr(module, "RELEASES", (release,))
    assert identify(bare).question("release").confidence == "likely"
    assert identify(bare, sha256=True).question("release").confidence == "certain"
    other = bytearray(bare)
    other[-1] ^= 1
    changed_file = identify(bytes(other), sha256=True).question("release")
    assert changed_file.answer is None
    assert changed_file.hypotheses[0].confidence == "excluded"


def unnamed(file: Container) -> None:
    for pair in file.key_values:
        if pair.key == b"general.name":
            pair.value = b"somebody's"


def test_replicated_tails_and_old_codes_identify_the_pre_release() -> None:
    weights = np.random.default_rng(2).choice([-1, 0, 0, 1], size=(64, 256)).astype(np.int8)
    data = with_tensor(pack(weights, -0.5, "sequential-msb/twos-complement/replicated-8"))

    def old(file: Container) -> None:
        file.tensor_infos[0].type = 31

    got = answers(identify(changed(data, old)))
    assert got["quantizer"] == "pre-release"
    assert got["code map"] == "twos-complement"
    assert got["layout"] == "sequential-msb"
    assert got["tail"] == "replicated-8"


def test_remainders_tell_a_layout(shared: Path) -> None:
    """32,448 elements are 253.5 blocks of 128, and 507 of 64: what a quantizer leaves over stays 0."""
    file = container.parse((shared / "vectors" / "gguf" / "bitnet.i2_s.gguf").read_bytes())
    info = next(info for info in file.tensor_infos if info.name == b"blk.1.attn_v.weight")
    # the tensor keeps its bytes but gets an odd shape, with or without room for a tail
    info.ne = [192, 169]
    n = 192 * 169
    start = info.offset
    data = bytearray(file.data)
    scale = data[start + 8192 : start + 8224]
    data[start + n // 4 : start + n // 4 + 32] = scale
    for zeros, layout in ((16, "interleave-128"), (0, "interleave-64")):
        copy = bytearray(data)
        copy[start + n // 4 - 16 : start + n // 4] = bytes(16) if zeros else b"\x55" * 16
        file.data = bytes(copy)
        question = identify(Draft().built(file), payloads="full").question("layout")
        assert question.answer is not None
        assert (question.answer.name, question.confidence) == (layout, "likely")
        assert {each.confidence for each in question.hypotheses[1:]} <= {"unlikely", "excluded"}


@pytest.mark.parametrize("scale", [0.125, 0.1, math.nan, -math.nan, math.inf, 0.0, -0.0, 1e-45])
def test_only_ordinary_scales_are_evidence_of_their_writer(scale: float) -> None:
    """Scales that are exact in BF16 were in a checkpoint; NaN, infinity and 0 end in zeros from any writer."""
    file = container.parse(model_bytes("bitnet-b1.58"))
    data = bytearray(file.data)
    for info in file.tensor_infos:
        if info.type == 36:
            tail = info.offset + math.prod(info.ne) // 4
            data[tail : tail + 4] = struct.pack("<f", scale)
    file.data = bytes(data)
    file.key_values = [each for each in file.key_values if each.key != b"general.quantization_version"]
    question = identify(Draft().built(file)).question("quantizer")
    converter = next(each for each in question.hypotheses if each.name == "convert-hf")
    told = [each.text for each in converter.favour + converter.against if " scales " in f" {each.text} "]
    assert any("exact in BF16" in text for text in told) == (scale == 0.125), told
    assert not any("have a sign" in text for text in told)


def test_sizes_of_tensors_reveal_other_writers() -> None:
    for name, words in (("i2s_unpacked", "one byte for each weight"), ("i2s_no_tail", "the writer forgot it")):
        found = identify(broken(name))
        question = found.question("quantizer")
        other = next(each for each in question.hypotheses if each.name == "other")
        assert any(words in evidence.text for evidence in other.favour), name


# Every file gets an answer.


@pytest.mark.parametrize("name", share(name for name, case in CASES.items() if not case.large))
def test_broken_files_get_an_answer_or_a_fault(name: str) -> None:
    try:
        found = identify(broken(name))
    except FormatError as refused:
        code = refused.code
    else:
        code = ""
    if code:
        assert code == CASES[name].code
        return
    document = found.as_dict()
    _schema().validate(json.loads(json.dumps(document).replace("NaN", "0").replace("Infinity", "1")))
    assert text_of(found).isprintable() or "\n" in text_of(found)
    assert all(line.isprintable() for line in text_of(found, everything=True).splitlines())


@cache
def _schema() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_real_files_fit_the_schema(shared: Path) -> None:
    for path in sorted([*shared.glob("vectors/gguf/*.gguf"), *shared.glob("real/*.gguf")]):
        found = identify(path)
        _schema().validate(json.loads(json.dumps(found.as_dict())))


def test_text_of_a_file_is_escaped() -> None:
    def strange(file: Container) -> None:
        file.key_values[1].value = b"synthetic-\x1b]52;c;x\x07"
        file.tensor_infos[1].name = b"\x1b[2J\xff"

    found = identify(changed(Draft().data, strange))
    assert all(line.isprintable() for line in text_of(found, everything=True).splitlines())
    assert "\x1b" not in json.dumps(found.as_dict())


@examples(40)
@given(st.binary(max_size=400))
def test_bytes_are_answered_or_refused(data: bytes) -> None:
    for start in (b"", b"GGUF\x03\x00\x00\x00"):
        try:
            found = identify(start + data)
        except FormatError:
            continue
        json.dumps(found.as_dict())


# The scale of confidence.


@pytest.mark.requirement("R7.1-1", "R7.1-2")
@given(
    st.lists(st.sampled_from([PROOF, STRONG, WEAK]), max_size=3),
    st.lists(st.sampled_from([PROOF, STRONG, WEAK]), max_size=3),
)
def test_more_evidence_for_an_answer_never_lowers_it(favour: list[Any], against: list[Any]) -> None:
    case = QuestionCase([("a", "A"), ("b", "B")])
    for weight in favour:
        case.favour("a", "for", weight)
    for weight in against:
        case.against("a", "against", weight)
    one = next(each for each in case.question("q", "?").hypotheses if each.name == "a")
    case.favour("a", "more", STRONG)
    more = next(each for each in case.question("q", "?").hypotheses if each.name == "a")
    assert more.rank <= one.rank
    case.against("a", "less", PROOF)
    assert next(each for each in case.question("q", "?").hypotheses if each.name == "a").confidence == "excluded"


def test_two_likely_answers_decide_nothing() -> None:
    case = QuestionCase([("a", "A"), ("b", "B")])
    assert case.question("q", "?").answer is None
    case.favour("a", "for", STRONG)
    assert case.question("q", "?").answer.name == "a"  # type: ignore[union-attr]
    case.favour("b", "for", STRONG)
    assert case.question("q", "?").answer is None
    assert case.question("q", "?").confidence == CANNOT_TELL
    assert set(CONFIDENCES) > {"certain", "likely"}


def test_declared_producers_fit_the_schema() -> None:
    for quantizer in QUANTIZER.values():
        assert set(quantizer.layouts) <= set(LAYOUTS)
        assert set(quantizer.tails) <= {"zero", "stale", "replicated"}
    for converter in CONVERTERS:
        assert len(set(converter.keys)) == len(converter.keys)


def test_floats_are_made_ternary() -> None:
    trits, scale = ternarised(np.array([[0.5, -0.5, 0.0]], dtype=np.float32))
    assert trits.tolist() == [[1, -1, 0]]
    assert scale == 0.5
    trits, scale = ternarised(np.array([[1.0, -0.9, 0.1, 0.6]], dtype=np.float32))
    assert trits.tolist() == [[1, -1, 0, 1]]
    assert struct.pack("<f", scale) == struct.pack("<f", np.float32(0.65))
