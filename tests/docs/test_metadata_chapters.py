"""The chapters on metadata and tensors have a table of every key, every tensor and every number of the schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from i2s_site import generated, inventories
from i2s_spec.convert.recipes import RECIPES
from i2s_spec.schema import keys, type_registry
from i2s_spec.schema.architectures import ARCHITECTURES, Hyperparameters
from i2s_spec.schema.inventory import BESIDE

SPEC = Path(__file__).resolve().parents[2] / "spec"
CHAPTERS = {"3": "03-metadata.md", "4": "04-inventories.md"}


def section(clause: str) -> str:
    text = (SPEC / CHAPTERS[clause[0]]).read_text(encoding="utf-8")
    parts = re.split(r"^## (\d+\.\d+) .*$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[clause]


def table(clause: str, head: list[str]) -> list[list[str]]:
    """The rows of the table with this head, in a section."""
    lines = section(clause).splitlines()
    at = lines.index(f"| {' | '.join(head)} |") + 2
    rows = []
    for line in lines[at:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def code(words: object) -> str:
    return f"`{words}`"


def in_fence(clause: str, name: str) -> list[list[str]]:
    """The rows of a generated table, which a section must have."""
    assert f"```i2s-table\n{name} (" in section(clause)
    lines = generated.table(name).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("clause", inventories.KEY_CLAUSES)
def test_tables_of_keys(clause: str) -> None:
    names = [row[0] for row in in_fence(clause, f"keys {clause}")]
    assert names == [code(key.name) for key in inventories.declared_keys() if key.clause == clause]


def test_every_key_is_in_a_table() -> None:
    found = inventories.declared_keys()
    assert {key.clause for key in found} == {"2.7", *inventories.KEY_CLAUSES}
    assert [key.name for key in found if key.clause == "2.7"] == ["general.alignment"]
    assert {name for each in ARCHITECTURES.values() for name in each.keys} <= {
        key.of(each.prefix).name for each in ARCHITECTURES.values() for key in found
    }


def test_a_row_of_a_table_of_keys() -> None:
    rows = {row[0]: row[1:] for row in in_fence("3.4", "keys 3.4")}
    assert rows["`{arch}.rope.freq_base`"] == [
        "f32", "optional", "10000", "graph",
        "Base of the rotation frequencies. (2B-4T needs 500000: without the key it runs, with other numbers)",
    ]  # fmt: skip
    rows = {row[0]: row[1:] for row in in_fence("3.1", "keys 3.1")}
    assert rows["`general.quantization_version`"][1:3] == ["expected, where a tensor is quantized", "2"]


@pytest.mark.parametrize("clause", inventories.TENSOR_CLAUSES)
def test_tables_of_tensors(clause: str) -> None:
    found = {row[0] for row in in_fence(clause, f"tensors {clause}")}
    declared = {*BESIDE, *(spec for each in ARCHITECTURES.values() for spec in each.inventory)}
    assert found == {code(spec.name) for spec in declared if spec.clause == clause}


def test_every_tensor_is_in_a_table() -> None:
    clauses = {spec.clause for architecture in ARCHITECTURES.values() for spec in architecture.inventory}
    assert clauses == set(inventories.TENSOR_CLAUSES)


def test_rows_of_tables_of_tensors() -> None:
    rows = {tuple(row[:2]): row[3:] for row in in_fence("4.4", "tensors 4.4")}
    need, names, meaning = rows["`blk.{i}.ffn_sub_norm.weight`", "ff"]
    assert (need, meaning) == ("required", "Gains on the input of ffn_down.")
    assert names.split(", ")[:3] == ["bitnet-b1.58", "bitnet-25", "bitnet"]
    assert "llama" not in names.split(", ")
    rows = {tuple(row[:2]): row[3:] for row in in_fence("4.3", "tensors 4.3")}
    assert rows["`blk.{i}.ffn_gate.weight`", "embd, ff"][0] == "required, without experts"


def test_table_of_architectures() -> None:
    rows = {row[0]: row[1:] for row in in_fence("3.1", "architectures")}
    assert list(rows) == [code(name) for name in ARCHITECTURES]
    assert rows["`bitnet`"] == [
        "bitnet_b1_58-large and -3B", "llama", "silu", "neox", "tied", "10000", "1e-06 or 1e-05"
    ]  # fmt: skip


NUMBER_HEAD = ["number", "`general.file_type`", "tensor type"]


def number_row(number: int) -> list[str]:
    def words(meanings: tuple[type_registry.LineageMeaning, ...]) -> str:
        return "; ".join(f"{meaning.name} to {meaning.whose}" for meaning in meanings)

    return [str(number), words(type_registry.FILE_TYPES.get(number, ())), words(type_registry.tensor_types(number))]


def test_table_of_numbers() -> None:
    assert table("3.1", NUMBER_HEAD) == [number_row(number) for number in range(36, 44)]


SIZE_HEAD = ["word", "meaning"]


def test_words_of_shapes_are_those_of_hyperparameters() -> None:
    used = {size for a in ARCHITECTURES.values() for spec in a.with_beside for size in spec.ne}
    h = Hyperparameters(1, 2, 3, 4, 2, 8, 8, 9)
    shown = [row[0].strip("`") for row in table("4.1", SIZE_HEAD)]
    assert set(shown) == used
    assert all(hasattr(h, word) for word in shown)


def test_tables_of_orders() -> None:
    rows = {row[0]: row[1] for row in in_fence("3.7", "order of keys")}
    assert list(rows) == [code(name) for name in RECIPES]
    assert rows["`llama`"].startswith("`general.architecture`, `general.name`, `{arch}.block_count`")
    layers = {row[0]: row[1:] for row in in_fence("4.7", "order of tensors")}
    assert list(layers) == [code(name) for name in ARCHITECTURES]
    assert layers["`llama`"] == [
        "attn_norm, ffn_down, ffn_gate, ffn_up, ffn_norm, attn_k, attn_output, attn_q, attn_v", "9",
        "`output.weight`, `token_embd.weight`", "`output_norm.weight`",
    ]  # fmt: skip


def test_pre_tokenizers_are_listed() -> None:
    text = section("3.5")
    for name in (*keys.PRE_TOKENIZERS, *keys.NEWER_PRE_TOKENIZERS):
        assert code(name) in text, name
