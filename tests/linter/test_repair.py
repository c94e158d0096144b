"""Repairs keep their promises: repaired findings are gone, a second run changes nothing, and a safe repair is safe."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, broken
from repairs import BREAKINGS, check_repairs, fixed_bytes, header_codes, weights, with_gap

from i2s_spec.compare.hash import hash as identity
from i2s_spec.compare.hash import metadata_digest
from i2s_spec.errors import FormatError
from i2s_spec.gguf.data_section import TensorBytes
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.repair.plan import REPAIRS, chosen, plan
from i2s_spec.linter.repair.workspace import ExtraRepairs
from i2s_spec.linter.report_data import repairs_of
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.testing.sample import Draft, Model

# --- declarations ---------------------------------------------------------------------------------------------------


def test_rules_and_repairs_agree() -> None:
    assert set(REPAIRS) <= set(REGISTRY)
    assert {code: rule.fix for code, rule in REGISTRY.items()} == {
        code: REPAIRS[code].safety if code in REPAIRS else Fix.NONE for code in REGISTRY
    }


def test_every_repair_explains_itself() -> None:
    for code, repair in REPAIRS.items():
        assert repair.safety is Fix.UNSAFE or not (repair.weights or repair.by_name)
        assert repair.code == code in REGISTRY
        assert repair.does
        assert repair.safety in (Fix.SAFE, Fix.UNSAFE)
        assert "(clause" in (repair.propose.__doc__ or "") or "(3.5)" in (repair.propose.__doc__ or ""), code


def test_repairs_are_chosen_as_rules_are() -> None:
    names = {each.code for each in chosen()}
    assert names == {code for code, each in REPAIRS.items() if not each.by_name}
    assert [each.code for each in chosen(["G406"])] == ["G406"]
    assert [each.code for each in chosen(["padding-not-zero"])] == ["G406"]
    assert {each.code for each in chosen(["g2"], ["G21"])} == {c for c in REPAIRS if c[:2] == "G2" and c[:3] != "G21"}
    assert [each.code for each in chosen(["M117"])] == ["M117"]
    assert "M117" not in {each.code for each in chosen(["M11"])}
    for name in ("", "X", "G101", "no-such-slug"):
        with pytest.raises(ValueError, match="names no rule whose findings can be repaired"):
            chosen([name])


# --- every broken copy ----------------------------------------------------------------------------------------------


#: Files with so many records that a quick run leaves them out.
MANY = [pytest.param(name, marks=pytest.mark.thorough) for name, case in CASES.items() if case.large]

#: Those for which nothing is planned: they have more tensors than models have.
PLANNED = [each for each in MANY if not str(each.values[0]).endswith("_100k") and each.values[0] != "tensor_ceiling"]


@pytest.mark.requirement("R1.2-2")
@pytest.mark.parametrize("name", [*(name for name, case in CASES.items() if not case.large), *MANY])
def test_broken_copies(name: str) -> None:
    data = broken(name)
    for unsafe in (False, True):
        check_repairs(data, unsafe)


@pytest.mark.parametrize("name", share((name for name, case in CASES.items() if not case.large), every=8))
@pytest.mark.parametrize("unsafe", [False, True])
def test_broken_copies_as_written(name: str, unsafe: bool) -> None:
    data = broken(name)
    if header_codes(data) & faults.NO_INPUT:
        with pytest.raises(FormatError):
            fix(data)
        return
    out, fixed = fixed_bytes(data, unsafe=unsafe)
    if out != data:
        assert out == fixed_bytes(out, unsafe=unsafe)[0]
    if not unsafe and fixed.weights.before is not None:
        assert fixed.weights.unchanged
    assert fixed.size == len(out)


#: The options of `fix` that reports state, besides those that select a rule.
OPTIONS = ("", "--unsafe", "--scrub-tail", "--unsafe --dialect SOURCE")


@pytest.mark.parametrize("name", [*(name for name, case in CASES.items() if not case.large), *PLANNED])
def test_a_repair_is_offered_exactly_where_it_is_made(name: str) -> None:
    data = broken(name)
    report = lint(data)
    codes = {finding.code for finding in report.findings}
    offered = repairs_of(((each.code, each.fix) for each in report.findings), report.elided)
    for option in (*OPTIONS, *(f"--unsafe --select {code}" for code in codes)):
        stated = {"", option} if option == "--unsafe" else {option}
        wanted = Counter({code: n for code in codes if (n := sum(offered[code].get(each, 0) for each in stated))})
        if report.readable and (wanted or option in OPTIONS[:2]):
            extra = ExtraRepairs("--scrub-tail" in option, CANONICAL if "--dialect" in option else None)
            repairs = chosen() if option in OPTIONS[:2] else chosen(wanted)
            made = plan(BufferSource(data), repairs, "--unsafe" in option, None, extra)
            assert Counter(action.code for action in made.actions if action.code in codes) == wanted, option
        else:
            assert not wanted


#: Broken copies that the repair restores to the sound file, byte for byte.
BACK = (
    "empty_key", "dup_key", "key_cyrillic", "key_bidi", "key_nul", "key_escape", "key_case_twin", "key_badutf8", "bool_2",
    "trailing", "zip_behind", "scale_be",
)  # fmt: skip


@pytest.mark.parametrize("name", BACK)
def test_repairs_that_restore_the_sound_file(name: str) -> None:
    assert fixed_bytes(broken(name), unsafe=True)[0] == Draft().data


# --- files of other programs ----------------------------------------------------------------------------------------


def test_real_files(shared: Path) -> None:
    paths = [*shared.glob("vectors/gguf/*.gguf"), *shared.glob("real/*.gguf")]
    assert paths
    for path in paths:
        data = path.read_bytes()
        try:
            out, fixed = fixed_bytes(data)
        except FormatError:
            continue
        assert fixed_bytes(out)[0] == out
        assert fixed.weights.before is None or fixed.weights.unchanged, path
        assert {action.code for action in fixed.actions} <= {"M012", "M030", "G408"}, path
        check_repairs(data, unsafe=True)


def test_another_dialect_is_recoded_to_canonical(shared: Path) -> None:
    folder = shared / "vectors" / "gguf"
    wrong = (folder / "bitnet.i2_s.arm64block.gguf").read_bytes()
    with pytest.raises(ValueError, match="does not state its dialect"):
        fix(wrong, dialect="interleave-64")
    out, fixed = fixed_bytes(wrong, unsafe=True, dialect="interleave-64")
    assert len(fixed.recoded) == 14
    assert fixed.weights.unchanged
    assert weights(out) == identity(open_file(wrong), "interleave-64").weights == identity(
        open_file(folder / "bitnet.i2_s.gguf")
    ).weights  # fmt: skip


def test_a_dry_run_recodes_nothing(shared: Path) -> None:
    path = shared / "vectors" / "gguf" / "bitnet.i2_s.arm64block.gguf"
    fixed = fix(path, unsafe=True, dialect="interleave-64")
    assert not fixed.written
    assert len(fixed.recoded) == 14


def test_tails_that_hold_weights_are_not_scrubbed() -> None:
    model = Model("bitnet").like("blk.0.attn_q.weight", (100, 10), "I2_S")
    tensor = model.tensor("blk.0.attn_q.weight")
    tensor.data = tensor.data[:-28] + bytes(range(28))
    data = model.built()
    out, fixed = fixed_bytes(data, scrub_tail=True)
    assert out == data
    assert [(each.code, "its last weights are read from its tail" in each.why) for each in fixed.declined] == [
        ("I310", True)
    ]


def test_stale_tails_are_scrubbed_on_request(shared: Path) -> None:
    data = (shared / "vectors" / "gguf" / "bitnet-25.i2_s.gguf").read_bytes()
    assert not {action.code for action in fix(data).actions} & {"I310", "I311"}
    out, fixed = fixed_bytes(data, scrub_tail=True)
    assert {action.code for action in fixed.actions} == {"I311"}
    assert fixed.weights.unchanged
    assert all(tensor.tail[4:] == bytes(28) for tensor in open_file(out).tensors.values() if tensor.tail)
    assert fixed_bytes(out, scrub_tail=True)[0] == out


# --- combinations of faults -----------------------------------------------------------------------------------------


def with_letter_in_padding(data: bytes) -> bytes:
    """A letter in the padding before the data section, if there is any."""
    file = open_file(data)
    assert file.infos_end is not None
    return data if file.infos_end == file.data_start else data[: file.infos_end] + b"X" + data[file.infos_end + 1 :]


CONTAINER: dict[str, Callable[[bytes], bytes]] = {
    "G406": with_letter_in_padding,
    "P101": with_gap,
    "G407": lambda data: data + b"attached",
    "zeros": lambda data: data + bytes(96),
}


@given(
    st.lists(st.sampled_from(sorted(BREAKINGS)), unique=True, max_size=6),
    st.lists(st.sampled_from(sorted(CONTAINER)), unique=True),
    st.sampled_from(["llama", "bitnet-b1.58", "bitnet-25"]),
    st.booleans(),
)
@examples(40)
def test_faults_in_combination(faulty: list[str], around: list[str], architecture: str, unsafe: bool) -> None:
    model = Model(architecture)
    for name in faulty:
        with suppress(StopIteration):  # an earlier fault removed what this one changes
            BREAKINGS[name](model)
    data = model.built()
    for name in around:
        data = CONTAINER[name](data)
    check_repairs(data, unsafe)
    if not unsafe:
        assert fix(data).weights.why or fix(data).weights.unchanged


@pytest.mark.parametrize("name", sorted(BREAKINGS))
def test_faults_are_found_and_repaired(name: str) -> None:
    sound = Model("llama").built()
    data = Model("llama").changed(BREAKINGS[name]).built()
    assert name in header_codes(data)
    out, fixed = fixed_bytes(data, unsafe=True)
    assert name in {action.code for action in fixed.actions}
    assert header_codes(out) <= header_codes(sound) | {"T014"}  # a formerly empty token is a filler now
    if name not in ("M106", "T007", "T006", "T004", "T008", "G215"):
        assert metadata_digest(open_file(out)) == metadata_digest(open_file(sound))
        assert weights(out) == weights(sound)


def test_weights_that_change_unannounced_are_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fixed = fix(broken("scale_be"), unsafe=True)
    assert not fixed.weights.unchanged
    assert fixed.weights.changed_by == ("I301",)
    monkeypatch.setitem(REPAIRS, "I301", REPAIRS["I301"]._replace(weights=False))
    monkeypatch.setattr(TensorBytes, "why_not", lambda *_: None)
    with pytest.raises(RuntimeError, match="would have changed"):
        fix(broken("scale_be"), tmp_path / "a.gguf", unsafe=True)
    assert os.listdir(tmp_path) == []


def test_changes_say_which_bytes() -> None:
    fixed = fix(broken("bool_2"))
    (change,) = fixed.changes
    assert (change.path, change.before, change.after) == ("key_values[4].value", b"\2", b"\1")
    assert list(change.lines()) == [
        "@@ key_values[4].value: bytes 0xc8 to 0xc9 become 0xc8 to 0xc9", "- 0xc8  02", "+ 0xc8  01",
    ]  # fmt: skip
    dropped = fix(broken("dup_key"), unsafe=True)
    assert [change.path for change in dropped.changes] == ["header.key_count", "key_values[8]", "padding"]
    assert dropped.changes[1].after == b""
