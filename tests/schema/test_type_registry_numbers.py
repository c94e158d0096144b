"""Numbers that several forks assigned: every meaning and its owner."""

from __future__ import annotations

import pytest

from i2s_spec.schema import type_registry, types
from i2s_spec.schema.keys import FILE_TYPES, USUAL_FILE_TYPES


@pytest.mark.parametrize("number", range(36, 43))
def test_every_collision_of_tensor_types_is_explained(number: int) -> None:
    meanings = type_registry.tensor_types(number)
    names = {meaning.name for meaning in meanings}
    assert {kind.name for kind in types.READINGS.get(number, ())} <= names
    assert any(meaning.whose == type_registry.UPSTREAM for meaning in meanings)
    assert (meanings[0].whose == type_registry.BITNET) == (number in (36, 37, 38, 39, 42))
    words = type_registry.tensor_type_words(number)
    assert all(meaning.name in words for meaning in meanings)


def test_file_types_are_those_of_the_schema() -> None:
    for number, meanings in type_registry.FILE_TYPES.items():
        assert meanings[0].name == FILE_TYPES[number]
    for number in FILE_TYPES:
        assert type_registry.file_types(number)
    assert type_registry.file_types(12345) == ()
    assert type_registry.file_type_words(12345) == "unknown"
    assert type_registry.file_type_words(137) == "IQ2_BN to ik_llama.cpp"
    assert type_registry.file_type_words(15) == "Q4_K_M to all"
    assert type_registry.file_types(15)[0].tensors == ("Q4_K",)


def test_usual_file_types_fit() -> None:
    """Rules skip these without looking up the meaning of the number; the lookup must have the same result."""
    for number, kind in USUAL_FILE_TYPES:
        assert any(kind in meaning.tensors for meaning in type_registry.file_types(number))


def test_file_types_38_to_41_have_meanings_of_both_lineages() -> None:
    for number in range(38, 42):
        whose = {meaning.whose for meaning in type_registry.file_types(number)}
        assert type_registry.UPSTREAM in whose
        assert len(whose) > 1


def test_types_that_a_file_type_names_exist() -> None:
    known = {kind.name for kind in types.TENSOR_TYPES}
    for meanings in type_registry.FILE_TYPES.values():
        for meaning in meanings:
            assert set(meaning.tensors) <= known


def test_sizes_of_retired_types_are_not_those_of_today() -> None:
    block, size = types.TAKEN_OVER_BLOCK
    for number in types.TAKEN_OVER:
        for ne in ((4096, 4096), (2560, 640)):
            assert types.READINGS[number][0].nbytes(ne) != ne[0] * ne[1] // block * size
