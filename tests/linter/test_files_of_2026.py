"""Files published since July 2026: each gets one correct message, or no finding if nothing is wrong."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.convert.convert_file import advice, convert_file
from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.type_registry import tensor_assignments
from i2s_spec.schema.types import BY_NAME
from i2s_spec.testing.sample import Model

UNKNOWN = (43, 56, 200)
#: Rows of the table: the first tensor, one between ternary tensors, the last, and several.
PLACES = {"first": [0], "middle": [5], "last": [-1], "several": [1, 5, 9], "two in a row": [4, 5]}


def model() -> bytes:
    stream = io.BytesIO()
    new(stream, "llama", layers=2, embd=256, ff=512)
    return stream.getvalue()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The same model in each of the types."""
    made = {"I2_S": model()}
    for kind in ("Q2_0", "PQ2_0", "PTQ1_0", "TQ2_0"):
        target = io.BytesIO()
        convert_file(open_file(made["I2_S"]), target, to=kind)
        made[kind] = target.getvalue()
    return made


def renumbered(data: bytes, numbers: Mapping[int, int]) -> bytes:
    """The file with other numbers on some tensors, by their rows in the table."""
    changed, rows = bytearray(data), list(open_file(data).tensors.rows)
    for row, number in numbers.items():
        span = rows[row].info.type_span
        changed[span.start : span.stop] = number.to_bytes(4, "little")
    return bytes(changed)


def ternary_rows(data: bytes, number: int) -> list[int]:
    return [row for row, tensor in enumerate(open_file(data).tensors.rows) if tensor.number == number]


def said(data: bytes) -> list[tuple[str, str]]:
    """The findings but T025: the vocabulary that is made here names no token that ends a turn."""
    found = i2s.lint(data).findings
    return [(finding.rule.code, finding.message) for finding in found if finding.code != "T025"]


def test_type_42_in_groups_of_128(files: dict[str, bytes]) -> None:
    data = files["PQ2_0"]
    ((code, message),) = said(renumbered(data, dict.fromkeys(ternary_rows(data, 142), 42)))
    assert code == "G321"
    assert message.startswith("tensors of type 42 (14) have groups of 128 weights, 34 bytes, as PrismML wrote them")
    assert "which has offset 314368, expected 316416; i2s convert --to Q2_0 makes a file that they read" in message


@pytest.mark.parametrize(("kind", "number"), [("PQ2_0", 142), ("PTQ1_0", 143)])
def test_types_142_and_143(files: dict[str, bytes], kind: str, number: int) -> None:
    """The type is valid; the finding says only that the file does not state whether it is rotated."""
    ((code, message),) = said(files[kind])
    assert code == "M042"
    assert message.startswith(f"14 tensors have type {number}, but no key declares how the rows are rotated")


def test_type_42_in_groups_of_64_is_file_type_41(files: dict[str, bytes]) -> None:
    data = files["Q2_0"]
    assert open_file(data).metadata["general.file_type"] == 41
    assert said(data) == []
    span = open_file(data).metadata.entry("general.file_type").value_span
    wrong = data[: span.start] + (40).to_bytes(4, "little") + data[span.stop :]
    ((code, message),) = said(wrong)
    assert (code, message.rsplit(": ", 1)[1]) == ("M030", "Q2_0 is 41")


@pytest.mark.parametrize("kind", ["TQ2_0", "Q2_0"])
def test_runtimes_that_run_a_type_are_not_unknown(files: dict[str, bytes], kind: str) -> None:
    report = i2s.lint(files[kind], runtimes=True)
    found = {each.runtime: (each.loads, each.computes) for each in report.runtimes}
    assert found["llama.cpp"][0] == "yes"
    assert found["llama.cpp"][1] in ("correctly", "expected")
    assert found["ollama"] == ("no", "-")
    assert found["lm-studio"] == ("not tried", "not tried")


def test_the_note_on_architecture_bitnet_names_no_build_that_reads_the_activation() -> None:
    """Requests that would have read the key were closed unmerged; releases of October 2026 compute SiLU."""
    notes = " ".join(advice({"TQ2_0"}, "bitnet", "relu2", None))
    assert "computes architecture bitnet with SiLU, whatever bitnet.hidden_activation says" in notes
    assert "#26751, #25885) were closed unmerged" in notes


def test_the_rule_on_falcon_e_names_the_fork_of_2026() -> None:
    text = " ".join(next(rule for rule in all_rules() if rule.code == "T011").text.split())
    assert "older snapshots and the fork of 2026 do not" in text
    assert "before May 2025" not in text


@pytest.mark.parametrize("number", UNKNOWN)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["Q2_0", "I2_S"])
def test_an_unknown_type_is_one_finding(files: dict[str, bytes], kind: str, place: str, number: int) -> None:
    """And no consequences: what follows is read as before."""
    data, count = files[kind], len(list(open_file(files[kind]).tensors.rows))
    rows = [row % count for row in PLACES[place]]
    ((code, message),) = said(renumbered(data, dict.fromkeys(rows, number)))
    assert code == "G313"
    name = list(open_file(data).tensors)[rows[0]]
    others = f", and so have {len(rows) - 1} others" if len(rows) > 1 else ""
    assert message.startswith(f"tensor '{name}' has type {number}, which no known ggml defines{others}")
    for meaning in [each for each in tensor_assignments(number) if each.files]:
        assert f"{meaning.name} to {meaning.program}" in message


def test_each_unknown_number_is_one_finding(files: dict[str, bytes]) -> None:
    found = said(renumbered(files["Q2_0"], {2: 43, 7: 200, 9: 200, 11: 43}))
    assert [code for code, _ in found] == ["G313", "G313"]
    assert all("and so have 1 others" in message for _, message in found)


def test_tensors_after_an_unknown_type_are_checked(files: dict[str, bytes]) -> None:
    """A scale that is not a number, in the tensor after it."""
    file = open_file(files["Q2_0"])
    rows: list[Any] = list(file.tensors.rows)
    row = next(i for i, each in enumerate(rows) if i > 5 and each.number == BY_NAME["Q2_0"].number)
    data = bytearray(renumbered(files["Q2_0"], {row - 1: 200}))
    data[rows[row].span.start : rows[row].span.start + 2] = b"\0\x7e"
    found = said(bytes(data))
    assert [code for code, _ in found] == ["G313", "B201"]
    assert rows[row].name in found[1][1]


@pytest.mark.parametrize("kind", ["Q2_0", "PQ2_0", "PTQ1_0", "TQ2_0"])
def test_an_embedding_with_a_scale_for_each_group_is_not_odd(kind: str) -> None:
    """Rows of it can be read, and models with rotated embeddings have it so; as I2_S it is odd."""
    found = {}
    for name in (kind, "I2_S"):
        model = Model("llama")
        ne = (256, model.tensor("token_embd.weight").ne[1])
        found[name] = {code for code, _ in said(model.like("token_embd.weight", ne, name).built())}
    assert found["I2_S"] - found[kind] >= {"M107"}
