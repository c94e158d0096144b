"""Repairs keep their promises: repaired findings are gone, a second run changes nothing, and a safe repair is safe."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from examples import examples, share, some
from findings import codes_of
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, broken

from i2s_spec.convert.container.edits import write_edited
from i2s_spec.convert.container.rewrite import Value, rewrite
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource, FileSource
from i2s_spec.inspect.compare.identity import identity, metadata_digest
from i2s_spec.linter.repair import repair_plan, workspace
from i2s_spec.linter.repair.actions.tokenizer_repairs import FAMILIES
from i2s_spec.linter.repair.fix import Fixed, fix
from i2s_spec.linter.repair.registry import REPAIRS
from i2s_spec.linter.repair.repair_plan import chosen, plan
from i2s_spec.linter.rule import REGISTRY, Fix
from i2s_spec.schema import faults
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, Model, array, i2s_bytes, key_value


def fixed_bytes(data: bytes, **options: object) -> tuple[bytes, Fixed]:
    """A repaired file, and what was done; of one that is not written, the original."""
    out = io.BytesIO()
    fixed = fix(data, out, **options)  # type: ignore[arg-type]
    return (out.getvalue() if fixed.written else data), fixed


#: Findings in the header, since payloads are not repaired.
header_codes = partial(codes_of, payload="none")


def weights(data: bytes) -> str:
    return identity(open_file(data)).weights


# --- declarations ------------------------------------------------------------------------------------------------


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


# --- every broken copy -------------------------------------------------------------------------------------------


def held(data: bytes, unsafe: bool) -> None:
    """The laws of repairs, for one file."""
    made = plan(BufferSource(data), chosen(), unsafe)
    out = made.source.read(0, made.source.size)
    if not made.actions:
        assert out == data
        return
    again = plan(BufferSource(out), chosen(), unsafe)
    assert again.actions == ()
    assert again.source.read(0, again.source.size) == out

    left = header_codes(out)
    claimed = {action.code for action in made.actions} - {each.code for each in made.declined}
    assert not claimed & left
    if not unsafe:
        assert all(action.safe for action in made.actions)
        tensors_are_untouched(data, made.source.changes())


def tensors_are_untouched(data: bytes, changes: object) -> None:
    """No change of a safe repair is inside a tensor, whatever else is wrong with the file."""
    file = File(BufferSource(data))
    spans = []
    for tensor in file.tensors.rows if file.data_start is not None else ():
        with suppress(FormatError):  # its size is unknown
            spans.append(tensor.span)
    for change in changes:  # type: ignore[attr-defined]
        old = change.old
        assert not any(old.start < span.stop and span.start < old.stop for span in spans), change


#: Files with so many records that a quick run leaves them out.
MANY = [pytest.param(name, marks=pytest.mark.thorough) for name, case in CASES.items() if case.large]


@pytest.mark.requirement("R1.2-2")
@pytest.mark.parametrize("name", [*(name for name, case in CASES.items() if not case.large), *MANY])
def test_broken_copies(name: str) -> None:
    data = broken(name)
    for unsafe in (False, True):
        held(data, unsafe)


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


#: Broken copies that the repair restores to the sound file, byte for byte.
BACK = (
    "empty_key", "dup_key", "key_cyrillic", "key_bidi", "key_nul", "key_escape", "key_case_twin", "key_badutf8", "bool_2",
    "trailing", "zip_behind", "scale_be",
)  # fmt: skip


@pytest.mark.parametrize("name", BACK)
def test_repairs_that_restore_the_sound_file(name: str) -> None:
    assert fixed_bytes(broken(name), unsafe=True)[0] == Draft().data


# --- files of other programs -------------------------------------------------------------------------------------


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
        held(data, unsafe=True)


def test_a_dialect_is_brought_home(shared: Path) -> None:
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


def test_large_alignments_become_usual() -> None:
    data = broken("align_2p17")
    assert fixed_bytes(data)[0] == data
    out, fixed = fixed_bytes(data, unsafe=True)
    assert [action.code for action in fixed.actions] == ["S105", "G407"]
    assert weights(out) == weights(data)
    assert len(out) < len(data)
    assert "S105" not in header_codes(out)


def test_stale_tails_are_scrubbed_on_request(shared: Path) -> None:
    data = (shared / "vectors" / "gguf" / "bitnet-25.i2_s.gguf").read_bytes()
    assert not {action.code for action in fix(data).actions} & {"I310", "I311"}
    out, fixed = fixed_bytes(data, scrub_tail=True)
    assert {action.code for action in fixed.actions} == {"I311"}
    assert fixed.weights.unchanged
    assert all(tensor.tail[4:] == bytes(28) for tensor in open_file(out).tensors.values() if tensor.tail)
    assert fixed_bytes(out, scrub_tail=True)[0] == out


# --- combinations of faults --------------------------------------------------------------------------------------

Breaking = Callable[[Model], object]

#: Faults of a model that leave it readable, with the code that each gives.
BREAKINGS: dict[str, Breaking] = {
    "M002": lambda m: m.drop("{arch}.feed_forward_length"),
    "M003": lambda m: m.set("{arch}.block_count", 1, ValueType.INT32),
    "M004": lambda m: m.set("{arch}.embedding_length", 0),
    "M005": lambda m: m.set("{arch}.feed_forward_length", array(ValueType.UINT32, [8, 9, 7]), ValueType.ARRAY),
    "M006": lambda m: m.set("{arch}.attention.head_count", 3),
    "M007": lambda m: m.set("{arch}.attention.head_count_kv", 3),
    "M008": lambda m: m.set("{arch}.rope.dimension_count", 6),
    "M010": lambda m: m.drop("{arch}.rope.freq_base"),
    "M012": lambda m: m.drop("general.quantization_version"),
    "M013": lambda m: m.set("{arch}.vocab_size", 7),
    "M014": lambda m: m.add("{arch}.expert_used_count", ValueType.UINT32, 2),
    "M030": lambda m: m.set("general.file_type", 1),
    "T001": lambda m: m.drop("tokenizer.ggml.model"),
    "T002": lambda m: m.set("tokenizer.ggml.model", b"hf"),
    "T003": lambda m: m.items("tokenizer.ggml.merges").insert(3, b"a b c"),
    "T004": lambda m: m.pair("tokenizer.ggml.token_type").value["items"].pop(),
    "T007": lambda m: m.items("tokenizer.ggml.tokens").__setitem__(5, b""),
    "T006": lambda m: m.items("tokenizer.ggml.tokens").__setitem__(9, m.items("tokenizer.ggml.tokens")[4]),
    "T008": lambda m: m.set("tokenizer.ggml.eos_token_id", 1 << 20),
    "G203": lambda m: m.add("general.architecture", ValueType.STRING, b"other"),
    "G205": lambda m: m.add("general.\u0430uthor", ValueType.UINT8, 1),
    "G215": lambda m: m.drop("tokenizer.ggml.add_bos_token").add("tokenizer.ggml.add_bos_token", ValueType.BOOL, 7),
    "M102": lambda m: m.like("blk.0.surplus.weight", (8,), "F32"),
    "M106": lambda m: m.like("blk.0.attn_norm.weight", m.tensor("blk.0.attn_norm.weight").ne, "F16"),
    "G303": lambda m: m.tensors.append(m.tensors[0]),
}


def _gap(data: bytes) -> bytes:
    """64 bytes between the first tensor and the others."""
    file = open_file(data)
    tensors = sorted(file.tensors.rows, key=lambda tensor: tensor.offset)
    broken = bytearray(data)
    for tensor in tensors[1:]:
        at = tensor.info_span.stop - 8
        broken[at : at + 8] = struct.pack("<Q", tensor.offset + 64)
    assert file.data_start is not None
    cut = file.data_start + tensors[1].offset
    return bytes(broken[:cut] + b"hidden".ljust(64) + broken[cut:])


def _padding(data: bytes) -> bytes:
    """A letter in the padding before the data section, if there is any."""
    file = open_file(data)
    assert file.infos_end is not None
    return data if file.infos_end == file.data_start else data[: file.infos_end] + b"X" + data[file.infos_end + 1 :]


CONTAINER: dict[str, Callable[[bytes], bytes]] = {
    "G406": _padding,
    "P101": _gap,
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
    held(data, unsafe)
    if not unsafe:
        assert fix(data).weights.why or fix(data).weights.unchanged


@pytest.mark.parametrize("name", sorted(BREAKINGS))
def test_breakings_are_found_and_repaired(name: str) -> None:
    sound = Model("llama").built()
    data = Model("llama").changed(BREAKINGS[name]).built()
    assert name in header_codes(data)
    out, fixed = fixed_bytes(data, unsafe=True)
    assert name in {action.code for action in fixed.actions}
    assert header_codes(out) <= header_codes(sound) | {"T014"}  # a formerly empty token is a filler now
    if name not in ("M106", "T007", "T006", "T004", "T008", "G215"):
        assert metadata_digest(open_file(out)) == metadata_digest(open_file(sound))
        assert weights(out) == weights(sound)


def test_the_width_of_a_head_is_safe_where_tensors_confirm_it() -> None:
    model = Model("llama").set("llama.rope.dimension_count", 6)
    assert [action.code for action in fix(model.built()).actions] == ["M008"]
    heads = model.pair("llama.attention.head_count").value
    model.set("llama.attention.head_count", heads // 2)
    fixed = fix(model.built())
    assert fixed.actions == ()
    assert "attn_k does not confirm" in fixed.declined[0].why


def test_weights_that_change_unannounced_are_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fixed = fix(broken("scale_be"), unsafe=True)
    assert not fixed.weights.unchanged
    assert fixed.weights.changed_by == ("I301",)
    monkeypatch.setitem(REPAIRS, "I301", REPAIRS["I301"]._replace(weights=False))
    with pytest.raises(RuntimeError, match="would have changed"):
        fix(broken("scale_be"), tmp_path / "a.gguf", unsafe=True)
    assert os.listdir(tmp_path) == []


def test_an_architecture_is_renamed_with_its_keys() -> None:
    old, new = Model("bitnet-25"), Model("bitnet-b1.58")
    old.set("general.name", new.pair("general.name").value)
    out, fixed = fixed_bytes(old.built(), unsafe=True)
    assert [action.code for action in fixed.actions] == ["M019"]
    assert metadata_digest(open_file(out)) == metadata_digest(open_file(new.built()))


def test_keys_of_another_architecture_come_home() -> None:
    model = Model("bitnet-b1.58")
    for pair in model.keys:
        pair.key = pair.key.replace(b"bitnet-b1.58.", b"bitnet-25.")
    out, fixed = fixed_bytes(model.built(), unsafe=True)
    assert metadata_digest(open_file(out)) == metadata_digest(open_file(Model("bitnet-b1.58").built()))
    assert {action.code for action in fixed.actions} == {"M018"}


def test_an_architecture_is_not_renamed_where_its_tensors_are_others() -> None:
    model = Model("llama").set("general.architecture", b"bitnet-b1_58")
    fixed = fix(model.built(), unsafe=True)
    assert "M001" in {each.code for each in fixed.declined}
    assert "M001" not in {action.code for action in fixed.actions}


def test_suspicions_are_followed_only_by_name() -> None:
    model = Model("bitnet-b1.58").set("tokenizer.ggml.model", b"llama")
    data = model.built()
    assert "M117" in header_codes(data)
    assert "M117" not in {action.code for action in fix(data, unsafe=True).actions}
    out, fixed = fixed_bytes(data, unsafe=True, select=["M117"])
    assert [action.code for action in fixed.actions] == ["M117"]
    assert open_file(out).metadata["general.architecture"] == "bitnet"
    assert "bitnet.block_count" in open_file(out).metadata


def test_values_that_nothing_says_are_not_made_up() -> None:
    data = Model("llama").drop("llama.context_length", "llama.attention.layer_norm_rms_epsilon").built()
    fixed = fix(data, unsafe=True)
    assert [each.code for each in fixed.declined].count("M002") == 2
    assert "config.json" in fixed.declined[0].why


def test_how_text_is_split_is_told_by_known_vocabularies_only() -> None:
    data = Model("llama").drop("tokenizer.ggml.pre").built()
    assert [each.code for each in fix(data, unsafe=True).declined] == ["T009"]
    for family in some(FAMILIES):
        tokens = [f"token {i}" for i in range(max(i for i, _ in family.tokens) + 1)]
        for i, text in family.tokens:
            tokens[i] = text.decode()
        merges = [f"a b{i}" for i in range(family.merges)]
        for known in (True, False):
            out = io.BytesIO()
            values = {
                "tokenizer.ggml.tokens": Value("arr[str]", tokens),
                "tokenizer.ggml.merges": Value("arr[str]", merges),
            }
            rewrite(open_file(data), out, set=values)
            fixed = fix(out.getvalue(), unsafe=True, select=["T009"])
            assert [family.pre in action.does for action in fixed.actions] == [True] * known
            tokens[family.tokens[0][0]] = "something else"


# --- placement ---------------------------------------------------------------------------------------------------


def _laid_out(alignment: int, stated: int, kind: ValueType = ValueType.UINT32) -> bytes:
    """Two tensors laid out with one alignment in a file that states another."""
    draft = Draft()
    file = draft.records()
    step = -(-160 // alignment) * alignment
    file.tensor_infos = file.tensor_infos[1:]
    for i, info in enumerate(file.tensor_infos):
        info.offset = i * step
    file.data = i2s_bytes(512).ljust(step, b"\0") + i2s_bytes(512, 1.25).ljust(step, b"\0")
    file.key_values.append(key_value(b"general.alignment", kind, stated))
    return draft.built(file, alignment)


@pytest.mark.parametrize(
    ("alignment", "stated"), [(64, 0), (128, 0), (24, 24), (48, 48), (32, 24), (4, 4), (32, 64), (128, 24)]
)
def test_alignments_are_found_out(alignment: int, stated: int) -> None:
    data = _laid_out(alignment, stated)
    out, fixed = fixed_bytes(data, unsafe=True)
    assert header_codes(out) == set(), [*fixed.actions, *fixed.declined]
    file = open_file(out)
    assert [struct.unpack("<f", tensor.tail[:4])[0] for tensor in file.tensors.values()] == [
        0.75,
        1.25,
    ]
    assert file.metadata["general.alignment"] == 32
    held(data, unsafe=True)


@pytest.mark.parametrize(
    "kind", [ValueType.INT32, ValueType.UINT64, ValueType.INT64, ValueType.UINT16, ValueType.UINT8]
)
@pytest.mark.parametrize("alignment", [32, 64])
def test_the_type_of_the_alignment_is_safe_where_offsets_confirm_it(kind: ValueType, alignment: int) -> None:
    out, fixed = fixed_bytes(_laid_out(alignment, alignment, kind))
    assert [(action.code, action.safe) for action in fixed.actions] == [("G217", True)]
    assert out == _laid_out(alignment, alignment)


def test_an_alignment_that_offsets_contradict_is_left_alone() -> None:
    data = _laid_out(32, 64, ValueType.INT32)
    fixed = fix(data)
    assert fixed.actions == ()
    assert "no usual alignment explains" in fixed.declined[0].why


def test_tensors_of_uncertain_size_are_not_moved() -> None:
    data = bytearray(_gap(Model("llama").built()))
    file = open_file(bytes(data))
    victim = next(tensor for tensor in file.tensors.rows if tensor.type is BY_NAME["I2_S"])
    following = sorted((tensor.offset, tensor) for tensor in file.tensors.rows if tensor.offset > victim.offset)[0][1]
    at = following.info_span.stop - 8
    data[at : at + 8] = struct.pack("<Q", following.offset - 32)
    fixed = fix(bytes(data), unsafe=True)
    assert "P101" in {each.code for each in fixed.declined}


def test_zeros_behind_the_last_tensor_go_safely_and_others_do_not() -> None:
    sound = Draft().data
    assert fixed_bytes(sound + bytes(77))[0] == sound
    fixed = fix(sound + b"x" * 77)
    assert fixed.actions == ()
    assert [action.code for action in fixed.withheld] == ["G407"]


# --- numbers out of range ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "repaired"),
    [(ValueType.INT32, -1, False), (ValueType.INT64, 1 << 33, False), (ValueType.UINT64, 1, True),
     (ValueType.FLOAT32, 1.0, True), (ValueType.FLOAT32, 1.5, False), (ValueType.STRING, b"1", False),
     (ValueType.BOOL, 1, True)],
)  # fmt: skip
def test_types_are_corrected_where_the_value_fits(kind: ValueType, value: object, repaired: bool) -> None:
    data = Model("llama").set("llama.block_count", value, kind).built()
    out, fixed = fixed_bytes(data, unsafe=True, select=["M003"])
    assert bool(fixed.actions) is repaired
    assert ("M003" in header_codes(out)) is not repaired
    if repaired:
        assert open_file(out).metadata["llama.block_count"] == 1


def test_integers_become_floats_only_where_they_are_equal() -> None:
    for value, repaired in ((1 << 24, True), ((1 << 24) + 1, False), (0, True)):
        data = Model("llama").set("llama.rope.freq_base", value, ValueType.UINT32).built()
        assert bool(fix(data, unsafe=True, select=["M003"]).actions) is repaired
    items = Model("bitnet").set("tokenizer.ggml.scores", array(ValueType.INT32, [1] * 272)).built()
    assert fix(items, unsafe=True, select=["M003"]).actions


def test_arrays_of_anything_but_booleans_are_left_alone() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[7].value = array(ValueType.BOOL, [2] * 70_000)
    fixed = fix(draft.built(file))
    assert fixed.actions == ()
    assert "not an array of booleans" in fixed.declined[0].why


def with_keys(*keys: object) -> bytes:
    """The sample with more keys."""
    draft = Draft()
    file = draft.records()
    file.key_values = [*file.key_values, *keys]
    return draft.built(file)


def test_of_too_many_findings_none_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file can hold a million of them, and no model holds ten thousand."""
    assert workspace.MOST_REPAIRED == 10_000
    monkeypatch.setattr(workspace, "MOST_REPAIRED", 20)
    odd = [key_value(b"x%d" % i, ValueType.BOOL, 2) for i in range(21)]
    fixed = fix(with_keys(*odd[:20]))
    assert (len(fixed.actions), fixed.declined) == (20, ())
    fixed = fix(with_keys(*odd))
    assert fixed.actions == ()
    (declined,) = fixed.declined
    assert (declined.code, declined.why[:28]) == ("G215", "G215 has more than 20 findin")
    assert declined.at.path == f"key_values[{len(Draft().records().key_values)}].value"


def test_a_key_a_million_times_is_not_taken_out_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """One finding, and as many repairs as there are copies."""
    monkeypatch.setattr(repair_plan, "MOST_REPAIRED", 20)
    for copies, taken in ((21, 20), (22, 0)):
        fixed = fix(with_keys(*[key_value(b"x", ValueType.UINT8, 1)] * copies), unsafe=True, select=["G203"])
        assert len(fixed.actions) == taken
        assert [each.why for each in fixed.declined] == ["it takes more than 20 repairs"] * (not taken)


def test_repairs_that_change_too_many_places_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_plan, "MOST_EDITS", 20)
    odd = [key_value(b"x%d" % i, ValueType.ARRAY, array(ValueType.BOOL, [2] * 10)) for i in range(3)]
    assert len(fix(with_keys(*odd[:2])).actions) == 2
    fixed = fix(with_keys(*odd))
    assert fixed.actions == ()
    assert [each.why for each in fixed.declined] == ["it takes more than 20 changes of bytes"]


# --- writing -----------------------------------------------------------------------------------------------------


def test_the_file_itself_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(broken("bool_2"))
    (tmp_path / "link.gguf").symlink_to(path)
    for name in ("a.gguf", "link.gguf"):
        with pytest.raises(ValueError, match="another name"):
            fix(path, tmp_path / name, force=True)
    assert path.read_bytes() == broken("bool_2")
    fix(path, tmp_path / "b.gguf")
    with pytest.raises(FileExistsError):
        fix(path, tmp_path / "b.gguf")
    fix(path, tmp_path / "b.gguf", force=True)
    assert (tmp_path / "b.gguf").read_bytes() == Draft().data


def test_a_sound_file_is_copied(tmp_path: Path) -> None:
    fixed = fix(Draft().data, tmp_path / "copy.gguf")
    assert (fixed.actions, fixed.changed, fixed.written) == ((), 0, True)
    assert (tmp_path / "copy.gguf").read_bytes() == Draft().data


def test_an_unreadable_file_has_no_repaired_copy(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="G004"):
        fix(broken("html"), tmp_path / "a.gguf")
    fixed = fix(broken("trunc_infos"), tmp_path / "a.gguf", unsafe=True)
    assert not fixed.written
    assert not fixed.remaining.ok
    assert os.listdir(tmp_path) == []


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fix(broken("bool_2"), tmp_path / "a.gguf", progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_edited(plan(BufferSource(broken("bool_2")), chosen()).source, tmp_path / "a.gguf", progress=interrupt)
    assert os.listdir(tmp_path) == []


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    size = 64 << 20
    data = Model("llama").changed(BREAKINGS["M012"]).built()
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    source = FileSource(path)
    tracemalloc.start()
    made = plan(source, chosen(["M012"]))
    written = write_edited(made.source, tmp_path / "out.gguf")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    source.close()
    assert written >= len(data) + size
    assert peak < 8 << 20


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
