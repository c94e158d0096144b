"""The mutator: the same seed gives the same file, every declared field is changed, and even an empty input leads far."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from examples import examples, some
from hypothesis import example, given
from hypothesis import strategies as st
from malformed_cases import SMALL

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema import container
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.field import Field, RecordStruct, Word
from i2s_spec.testing import mutator
from i2s_spec.testing.anatomy import OPERATORS, dissect, edges, is_number
from i2s_spec.testing.differential import scanner_against_schema
from i2s_spec.testing.mutations import begun, without
from i2s_spec.testing.sample import Draft

SOUND = Draft().data


def is_goal(data: bytes) -> bool:
    file = File(BufferSource(data))
    numbers = {tensor.number for tensor in file.tensors.rows}
    return file.fault is None and file.alignment != 32 and 36 in numbers


@pytest.mark.parametrize("seed", range(5))
def test_mutations_reach_an_aligned_ternary_tensor_from_an_empty_file(seed: int) -> None:
    chance, pool = Random(seed), [b""]
    for _ in range(5000):  # about 100 are needed
        data = mutator.mutation(chance.choice(pool), chance, 1 << 16).data
        if File(BufferSource(data)).fault is None:
            pool.append(data)
            if is_goal(data):
                return
    pytest.fail("not reached in 5,000 mutations")


@examples(60)
@given(st.binary(max_size=64) | st.sampled_from([SOUND, Draft("big").data]), st.integers(0, 2**32 - 1))
@example(SOUND, 1359929)  # a record is duplicated, then removed
def test_any_bytes_are_changed_within_the_size(data: bytes, seed: int) -> None:
    size = max(1, len(data) + seed % 200)
    changed = mutator.custom_mutator(data, size, seed)
    assert len(changed) <= size
    assert changed != data
    assert changed == mutator.custom_mutator(data, size, seed)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_crossover_is_bounded_and_reproducible(first: int, second: int) -> None:
    ours, theirs = mutator.mutate(SOUND, first), mutator.mutate(Draft(last="f32").data, second)
    made = mutator.custom_crossover(ours, theirs, 900, first)
    assert len(made) <= 900
    assert made == mutator.custom_crossover(ours, theirs, 900, first)


def test_the_same_in_every_process() -> None:
    code = (
        "from i2s_spec.testing.mutator import mutate; from i2s_spec.testing.sample import Draft; import hashlib;"
        "d = Draft().data; print(hashlib.sha256(b''.join(mutate(d, i) for i in range(200))).hexdigest())"
    )
    here = sha256(b"".join(mutator.mutate(SOUND, i) for i in range(200))).hexdigest()
    env = {"PYTHONHASHSEED": "77"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, env=env)
    assert run.stdout.strip() == here


def test_scanner_and_schema_agree_on_mutated_files() -> None:
    """A smoke test of the container for machines without Atheris."""
    pool = [SOUND, Draft("big").data, b""]
    for seed in some(range(1500), every=7):
        data = mutator.mutate(pool[seed % len(pool)], seed, 1 << 15)
        scanner_against_schema(data)
        if len(pool) < 60:
            pool.append(data)


def test_every_field_of_the_schema_is_edited() -> None:
    paths = {edit.path for edit in mutator.edits(SOUND)}
    assert {leaf.path for leaf in dissect(SOUND).leaves if is_number(leaf)} <= paths
    for path in ("header.version", "key_values[3].value", "key_values[5].value.items[0].length", "tensor_infos[1].ne[0]",
                 "tensor_infos[2].offset", "data[1].tail.scale"):  # fmt: skip
        assert path in paths


def test_a_newly_declared_field_is_fuzzed(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = container.tensor_info("little")
    *kept, offset = declared.fields
    assert offset.name == "offset"
    new = [
        Field(name, Word("little", "I"), "Half of what was one field yesterday.", "2.7") for name in ("page", "within")
    ]
    split = RecordStruct(declared.title, declared.clause, *kept, *new)
    monkeypatch.setattr(container, "tensor_info", lambda order: split)
    dissect.cache_clear()
    try:
        paths = {edit.path for edit in mutator.edits(SOUND)}
        assert {"tensor_infos[0].page", "tensor_infos[2].within"} <= paths
        assert "tensor_infos[0].offset" not in paths
        chance = Random(1)
        assert any("tensor_infos[0].page" in mutator.mutation(SOUND, chance).what for _ in range(3000))
    finally:
        dissect.cache_clear()


def test_every_edge_of_a_number_is_tried() -> None:
    values = {
        int.from_bytes(edit.data[8:16], "little") for edit in mutator.edits(SOUND) if edit.path == "header.tensor_count"
    }
    assert {0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1} <= values
    assert set(edges(1)) >= {0, 1, 127, 128, 255}


def test_edits_are_single_and_different() -> None:
    seen = set()
    for edit in mutator.edits(SOUND):
        assert edit.data not in seen
        seen.add(edit.data)
        if edit.path:
            assert len(edit.data) == len(SOUND)
            leaf = dissect(SOUND).places[edit.path]
            assert edit.data[: leaf.start] + edit.data[leaf.stop :] == SOUND[: leaf.start] + SOUND[leaf.stop :]


def test_truncations_come_at_each_boundary() -> None:
    sizes = {len(edit.data) for edit in mutator.truncations(SOUND)}
    assert {0, 3, 4, 8, 16, 24, 32} <= sizes
    assert len(SOUND) not in sizes


@pytest.mark.parametrize("function", [function for function, _ in OPERATORS], ids=lambda f: f.__name__)
def test_every_operator_applies_and_is_sometimes_readable(function: Any) -> None:
    made = [edit for seed in range(60) if (edit := mutator.applied(function, dissect(SOUND), Random(seed))) is not None]
    assert made
    assert len({edit.data for edit in made}) > 1
    assert all(edit.what for edit in made)
    if function.__name__ not in ("cut", "stir"):
        assert any(File(BufferSource(edit.data)).fault is None for edit in made)


def test_every_dialect_occurs() -> None:
    said = [mutator.mutation(SOUND, Random(seed)).what for seed in some(range(3000))]
    for layout in LAYOUTS.values():
        assert any(f"written as {layout}" in what for what in said) == layout.in_gguf


def test_broken_files_are_changed_too() -> None:
    for case in some(SMALL.values()):
        if len(case.data) < 3000:
            for seed in range(4):
                assert mutator.mutate(case.data, seed) != case.data


def test_without_a_record_a_file_stays_sound() -> None:
    file = File(BufferSource(without(SOUND, "key_values", 2)))
    assert file.fault is None
    assert len(file.metadata) == 7
    fewer = File(BufferSource(without(SOUND, "tensor_infos", 0)))
    assert fewer.fault is None
    assert [tensor.name for tensor in fewer.tensors.rows] == ["first.weight", "second.weight"]


def test_a_header_is_enough_to_begin() -> None:
    assert File(BufferSource(begun("big"))).byte_order == "big"
    assert any(len(File(BufferSource(mutator.mutate(begun(), seed))).tensors) for seed in range(200))


def test_dictionary_has_what_readers_look_for() -> None:
    assert {b"general.alignment", b"bitnet-b1.58", b"blk.0.attn_q.weight"} <= set(mutator.dictionary())
