"""The kind of a file: recognised, named first by every command, and judged by its own rules alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from one_process import i2s

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import source_of
from i2s_spec.inspect.identify import identify, page
from i2s_spec.inspect.kind import RecognisedKind, kind_of
from i2s_spec.linter.engine import lint
from i2s_spec.schema import kinds
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.companions import Companion, encoder_of
from i2s_spec.testing.sample import Draft, Model

OTHERS = [name for name in kinds.KINDS if name != kinds.MODEL]
TYPES = [name for name, row in kinds.projector_table()["types"].items() if "refused" not in row]


def kind(data: bytes) -> RecognisedKind:
    found = kind_of(open_file(data))
    assert found is not None
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_each_kind_is_recognised_and_sound(name: str) -> None:
    data = Companion(name).built()
    assert kind(data).name == name
    report = lint(data)
    assert report.findings == ()
    assert not report.bugs


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama", "qwen3", "gemma3"])
def test_models_are_models(architecture: str) -> None:
    found = kind(Model(architecture).built())
    assert (found.name, found.part, found.is_special) == (kinds.MODEL, None, False)


def test_a_part_of_a_split_model_is_a_model_with_a_number() -> None:
    model = Model("llama").add("split.no", ValueType.UINT16, 1).add("split.count", ValueType.UINT16, 3)
    assert kind(model.built()).part == (2, 3)
    assert kind(model.without("token_embd.weight").built()).title == "part 2 of 3 of a split model"


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        (kinds.ADAPTER, lambda file: file.drop("general.type"), kinds.ADAPTER),
        (kinds.ADAPTER, lambda file: file.set("general.type", b"model"), kinds.ADAPTER),
        (kinds.ADAPTER, lambda file: file.keys.clear(), kinds.ADAPTER),
        (kinds.PROJECTOR, lambda file: file.drop("general.type"), kinds.PROJECTOR),
        (kinds.PROJECTOR, lambda file: file.drop("general.type", "general.architecture"), kinds.PROJECTOR),
        (kinds.IMATRIX, lambda file: file.keys.clear(), kinds.IMATRIX),
        (kinds.CONTROL_VECTOR, lambda file: file.keys.clear(), kinds.CONTROL_VECTOR),
        (kinds.VOCABULARY, lambda file: file.floats("token_embd.weight", 32, 4), kinds.MODEL),
        (kinds.OTHER, lambda file: file.keys.clear(), kinds.NO_MODEL),
        (kinds.OTHER, lambda file: file.set("general.type", b"adapter"), kinds.ADAPTER),
    ],
)
def test_kinds_are_recognised_by_what_is_left(name: str, change: Any, expected: str) -> None:
    file = Companion(name)
    change(file)
    assert kind(file.built()).name == expected


def test_a_model_with_keys_of_an_adapter_is_a_model() -> None:
    """Programs that merge an adapter leave its keys there."""
    assert kind(Model("llama").add("adapter.type", ValueType.STRING, b"lora").built()).name == kinds.MODEL


def test_a_file_that_cannot_be_read_to_its_end_has_no_kind() -> None:
    data = Companion(kinds.ADAPTER).built()[:300]
    assert kind_of(File(source_of(data))) is None
    assert identify(data).as_dict()["kind"] is None


@pytest.mark.parametrize("name", OTHERS)
def test_every_command_names_the_kind_first(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(Companion(name).built())
    title, used = kind(path.read_bytes()).title, kinds.KINDS[name].used
    told = i2s(tmp_path, "doctor", "-q", "file.gguf")
    assert told.returncode == 0
    assert told.stdout.splitlines()[0].endswith(f"file.gguf  {title}")
    assert used.split(":")[0] in " ".join(told.stdout.split())
    first, second = (
        "".join(piece.text for piece in line) for line, _ in zip(page(identify(path)), range(2), strict=False)
    )
    assert title in first
    assert used in second
    verdict = i2s(tmp_path, "lint", "file.gguf")
    said = "ok" if name == kinds.VOCABULARY else "no error in what was checked"
    assert f": {said}: {title}, " in verdict.stdout
    assert ("not checked: " in verdict.stdout) == bool(kinds.KINDS[name].unjudged or kinds.KINDS[name].fit)
    assert kinds.KINDS[name].unjudged in verdict.stdout
    machine = json.loads(i2s(tmp_path, "doctor", "-q", "--json", "file.gguf").stdout)
    assert machine["kind"] == machine["identification"]["kind"]
    assert (machine["kind"]["name"], machine["kind"]["used"]) == (name, used)


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in (kinds.VOCABULARY, kinds.NO_MODEL)])
def test_no_run_of_a_model_says_anything_about_another_kind(name: str) -> None:
    for verdict in lint(Companion(name).built(), runtimes=True).runtimes:
        assert verdict.computes in ("not tried", "-")
        assert not any(reason.source.startswith("run ") for reason in verdict.reasons)
        if verdict.loads != "yes":
            assert verdict.reasons[0].text.startswith("not a model: ")
            assert kinds.KINDS[name].used in verdict.reasons[0].text


@pytest.mark.parametrize("name", TYPES)
def test_a_projector_of_each_type_is_sound_and_needs_each_of_its_keys_and_tensors(name: str) -> None:
    sound = Companion(kinds.PROJECTOR, name)
    assert lint(sound.built()).findings == ()
    if encoder_of(name) == "speech" or "replaced" in kinds.projector_table()["types"][name]:
        return
    for key in kinds.projector_table()["types"][name].get("keys", {}):
        assert {each.code for each in lint(Companion(kinds.PROJECTOR, name).drop(key).built()).findings} >= {"M213"}
    names = [tensor.name.decode() for tensor in sound.tensors]
    for tensor in random.Random(name).sample(names, min(8, len(names))):
        optional = tensor.endswith((".attn_q.weight", ".attn_k.weight", ".attn_v.weight", ".ln1.weight", ".ln2.weight"))
        if not optional or not tensor.startswith(("v.blk.", "a.blk.")):
            less = Companion(kinds.PROJECTOR, name).without(tensor).built()
            assert {each.code for each in lint(less).findings} == {"M216"}, tensor


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clip.vision.image_size", 9000), ("clip.vision.patch_size", 0), ("clip.vision.embedding_length", 0),
        ("clip.vision.block_count", 2**31),
    ],
)  # fmt: skip
def test_values_that_the_loader_refuses(key: str, value: int) -> None:
    assert "M215" in {each.code for each in lint(Companion(kinds.PROJECTOR).set(key, value).built()).findings}


def test_many_blocks_are_not_counted_one_by_one() -> None:
    report = lint(Companion(kinds.PROJECTOR).set("clip.vision.block_count", 2**31 - 1).built())
    assert [finding.code for finding in report.findings] == ["M216"]


def test_the_token_embedding_of_an_adapter_is_the_other_way_round() -> None:
    base, words = Model("llama").built(), 260
    rows = open_file(base).tensors["token_embd.weight"].ne[1]
    for shape, codes in (((8, rows), set()), ((8, words * 3), {"M209"}), ((4, rows), {"M205"})):
        file = (
            Companion(kinds.ADAPTER)
            .floats("token_embd.weight.lora_a", *shape)
            .floats("token_embd.weight.lora_b", 8, 128)
        )
        assert {each.code for each in lint(file.built(), reference=base).findings} == codes


def test_an_adapter_without_alpha_is_sound() -> None:
    assert lint(Companion(kinds.ADAPTER).drop("adapter.lora.alpha").built()).findings == ()


def test_a_projector_without_a_patch_embedding_is_loaded() -> None:
    assert "v.patch_embd.weight" not in {tensor.name.decode() for tensor in Companion(kinds.PROJECTOR).tensors}


def test_text_from_a_file_is_quoted_in_its_title() -> None:
    other = Companion(kinds.OTHER).set("general.type", b"\x1b[31mred").built()
    assert kind(other).title == "file that is no text model (general.type '\\x1b[31mred')"


def test_a_container_without_a_known_architecture_is_a_model() -> None:
    assert kind(Draft().data).name == kinds.MODEL
