"""Results for runtimes, compared with recorded loaders, recorded logits and recorded readers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from construct import Container

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, source_of
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.runtimes.verdicts import Verdict, table, verdicts
from i2s_spec.schema import container
from i2s_spec.schema.runtimes import RUNTIMES
from i2s_spec.schema.types import I2_S, ValueType
from i2s_spec.testing.sample import Draft, Model, key_value, tensor_info

ENGINES = {"official x86-new": "bitnet.cpp-2025", "official x86-old": "bitnet.cpp-2025", "ik_llama.cpp": "ik_llama.cpp"}


def verdicts_of(data: bytes | Path, dialect: str = "canonical", mode: Any = "none") -> dict[str, Verdict]:
    source = source_of(data) if isinstance(data, Path) else BufferSource(data)
    with File(source) as file:
        return {verdict.runtime: verdict for verdict in verdicts(LintContext(file, None, Reading(mode)), dialect)}


def changed(data: bytes, change: Any) -> bytes:
    """A file with its records changed and laid out again."""
    file = container.parse(data)
    change(file)
    return Draft().built(file)


def without_key(name: str) -> Any:
    def change(file: Container) -> None:
        file.key_values = [pair for pair in file.key_values if pair.key != name.encode()]

    return change


def without_tensor(name: str) -> Any:
    def change(file: Container) -> None:
        file.tensor_infos = [info for info in file.tensor_infos if info.name != name.encode()]

    return change


def renamed(former: str, name: str) -> Any:
    def change(file: Container) -> None:
        for pair in file.key_values:
            if pair.key == b"general.architecture":
                pair.value = name.encode()
            elif pair.key.startswith(former.encode() + b"."):
                pair.key = name.encode() + pair.key[len(former) :]

    return change


# What loaders do when keys and tensors are removed, one at a time.


@pytest.fixture(scope="module")
def recorded(shared: Path) -> list[dict[str, Any]]:
    path = shared / "vectors" / "errors" / "missing_keys_and_tensors.json"
    loaded: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_loaders_agree_with_the_record(shared: Path, recorded: list[dict[str, Any]]) -> None:
    folder = shared / "vectors" / "gguf"
    bases = {"b158": ("bitnet-25", (folder / "bitnet-25.i2_s.gguf").read_bytes()),
             "bitnet": ("bitnet", (folder / "bitnet.i2_s.gguf").read_bytes())}  # fmt: skip
    wrong, checked = [], 0
    for record in recorded:
        former, data = bases[record["model"].split("_")[0]]
        runtime = next(name for program, name in ENGINES.items() if record["program"].startswith(program))
        if "removed_key" in record:
            data = changed(data, without_key(record["removed_key"]))
        elif "removed_tensor" in record:
            data = changed(data, without_tensor(record["removed_tensor"]))
        else:
            if record["arch_renamed_to"] == "foo":
                continue  # an unknown architecture: whether a loader knows it cannot be decided here
            data = changed(data, renamed(former, record["arch_renamed_to"]))
        verdict = verdicts_of(data)[runtime]
        loads = record["exit_code"] == 0
        checked += 1
        if (verdict.loads in ("yes", "with option")) != loads:
            wrong.append((record, verdict.loads, [reason.text for reason in verdict.reasons]))
    assert not wrong
    assert checked > 120


def test_the_sound_files_load_and_the_record_of_layouts_agrees(shared: Path) -> None:
    """`logits_expected_wrong`: new ARM builds read x86 files wrong; a build that packs 4 rows reads its own files wrong."""
    folder = shared / "vectors" / "gguf"
    verdict = verdicts_of(folder / "bitnet.i2_s.gguf")["bitnet.cpp-2025"]
    assert (verdict.loads, verdict.computes) == ("yes", "depends on the machine")
    said = " ".join(reason.text for reason in verdict.reasons)
    assert "ARM, built since 19 November 2025: reads interleave-128 as interleave-64" in said
    assert "ARM, built before" not in said
    arm = verdicts_of(folder / "bitnet.i2_s.arm64block.gguf", "interleave-64")["bitnet.cpp-2025"]
    assert arm.computes == "depends on the machine"
    assert "x86 with AVX2: reads interleave-64 as interleave-128" in " ".join(reason.text for reason in arm.reasons)
    rows = verdicts_of(folder / "bitnet.i2_s.row4-BROKEN.gguf", "rows-1x4")
    assert {rows[name].computes for name in ("bitnet.cpp-2024", "bitnet.cpp-2025", "ik_llama.cpp", "0xBitNet")} == {
        "wrongly"
    }


def test_corrupt_chunks_load_and_compute_rubbish(shared: Path) -> None:
    """`README.md` 12: the file loads, and logits are NaN."""
    found = verdicts_of(shared / "vectors" / "gguf" / "bitnet.i2_s.2threads-CORRUPT.gguf")
    assert (found["bitnet.cpp-2024"].loads, found["bitnet.cpp-2024"].computes) == ("yes", "wrongly")
    assert found["bitnet.cpp-2026"].loads == "no"  # its loader requires contiguous offsets


def test_upstream_refuses_as_recorded(shared: Path) -> None:
    record = (shared / "vectors" / "readers" / "upstream_ggml_gguf_init_from_file.json").read_text(encoding="utf-8")
    assert "block size (0)" in record
    verdict = verdicts_of(shared / "vectors" / "gguf" / "bitnet.i2_s.gguf")["llama.cpp"]
    assert verdict.loads == "no"
    assert "block size (0)" in verdict.reasons[0].text
    assert verdict.reasons[0].span is not None


def test_readers_agree_with_the_record(shared: Path) -> None:
    """`readers/`: 0xBitNet and @huggingface/gguf took these files, and the `gguf` package refused them by the type."""
    folder, checked = shared / "vectors" / "gguf", 0
    for name, runtime in (("0xbitnet", "0xBitNet"), ("hf-gguf", "huggingface-gguf")):
        for record in sorted((shared / "vectors" / "readers").glob(f"*.{name}.json")):
            path = folder / record.name.removesuffix(f".{name}.json")
            assert verdicts_of(path)[runtime].loads == "yes", record.name
            checked += 1
    assert checked >= 10
    recorded = json.loads((shared / "vectors" / "readers" / "pygguf_0.19.0.json").read_text(encoding="utf-8"))
    for one in recorded:
        path = folder / one["file"]
        if path.is_file():
            verdict = verdicts_of(path)["gguf-py"]
            assert (verdict.loads == "yes") == one["ok"]
            assert "36 is not a valid GGMLQuantizationType" in verdict.reasons[0].text
            assert "36) is not a valid GGMLQuantizationType" in one["error"]


# Consequences of the graph and the kernels.


def test_activation_of_2026() -> None:
    found = verdicts_of(model_bytes(architecture="bitnet-b1.58", embd=256, ff=512))
    assert found["bitnet.cpp-2026"].computes == "wrongly"
    assert found["bitnet.cpp-2026"].reasons[0].source == "microsoft/BitNet#588"
    assert verdicts_of(model_bytes(architecture="bitnet"))["bitnet.cpp-2026"].computes == "not tried"


@pytest.mark.parametrize(
    ("architecture", "loads"),
    [
        ("bitnet", ("yes", "yes", "yes", "with option", "yes")),
        ("bitnet-25", ("no", "yes", "not tried", "with option", "yes")),
        ("bitnet-b1.58", ("no", "yes", "yes", "with option", "yes")),
        ("llama", ("yes", "yes", "yes", "with option", "yes")),
        ("qwen3", ("no", "no", "yes", "no", "not tried")),
        ("gemma3", ("no", "no", "yes", "no", "not tried")),
    ],
)
def test_architectures(architecture: str, loads: tuple[str, ...]) -> None:
    found = verdicts_of(model_bytes(architecture=architecture))
    names = ("bitnet.cpp-2024", "bitnet.cpp-2025", "bitnet.cpp-2026", "ik_llama.cpp", "0xBitNet")
    assert tuple(found[name].loads for name in names) == loads
    for name in ("llama.cpp", "ollama", "ollama-0.30", "lm-studio", "gguf-py"):
        assert found[name].loads == "no"
        assert found[name].computes == "-"


def test_rotation_and_activation_of_0xbitnet() -> None:
    llama = verdicts_of(model_bytes(architecture="llama", embd=128, ff=128))["0xBitNet"]
    assert llama.computes == "correctly"
    bitnet = verdicts_of(model_bytes(architecture="bitnet"))["0xBitNet"]
    assert [reason.effect for reason in bitnet.reasons[:2]] == ["wrong", "wrong"]


def test_every_front_end_fails_with_its_engine_and_is_not_tried_otherwise() -> None:
    refused, loaded = verdicts_of(model_bytes(architecture="bitnet")), verdicts_of(model_bytes("llama", type="F16"))
    for runtime in RUNTIMES:
        if runtime.kind != "front":
            continue
        assert loaded[runtime.name].loads == "not tried"
        assert runtime.of in loaded[runtime.name].reasons[0].text
        if not runtime.of:
            assert refused[runtime.name].loads == "not tried"
            continue
        assert refused[runtime.name].loads == refused[runtime.of].loads == "no"
        assert runtime.refusal is not None
        assert refused[runtime.name].reasons[0].source == runtime.refusal.source


def test_a_file_without_i2s_gets_no_reason_about_type_36() -> None:
    def floats(file: Container) -> None:
        file.tensor_infos, file.data = [], b""

    found = verdicts_of(changed(Draft().data, floats))
    assert found["gguf-py"].loads == "yes"
    assert all("36" not in reason.text for verdict in found.values() for reason in verdict.reasons)


@pytest.mark.parametrize(("name", "loads"), [
    ("blk.0.ffn_up.scale", "yes"), ("blk.0.ffn_up.input_scale", "yes"), ("output.scale", "no"), ("blk.7.ffn_up.scale", "no"),
    ("blk.0.attn_norm.scale", "no"), ("blk.0.ffn_up.weight_scale", "no"),
])  # fmt: skip
def test_scales_beside_weights(name: str, loads: str) -> None:
    """As run with xllamacpp 2026.10.11549."""
    for architecture in ("llama", "bitnet"):
        data = model_bytes(architecture, type="F16")

        def change(file: Container) -> None:
            file.tensor_infos.append(tensor_info(name.encode(), (1,), 0, len(file.data)))
            file.data += struct.pack("<8f", 0.5, *(0.0,) * 7)

        found = verdicts_of(changed(data, change))
        assert found["llama.cpp"].loads == loads
        of_forks = architecture == "bitnet" and name == "blk.0.ffn_up.scale"
        assert found["ik_llama.cpp"].loads == ("yes" if of_forks else "no")


def test_llama_cpp_ignores_scales_of_the_feed_forward_of_gemma3() -> None:
    """As run with xllamacpp 2026.10.11549, whose numbers they do not change."""
    for name, wrongly in (("blk.0.attn_q.scale", False), ("blk.0.ffn_up.scale", True)):
        model = Model("gemma3").like(name, (1,), "F32")
        for tensor in [each for each in model.tensors if each.number == I2_S.number or len(each.ne) == 1]:
            model.like(tensor.name.decode(), tensor.ne, "F16" if len(tensor.ne) > 1 else "F32")
        model.without(*(each.name.decode() for each in model.tensors if each.name.endswith(b"_norm_in.weight")))
        found = verdicts_of(model.built())["llama.cpp"]
        assert found.loads == "yes"
        assert (found.computes == "wrongly") == wrongly


def test_code_3_where_payloads_are_read() -> None:
    data = bytearray(model_bytes(architecture="bitnet", embd=512, ff=1024))
    with File(BufferSource(bytes(data))) as file:
        start = file.tensors["blk.0.attn_q.weight"].span.start
    data[start] = 0xFF
    assert verdicts_of(bytes(data), mode="none")["bitnet.cpp-2025"].computes == "depends on the machine"
    read = verdicts_of(bytes(data), mode="full")["bitnet.cpp-2025"]
    assert read.computes == "wrongly"
    assert "code 3" in read.reasons[0].text


def test_a_scale_that_is_not_a_number() -> None:
    data = bytearray(model_bytes(architecture="bitnet"))
    with File(BufferSource(bytes(data))) as file:
        span = file.tensors["blk.0.attn_q.weight"].tail_span
    data[span.start : span.start + 4] = struct.pack("<f", float("nan"))
    verdict = verdicts_of(bytes(data), mode="full")["bitnet.cpp-2025"]
    assert verdict.computes == "wrongly"
    assert verdict.reasons[0].span == (span.start, span.start + 4, verdict.reasons[0].span.path)  # type: ignore[union-attr]


def test_halves_as_norms_kill_the_old_fork() -> None:
    data = model_bytes(architecture="bitnet")

    def halved(file: Container) -> None:
        for info in file.tensor_infos:
            if info.name == b"output_norm.weight":
                info.type = 1

    found = verdicts_of(changed(data, halved))
    assert found["bitnet.cpp-2025"].loads == "crash"
    assert found["bitnet.cpp-2026"].loads in ("yes", "no")


def test_big_endian_files() -> None:
    found = verdicts_of(model_bytes(architecture="bitnet", byte_order="big"))
    assert {found[name].loads for name in ("bitnet.cpp-2025", "llama.cpp", "ik_llama.cpp")} == {"no"}
    assert found["huggingface-gguf"].loads == "yes"


@pytest.mark.parametrize("type", ["TQ1_0", "TQ2_0"])
def test_types_that_ik_llama_cpp_does_not_have(type: str) -> None:
    """Numbers 34 and 35 are not in its list: loading ends by a division by zero. Its own IQ2_BN it has."""
    found = verdicts_of(model_bytes("llama", type=type, embd=256, ff=512))["ik_llama.cpp"]
    assert (found.loads, "does not know tensor type 3" in found.reasons[0].text) == ("crash", True)
    assert verdicts_of(model_bytes("llama", type="IQ2_BN", embd=512, ff=512))["ik_llama.cpp"].loads == "yes"


# The form of a verdict, rules, and hostile files.


def test_verdicts_are_plain_data() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[1].name = b"\x1b[31m\xff.weight"
    for verdict in verdicts_of(draft.built(file)).values():
        about = json.loads(json.dumps(verdict.as_dict()))
        assert about["runtime"] == verdict.runtime
        for reason in about["reasons"]:
            assert reason["text"].isprintable()
            assert reason["source"] or reason["effect"] in ("unknown", "doubt")


def test_table() -> None:
    found = tuple(verdicts_of(model_bytes(architecture="bitnet")).values())
    rows = table(found)
    assert rows[0] == ["runtime", "loads", "computes", "devices", "why"]
    assert len(rows) == 1 + len(RUNTIMES)
    assert all(len(row) == 5 and all(isinstance(cell, str) for cell in row) for row in rows)
    assert rows == table([verdict.as_dict() for verdict in found])
    assert table(()) == []


#: A broken copy for each rule. The rule applies to sound files too, because the fault is in a runtime.
RULES = {
    "P201": model_bytes(architecture="bitnet-b1.58"),
    "P202": model_bytes(architecture="bitnet-b1.58"),
    "P203": model_bytes(architecture="bitnet", embd=512, ff=1024),
    "P204": model_bytes(architecture="bitnet"),
    "P205": changed(model_bytes(architecture="bitnet"), without_tensor("output_norm.weight")),
}


@pytest.mark.parametrize("code", RULES)
def test_rules_apply_only_where_runtimes_are_asked_for(code: str) -> None:
    assert code in {finding.code for finding in lint(RULES[code], payload="none", runtimes=True).findings}
    assert not any(finding.code.startswith("P2") for finding in lint(RULES[code], payload="none").findings)


def test_useful_files_have_a_runtime() -> None:
    for architecture in ("bitnet", "bitnet-25", "bitnet-b1.58", "llama"):
        report = lint(model_bytes(architecture=architecture, embd=512, ff=512), payload="none", runtimes=True)
        assert "P205" not in {finding.code for finding in report.findings}


def test_report_carries_the_verdicts() -> None:
    report = lint(model_bytes(architecture="bitnet"), payload="none", runtimes=True)
    assert [verdict.runtime for verdict in report.runtimes] == [runtime.name for runtime in RUNTIMES]
    assert report.as_dict()["runtimes"][0]["runtime"] == RUNTIMES[0].name
    assert not report.bugs


def test_alignment_of_another_type_is_not_a_bug_of_ours() -> None:
    file = Draft().records()
    file.key_values.append(key_value(b"general.alignment", ValueType.STRING, b"\xff32"))
    found = verdicts_of(Draft().built(file))
    assert found["gguf-py"].loads == "no"
    assert found["bitnet.cpp-2025"].loads == "crash"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (((b"general.type", ValueType.STRING, b"adapter"),), "not a model: LoRA adapter for"),
        (((b"split.no", ValueType.UINT16, 0), (b"split.count", ValueType.UINT16, 3)), "one of the 3 parts of a model"),
        (((b"split.no", ValueType.UINT16, 2), (b"split.count", ValueType.UINT16, 3)), "one of the 3 parts of a model"),
    ],
)
def test_parts_of_models_are_unchecked_as_whole_models(keys: Any, words: str) -> None:
    def change(file: Container) -> None:
        file.key_values += [key_value(*key) for key in keys]

    for name in ("bitnet.cpp-2025", "ik_llama.cpp"):
        verdict = verdicts_of(changed(without_tensors(model_bytes(layers=1)), change))[name]
        assert (verdict.loads, verdict.computes) == ("not tried", "not tried")
        assert words in verdict.reasons[0].text


def without_tensors(data: bytes) -> bytes:
    return changed(data, without_tensor("token_embd.weight"))


@pytest.mark.parametrize("name", ["llama-spm", "gpt-2", "bert-bge", "phi-3"])
def test_a_vocabulary_alone_is_not_a_model(shared: Path, name: str) -> None:
    """The engines that descend from llama.cpp load it where that is asked for; nothing else has a use for it."""
    found = verdicts_of(shared / "real" / f"ggml-vocab-{name}.gguf")
    for runtime in RUNTIMES:
        verdict = found[runtime.name]
        if runtime.recorded:
            assert verdict.loads == "not tried"
            continue
        if runtime.kind == "reader":
            assert verdict.loads == "yes"
        elif runtime.kind == "front" or runtime.name == "0xBitNet":
            assert verdict.loads == "no"
            assert "there is no model in it" in verdict.reasons[0].text
        else:
            assert verdict.loads == "vocabulary only"
            assert "refused as a model" in verdict.reasons[0].text
        assert verdict.computes == "-"


def test_a_vocabulary_with_a_fault_is_not_loaded(shared: Path) -> None:
    """A size of another type, and an undeclared architecture."""
    found = verdicts_of(shared / "real" / "bitnet-rs.llama3-128k.gguf")
    assert found["llama.cpp"].loads == "no"
    vocabulary = container.parse((shared / "real" / "ggml-vocab-llama-spm.gguf").read_bytes())
    for pair in vocabulary.key_values:
        if pair.key == b"general.architecture":
            pair.value = b"nobody"
    found = verdicts_of(Draft().built(vocabulary))
    assert found["llama.cpp"].loads == "not tried"
    assert found["0xBitNet"].loads == "no"
