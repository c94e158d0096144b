"""The chapters on metadata and tensors agree with the schema: every key, every tensor, every number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from i2s_spec.convert.random_weights import RECIPES
from i2s_spec.schema import architectures as rotation
from i2s_spec.schema import keys, type_registry
from i2s_spec.schema.architectures import ARCHITECTURES, Hyperparameters
from i2s_spec.schema.inventory import TensorSpec
from i2s_spec.schema.keys import OPTIONAL, Key

SPEC = Path(__file__).resolve().parents[2] / "spec"
CHAPTERS = {"3": "03-metadata.md", "4": "04-inventories.md"}

GROUPS = (*keys.GENERAL, *keys.MODEL, *keys.EMBEDDING_MODEL, *keys.TOKENIZER, *rotation.KEYS)
KEY_HEAD = ["key", "type", "need", "without it", "read by", "meaning"]
TENSOR_HEAD = ["tensor", "ne", "types", "need", "architectures", "meaning"]


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


def key_row(key: Key) -> list[str]:
    """A key as a row of its table."""
    need = key.need + {"gpt2": ", for gpt2", "llama": ", for llama", "quantized": ", where a tensor is quantized"}.get(
        key.when, ""
    )
    default = key.otherwise or (str(key.default).lower() if isinstance(key.default, bool) else "")
    if not default and key.default is not None:
        default = f"{key.default:g}" if isinstance(key.default, float) else str(key.default)
    meaning = key.meaning + (f" ({key.note})" if key.note else "")
    return [code(key.name), ", ".join(key.types), need, default, ", ".join(key.readers), meaning]


def shape(ne: tuple[str, ...]) -> str:
    return ", ".join(ne)


def tensors(clause: str) -> list[tuple[TensorSpec, list[str]]]:
    """The tensors of a section, each once, with the architectures that have it as it is declared."""
    found: dict[tuple[object, ...], tuple[TensorSpec, list[str]]] = {}
    for architecture in ARCHITECTURES.values():
        for spec in architecture.inventory:
            if spec.clause == clause:
                key = (spec.name, spec.ne, spec.types, spec.need, spec.meaning)
                found.setdefault(key, (spec, []))[1].append(architecture.name)
    return list(found.values())


def tensor_row(spec: TensorSpec, architectures: list[str]) -> list[str]:
    """A tensor as a row of its table."""
    when = {"dense": ", without experts", "experts": ", with experts"}.get(spec.when, "")
    meaning = spec.meaning + (f" ({spec.note})" if spec.note else "")
    return [
        code(spec.name), shape(spec.ne), ", ".join(spec.types), spec.need + when, ", ".join(architectures), meaning,
    ]  # fmt: skip


@pytest.mark.parametrize("clause", ["3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.8"])
def test_tables_of_keys(clause: str) -> None:
    assert table(clause, KEY_HEAD) == [key_row(key) for key in GROUPS if key.clause == clause]


def test_every_key_is_in_a_table() -> None:
    assert {key.clause for key in GROUPS} == {"2.7", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.8"}
    assert [key.name for key in GROUPS if key.clause == "2.7"] == ["general.alignment"]


@pytest.mark.parametrize("clause", ["4.1", "4.2", "4.3", "4.4", "4.5", "4.6"])
def test_tables_of_tensors(clause: str) -> None:
    assert table(clause, TENSOR_HEAD) == [tensor_row(*found) for found in tensors(clause)]


def test_every_tensor_is_in_a_table() -> None:
    clauses = {spec.clause for architecture in ARCHITECTURES.values() for spec in architecture.inventory}
    assert clauses == {"4.1", "4.2", "4.3", "4.4", "4.5", "4.6"}


def architecture_row(name: str) -> list[str]:
    a = ARCHITECTURES[name]
    base = f"{a.rope_base:g}" if a.rope_base is not None else "10000"
    return [code(name), a.title, a.tokenizer, a.activation, a.rope, a.head, base, " or ".join(f"{e:g}" for e in a.eps)]


ARCHITECTURE_HEAD = ["architecture", "models", "tokenizer", "activation", "rotated pairs", "head", "base", "epsilon"]


def test_table_of_architectures() -> None:
    assert table("3.1", ARCHITECTURE_HEAD) == [architecture_row(name) for name in ARCHITECTURES]


NUMBER_HEAD = ["number", "`general.file_type`", "tensor type"]


def number_row(number: int) -> list[str]:
    def words(meanings: tuple[type_registry.LineageMeaning, ...]) -> str:
        return "; ".join(f"{meaning.name} to {meaning.whose}" for meaning in meanings)

    return [str(number), words(type_registry.FILE_TYPES.get(number, ())), words(type_registry.tensor_types(number))]


def test_table_of_numbers() -> None:
    assert table("3.1", NUMBER_HEAD) == [number_row(number) for number in range(36, 44)]


SIZE_HEAD = ["word", "meaning"]


def test_words_of_shapes_are_those_of_hyperparameters() -> None:
    used = {size for a in ARCHITECTURES.values() for spec in a.inventory for size in spec.ne}
    h = Hyperparameters(1, 2, 3, 4, 2, 8, 8, 9)
    shown = [row[0].strip("`") for row in table("4.1", SIZE_HEAD)]
    assert set(shown) == used
    assert all(hasattr(h, word) for word in shown)


ORDER_HEAD = ["architecture", "order of the keys"]
TENSOR_ORDER_HEAD = ["architecture", "in each layer", "tensors of a layer", "before the layers", "after them"]


def test_table_of_the_order_of_keys() -> None:
    wanted = [[code(name), ", ".join(map(code, recipe.keys))] for name, recipe in RECIPES.items()]
    assert table("3.7", ORDER_HEAD) == wanted


def tensor_order_row(name: str) -> list[str]:
    specs = [spec for spec in ARCHITECTURES[name].inventory if spec.need != OPTIONAL and spec.when != "experts"]
    layer = [spec.name[8:].removesuffix(".weight") for spec in specs if spec.per_layer]
    first = next(i for i, spec in enumerate(specs) if spec.per_layer)
    before = [code(spec.name) for spec in specs[:first]]
    behind = [code(spec.name) for spec in specs[first:] if not spec.per_layer]
    return [code(name), ", ".join(layer), str(len(layer)), ", ".join(before), ", ".join(behind)]


def test_table_of_the_order_of_tensors() -> None:
    assert table("4.7", TENSOR_ORDER_HEAD) == [tensor_order_row(name) for name in ARCHITECTURES]


def test_pre_tokenizers_are_listed() -> None:
    text = section("3.5")
    for name in (*keys.PRE_TOKENIZERS, *keys.NEWER_PRE_TOKENIZERS):
        assert code(name) in text, name
