"""The registry of numbers: every meaning with its owner is found again from the properties of a tensor in a file."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.schema import types
from i2s_spec.schema.keys import FILE_TYPES
from i2s_spec.schema.type_registry import (
    IK,
    PRISM,
    UPSTREAM,
    BlockSize,
    all_file_assignments,
    all_tensor_assignments,
    file_assignments,
    fitting,
    tensor_assignments,
)


def test_every_declared_type_from_30_on_is_in_the_registry_under_its_number() -> None:
    for kind in types.TENSOR_TYPES:
        if kind.number >= 30:
            assert any(each.type is kind for each in tensor_assignments(kind.number)), kind


def test_a_size_is_declared_once() -> None:
    for each in all_tensor_assignments():
        assert each.type is None or each.size is None, each


def test_nothing_is_said_twice() -> None:
    for everything in (all_tensor_assignments(), all_file_assignments()):
        assert len({(each.number, each.name, each.program, each.since) for each in everything}) == len(everything)
        assert [each.number for each in everything] == sorted(each.number for each in everything)
        assert all(each.number >= 29 and each.since and each.source for each in everything)


def test_a_meaning_ends_no_earlier_than_it_begins() -> None:
    for each in (*all_tensor_assignments(), *all_file_assignments()):
        if each.until:
            assert each.since[:7] <= each.until[:7], each
        assert each.is_current == (not each.until)


def test_one_program_gives_a_number_one_meaning_at_a_time() -> None:
    """Except for forks of forks, which are many programs under one name."""
    for meanings in (tensor_assignments, file_assignments):
        for number in range(30, 400):
            for program in (UPSTREAM, IK, PRISM):
                own = [each for each in meanings(number) if each.program == program]
                held = sorted((each.since[:10], (each.until or "9999")[:10]) for each in own)
                for (_, until), (since, _) in pairwise(held):
                    assert until <= since, (number, program, held)


@pytest.mark.parametrize("number", [30, 31, 36, 38, 39, 40, 41, 42, 43, 56, 59, 142, 143])
def test_numbers_with_several_meanings_have_several(number: int) -> None:
    programs = {each.program for each in tensor_assignments(number)}
    assert len(programs) > 1 or number in (56, 59)


def test_number_42_is_resolved_by_the_size() -> None:
    ne = (5120, 1024)
    n = prod(ne)
    assert [each.program for each in fitting(42, ne, n // 64 * 18)] == [UPSTREAM, PRISM]
    fits = [(each.name, each.program) for each in fitting(42, ne, n // 128 * 34)]
    assert fits == [("TQ2_0_g128", "OxiBonsai"), ("Q2_0_G128", PRISM)]
    tl2 = types.BY_NAME["TL2"].nbytes(ne)
    assert [each.name for each in fitting(42, ne, tl2)] == ["TL2"]
    assert fitting(42, ne, n // 256 * 66)[0].name == "IQ2_TN"
    assert fitting(42, ne, n) == ()


def test_keys_of_a_programs_own_put_its_meaning_in_front() -> None:
    ne = (128, 7)  # 68 bytes fit PrismML's type (4 * 34 / 2), and after padding to 256 also others
    rooms = fitting(42, ne, 256, alignment=256)
    assert {each.name for each in rooms} >= {"Q2_0", "Q2_0_G128"}
    assert rooms[0].program == UPSTREAM
    assert fitting(42, ne, 256, alignment=256, keys=["prism.hadamard.version"])[0].program == PRISM


def test_rows_of_partial_blocks_fit_no_type_with_blocks() -> None:
    assert fitting(142, (130, 4), 4 * 34) == ()
    assert tensor_assignments(142)[0].nbytes((130, 4)) is None


def test_sizes_of_types_that_only_the_registry_knows() -> None:
    (old,) = (each for each in tensor_assignments(142) if each.name == "IQ2_TN")
    assert old.size == BlockSize(256, 66)
    assert old.nbytes((512, 3)) == 2 * 66 * 3
    assert next(each for each in tensor_assignments(143) if each.name == "G8_0").nbytes((512, 3)) == 3 * 16 * 16
    assert next(each for each in tensor_assignments(43) if each.name == "FV5").nbytes((512, 3)) is None


@given(
    st.integers(1, 40),
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.sampled_from(["Q2_0", "Q2_0_G128", "TL2"]),
)
def test_the_reading_of_a_file_is_that_of_its_large_tensors(columns: int, rows: list[int], name: str) -> None:
    """Small tensors fit several readings; one that fits only one of them decides."""
    kind = types.BY_NAME[name]
    tensors = [((128 * columns, each), types.padded(kind.nbytes((128 * columns, each)), 32)) for each in rows]
    tensors.append(((4096, 64), types.padded(kind.nbytes((4096, 64)), 32)))
    number = 42
    found = types.common_reading(number, tensors)
    assert found is not None
    assert found.name == name


def test_a_small_tensor_is_read_as_the_others_of_its_file() -> None:
    ne, kind = (64, 1), types.BY_NAME["TL2"]
    assert types.reading(42, (128, 1), 64) is types.BY_NAME["Q2_0"]  # 36 bytes, or 34
    assert types.reading(42, (128, 1), 64, common=types.BY_NAME["Q2_0_G128"]) is types.BY_NAME["Q2_0_G128"]
    assert (
        types.reading(42, (4096, 64), 4096 * 64 // 64 * 18, common=types.BY_NAME["Q2_0_G128"]) is types.BY_NAME["Q2_0"]
    )
    assert types.reading(42, ne, None, common=kind) is kind


def test_the_reading_of_a_number_with_one_meaning_or_none() -> None:
    assert types.common_reading(0, []) is types.BY_NAME["F32"]
    assert types.common_reading(43, []) is None
    assert types.common_reading(42, [((64, 1), None)]) is types.BY_NAME["Q2_0"]


def test_file_types_by_program() -> None:
    assert file_assignments(41)[0].name == FILE_TYPES[41] == "Q2_0"
    assert {each.program for each in file_assignments(143)} == {PRISM, IK}
    assert file_assignments(12345) == ()
