"""Expectations of a decoder: it must reject only unreadable files, and must accept only files without any finding."""

from __future__ import annotations

import pytest
from malformed_cases import CASES, broken

from i2s_spec.fuzzing.expectations import (
    OF_HEADER,
    OF_TENSORS,
    SUPPORTS,
    DecoderPolicy,
    Expectation,
    ReadDepth,
    expected_answer,
)
from i2s_spec.fuzzing.inputs import Inputs, catalogue, sound
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.testing.sample import Draft

EVERYTHING = DecoderPolicy(supports=frozenset(SUPPORTS))


@pytest.mark.parametrize("made", sound(), ids=lambda made: made.what)
def test_sound_files_must_be_accepted_by_who_supports_all(made: object) -> None:
    expectation = expected_answer(made.data, EVERYTHING)  # type: ignore[attr-defined]
    if expectation.code == "P301":  # embedding models: stock llama.cpp refuses them
        assert expectation.answer is Expectation.EITHER
    else:
        assert expectation.answer is Expectation.ACCEPT, expectation


def test_a_decoder_without_features_must_accept_plain_files_only() -> None:
    plain = DecoderPolicy(supports=frozenset())
    owed = {made.what: expected_answer(made.data, plain).answer for made in sound()}
    assert owed["one F32 tensor"] is Expectation.ACCEPT
    for what in ("one I2_S tensor", "an alignment of 64", "big-endian", "version 2", "no tensor"):
        assert owed[what] is Expectation.EITHER


#: Files that every surveyed reader rejects, and files that some readers accept for good reason.
REJECTED_BY_ALL = [
    "arr_str_over", "arr_type_bad", "bad_magic", "empty", "html", "key_len_over", "key_len_huge", "kv_type_bad",
    "lfs_pointer", "magic_only", "nk_over", "nt_over", "nt_huge",
]  # fmt: skip
ACCEPTED_BY_SOME = [
    "align13", "dup_key", "dup_tensor", "empty_key", "gap", "ndims5", "off_misaligned", "overlap", "dim0", "ndims0",
    "name_nul", "name_badutf8", "be", "ver0", "ver1_big", "ver99", "nested_arr", "i2s_ne0_not128",
]  # fmt: skip


@pytest.mark.parametrize("name", REJECTED_BY_ALL)
def test_must_be_rejected(name: str) -> None:
    case = CASES[name]
    for reads in ReadDepth:
        expectation = expected_answer(case.data, DecoderPolicy(reads))
        assert (expectation.answer, expectation.code) == (Expectation.REJECT, case.code)
        assert expectation.clause


@pytest.mark.parametrize("name", ACCEPTED_BY_SOME)
def test_files_that_may_be_accepted_or_rejected(name: str) -> None:
    assert expected_answer(broken(name), DecoderPolicy()).answer is Expectation.EITHER


@pytest.mark.parametrize(
    "name", ["trunc_data", "trunc_f32", "off_oob", "off_wrap", "align_str", "dim_mul_ovf", "type_neg"]
)
def test_only_readers_of_tensors_must_reject(name: str) -> None:
    assert expected_answer(broken(name), DecoderPolicy()).answer is Expectation.REJECT
    assert expected_answer(broken(name), DecoderPolicy(ReadDepth.HEADER)).answer is Expectation.EITHER


def test_a_truncated_ternary_tensor_is_for_those_who_know_its_size() -> None:
    case = CASES["trunc_data"]
    assert expected_answer(case.data, DecoderPolicy(supports=frozenset())).answer is Expectation.EITHER


def test_an_unknown_type_need_not_be_rejected() -> None:
    assert expected_answer(broken("type99"), DecoderPolicy()).answer is Expectation.EITHER


def test_codes_can_be_added_and_excepted() -> None:
    assert expected_answer(broken("dup_key"), DecoderPolicy(also=frozenset({"G203"}))).code == "G203"
    assert expected_answer(broken("trunc_data"), DecoderPolicy(spared=frozenset({"G401"}))).answer is Expectation.EITHER
    with pytest.raises(ValueError, match="no rule has the code"):
        DecoderPolicy(also=frozenset({"G999"}))
    with pytest.raises(ValueError, match="could support"):
        DecoderPolicy(supports=frozenset({"everything"}))


def test_a_model_reader_need_accept_models_only() -> None:
    owed = {made.what: expected_answer(made.data, DecoderPolicy(ReadDepth.MODEL)).answer for made in sound()}
    assert owed["a model of bitnet-b1.58"] is Expectation.ACCEPT
    assert owed["one F32 tensor"] is Expectation.EITHER


def test_every_obligation_is_an_error_with_a_reason() -> None:
    for code, obligation in {**OF_HEADER, **OF_TENSORS}.items():
        assert REGISTRY[code].severity is Severity.ERROR
        assert obligation.reason


def test_warnings_oblige_to_nothing() -> None:
    assert expected_answer(Draft().data + b"x" * 64, DecoderPolicy()).answer is Expectation.EITHER


def test_inputs_are_reproducible_and_bounded() -> None:
    one, two, other = Inputs(3, 8192), Inputs(3, 8192), Inputs(4, 8192)
    indices = range(one.known - 3, one.known + 60)
    assert [one.at(i) for i in indices] == [two.at(i) for i in indices]
    assert [one.at(i) for i in indices] != [other.at(i) for i in indices]
    assert all(len(one.at(i).data) <= 8192 for i in range(one.known + 60))
    assert {one.at(i).stage for i in range(one.known + 10)} == {"sound", "malformed", "edge", "chance"}
    assert len(catalogue()) > 150
