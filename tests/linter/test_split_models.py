"""Split models: the parts are judged as the file that they make together; each fault of a set, beside its sound twin."""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pace import units
from peers import llama_tools

from i2s_spec.cli import cli
from i2s_spec.compare.hash import hash as identity
from i2s_spec.fuzzing.bounded_process import Bounds, Command, run
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.split_set import MOST_MISSING, PartName, part_name, split_set
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.paths import lint_paths
from i2s_spec.linter.report_data import Report
from i2s_spec.schema.types import I2_S, ValueType
from i2s_spec.testing.sample import Model

Change = Callable[[Model], object]

ARCHITECTURES = ("llama", "bitnet-b1.58", "qwen3", "gemma3")

#: Changes of a model that rules on keys and inventory find, whatever part a tensor is in; the first changes nothing.
CHANGES: dict[str, Change] = {
    "none": lambda model: None,
    "a norm lost": lambda model: model.without("blk.0.ffn_norm.weight"),
    "a projection lost": lambda model: model.without("blk.0.attn_output.weight"),
    "a shape": lambda model: model.like("blk.0.ffn_down.weight", (256, 256), "I2_S"),
    "a norm as F16": lambda model: model.like("blk.0.attn_norm.weight", model.tensor("blk.0.attn_norm.weight").ne, "F16"),
    "a stray tensor": lambda model: model.like("blk.0.stray.weight", (128, 128), "F32"),
    "a type among others": lambda model: model.like(
        "blk.0.ffn_up.weight", model.tensor("blk.0.ffn_up.weight").ne, "F16"
    ),
    "no layers": lambda model: model.drop("{arch}.block_count"),
    "more layers": lambda model: model.set("{arch}.block_count", 2),
    "no heads": lambda model: model.set("{arch}.attention.head_count", 0),
    "no file type": lambda model: model.set("general.file_type", 0),
}  # fmt: skip


def written(folder: Path, files: list[bytes]) -> list[Path]:
    """The parts as files, under their names."""
    names = [folder / PartName("m", number, len(files)).of(number) for number in range(len(files))]
    for path, data in zip(names, files, strict=True):
        path.write_bytes(data)
    return names


def codes(*reports: Report) -> set[str]:
    return {finding.code for report in reports for finding in report.findings}


@st.composite
def splits(draw: st.DrawFn, tensors: int) -> list[int]:
    """How many tensors each of several parts has; parts may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, tensors), min_size=1, max_size=4)))
    return [after - before for before, after in zip([0, *cuts], [*cuts, tensors], strict=True)]


@given(data=st.data(), architecture=st.sampled_from(ARCHITECTURES), change=st.sampled_from(sorted(CHANGES)))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.requirement("R2.8-7")
def test_the_verdict_and_the_hash_are_those_of_one_file(
    data: st.DataObject, architecture: str, change: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = Model(architecture)
    try:
        CHANGES[change](model)
    except StopIteration:  # the architecture has no such tensor
        return
    sizes = data.draw(splits(len(model.tensors)))
    folder = tmp_path_factory.mktemp("set")
    parts = written(folder, model.split(*sizes, all_keys=data.draw(st.booleans())))
    whole = folder / "whole.gguf"
    whole.write_bytes(model.built())
    reports = [lint(path) for path in parts]
    assert codes(*reports) == codes(lint(whole))
    first = reports[0].split
    assert first is not None
    assert (first.part, first.of, first.complete, first.tensors) == (1, len(sizes), True, len(model.tensors))
    with open_file(whole) as one, open_file(parts[0]) as part:
        found = split_set(part)
        assert found is not None
        assert found.is_whole
        assert [tensor.name for tensor in found.tensors] == [tensor.name for tensor in one.tensors.rows]
        assert [tensor.type for tensor in found.tensors] == [tensor.kind for tensor in one.tensors.rows]
        ours, theirs = identity(found.file), identity(one)
        assert (ours.weights, ours.metadata, ours.tensors) == (theirs.weights, theirs.metadata, theirs.tensors)


# --- faults ----------------------------------------------------------------------------------------------------------


def floats() -> Model:
    """A model that stock llama.cpp loads."""
    model = Model("llama")
    for tensor in list(model.tensors):
        if tensor.number == I2_S.number:
            model.like(tensor.name.decode(), tensor.ne, "F16")
    return model.set("general.file_type", 1).drop("tokenizer.chat_template")  # about whose turns there is a note


def parts_of(*sizes: int, model: Model | None = None, all_keys: bool = False) -> list[bytes]:
    """Parts of such sizes, with the rest of the tensors in one more."""
    model = floats() if model is None else model
    return model.split(*sizes, len(model.tensors) - sum(sizes), all_keys=all_keys)


def with_number(data: bytes, key: bytes, form: str, value: int) -> bytes:
    """A part with another value of a key about splitting."""
    at = data.index(key) + len(key) + 4
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


def as_type(data: bytes, key: bytes, kind: ValueType) -> bytes:
    """A part with another type of the same width for a key about splitting."""
    at = data.index(key) + len(key)
    return data[:at] + struct.pack("<I", kind) + data[at + 4 :]


def renamed(key: str, value: bytes) -> list[bytes]:
    other = floats()
    other.set(key, value)
    return [parts_of(4, 3, all_keys=True)[0], *parts_of(4, 3, model=other, all_keys=True)[1:]]


def one(*keys: tuple[str, ValueType, int]) -> list[bytes]:
    """A whole model with some keys about splitting."""
    model = floats()
    for key in keys:
        model.add(*key)
    return [model.built()]


U16, U32, I32 = ValueType.UINT16, ValueType.UINT32, ValueType.INT32

#: Sets, the codes of the first part's report, and whether llama.cpp loads them.
SETS: dict[str, tuple[Callable[[], list[bytes]], set[str], bool]] = {
    "keys alone first": (lambda: parts_of(0, 5), set(), True),
    "tensors in the first": (lambda: parts_of(4, 5), set(), True),
    "all keys in every part": (lambda: parts_of(4, 5, all_keys=True), set(), True),
    "all keys, keys alone first": (lambda: parts_of(0, 5, all_keys=True), set(), True),
    "two parts, one empty": (lambda: parts_of(12), set(), True),
    "a tensor lost": (lambda: [*parts_of(0, 5)[:2], parts_of(0, 6)[2]], {"G233", "M101"}, False),
    "99 announced": (
        lambda: [with_number(parts_of(0, 5)[0], b"split.tensors.count", "<i", 99), *parts_of(0, 5)[1:]],
        {"G233"}, False,
    ),
    "99 in a later part": (
        lambda: [parts_of(0, 5)[0], with_number(parts_of(0, 5)[1], b"split.tensors.count", "<i", 99), parts_of(0, 5)[2]],
        set(), True,
    ),
    "a tensor twice": (lambda: [*parts_of(0, 5)[:2], parts_of(0, 4)[2]], {"G234"}, False),
    "another order": (lambda: [parts_of(0, 5)[place] for place in (0, 2, 1)], {"G231"}, False),
    "a later part first": (lambda: [parts_of(0, 5)[place] for place in (1, 0, 2)], {"G231"}, False),
    "a part without its number": (
        lambda: [parts_of(0, 5)[0], parts_of(0, 5)[1].replace(b"split.no", b"split.nr"), parts_of(0, 5)[2]],
        {"G231"}, False,
    ),
    "a number of another type": (
        lambda: [parts_of(0, 5)[0], as_type(parts_of(0, 5)[1], b"split.no", ValueType.INT16), parts_of(0, 5)[2]],
        {"G231"}, False,
    ),
    "a part that is cut off": (lambda: [*parts_of(0, 5)[:2], parts_of(0, 5)[2][:500]], {"G231"}, False),
    "a part that is no GGUF": (lambda: [*parts_of(0, 5)[:2], b"<html>" * 99], {"G231"}, False),
    "no number": (lambda: [parts_of(5)[0].replace(b"split.no", b"split.nr"), parts_of(5)[1]], {"G236"}, False),
    "no number of tensors": (
        lambda: [parts_of(5)[0].replace(b"split.tensors.count", b"split.tensors.total"), parts_of(5)[1]],
        {"G236"}, False,
    ),
    "another name": (lambda: renamed("general.name", b"another"), {"G238"}, True),
    "a count of 1": (lambda: one(("split.count", U16, 1)), set(), True),
    "a count of 1 as u32": (lambda: one(("split.count", U32, 1)), {"G232"}, False),
    "a count of 1, a number above": (lambda: one(("split.count", U16, 1), ("split.no", U16, 7)), set(), True),
    "a count of 1, a number as u32": (lambda: one(("split.count", U16, 1), ("split.no", U32, 0)), set(), True),
    "a number of tensors alone": (lambda: one(("split.tensors.count", I32, 99)), set(), True),
    "left over": (
        lambda: one(("split.no", U16, 0), ("split.count", U16, 3), ("split.tensors.count", I32, 12)), {"G237"}, False
    ),
    "left over, 99 announced": (
        lambda: one(("split.no", U16, 0), ("split.count", U16, 2), ("split.tensors.count", I32, 99)), {"G231"}, False
    ),
}  # fmt: skip


@pytest.mark.requirement("R2.8-3", "R2.8-5", "R2.8-6", "R2.8-8")
@pytest.mark.parametrize("name", SETS)
def test_the_first_part_shows_what_is_wrong_with_the_set(tmp_path: Path, name: str) -> None:
    make, wanted, _ = SETS[name]
    paths = written(tmp_path, make())
    found = lint(paths[0])
    assert codes(found) == wanted
    assert all(0 <= each.span.start <= each.span.stop <= (found.size or 0) for each in found.findings)
    assert all(each.message.isprintable() for each in found.findings)


def test_a_part_of_another_architecture_is_foreign(tmp_path: Path) -> None:
    (first, *_) = written(tmp_path, renamed("general.architecture", b"mamba"))
    assert codes(lint(first)) == {"G235"}


LOADER = """
import ctypes, json, sys
from pathlib import Path
class Parameters(ctypes.Structure):
    _fields_ = (("pointers", ctypes.c_void_p * 2), ("n_gpu_layers", ctypes.c_int32), ("rest", ctypes.c_uint8 * 512))
folder = Path(sys.argv[1])
(llama,), (ggml,) = folder.glob("libllama.v*.so"), folder.glob("libggml.v*.so")
ctypes.CDLL(str(folder / "libggml-base.so"), ctypes.RTLD_GLOBAL)
ctypes.CDLL(str(ggml), ctypes.RTLD_GLOBAL).ggml_backend_load_all_from_path(str(folder).encode())
library = ctypes.CDLL(str(llama))
library.llama_model_default_params.restype = Parameters
library.llama_model_load_from_file.restype = ctypes.c_void_p
library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Parameters]
parameters = library.llama_model_default_params()
parameters.n_gpu_layers = 0
raise SystemExit(not library.llama_model_load_from_file(sys.argv[-1].encode(), parameters))
"""


@pytest.mark.skipif(llama_tools.missing() is not None, reason=llama_tools.missing() or "")
@pytest.mark.parametrize("name", SETS)
def test_llama_cpp_loads_the_sets_without_errors(tmp_path: Path, name: str) -> None:
    make, _, loads = SETS[name]
    (first, *_) = written(tmp_path, make())
    command = Command([sys.executable, "-c", LOADER, str(llama_tools._libraries())])
    assert (run(command, first, Bounds(60, 1 << 30)).status == 0) == loads
    assert lint(first).ok == loads


# --- what is told -----------------------------------------------------------------------------------------------------


def i2s(*words: str) -> str:
    outcome = CliRunner().invoke(cli, words)
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome.output


@cache
def sound() -> list[bytes]:
    return parts_of(0, 5)


def test_a_set_has_one_line(tmp_path: Path) -> None:
    paths = written(tmp_path, sound())
    (line, sums) = i2s("lint", str(tmp_path)).splitlines()
    size = sum(len(part) for part in sound()) / 1024
    assert line == (
        f"{paths[0]}: ok: llama in 3 parts, 12 tensors (9 F16, 3 F32); {lint_rules(paths[0])} rules checked, "
        f"all {size:.1f} KiB read; the weights do not show in which order the rows of attn_q and attn_k are"
    )
    assert sums == "3 files: 3 ok, 0 not"
    assert i2s("lint", *map(str, paths)).splitlines() == [line, sums]
    assert i2s("lint", "-q", str(tmp_path)) == ""
    assert i2s("lint", "--format", "concise", str(tmp_path)).splitlines() == [f"{paths[0]}: ok", sums]


def lint_rules(path: Path) -> int:
    from i2s_spec.linter.report.text import examined

    details: dict[str, int] = lint(path, details=examined).details
    return details["rules"]


def test_a_part_alone_says_what_was_not_looked_at(tmp_path: Path) -> None:
    first, second, _ = written(tmp_path, sound())
    assert "; not checked: the contents of the other 2 parts, of which only headers were read" in i2s(
        "lint", str(first)
    )
    text = i2s("lint", str(second))
    assert "ok: part 2 of 3 of a split model, 5 tensors" in text
    assert "the set, which is checked with its first part" in text
    report = lint(second).as_dict()
    assert report["split"]["complete"] is False
    assert json.loads(json.dumps(report["split"]))["part"] == 2
    two = i2s("lint", str(first), str(second)).splitlines()
    assert [line.partition(": ok: ")[0] for line in two[:2]] == [str(first), str(second)]


def test_a_part_with_a_fault_of_its_own_is_told_with_the_set(tmp_path: Path) -> None:
    files = sound()
    broken = files[1].replace(b"blk.0.attn_norm.weight", b"blk.0.attn_norm.w\x00ight")
    paths = written(tmp_path, [files[0], broken, files[2]])
    lines = i2s("lint", str(tmp_path)).splitlines()
    assert any(line.startswith(f"{paths[1]}: 1 error: part 2 of 3 of a split model") for line in lines)
    assert any(line.startswith(f"{paths[0]}: ") and "llama in 3 parts" in line and "error" in line for line in lines)


def test_doctor_identify_and_show_name_the_part(tmp_path: Path) -> None:
    first, second, third = map(str, written(tmp_path, sound()))
    for number, path in ((1, first), (2, second)):
        told = " ".join(i2s("doctor", "-q", path).split())
        assert f"part {number} of 3 of a split model" in told
        assert "there is no model in it" not in told
        assert "none of the runtimes" not in told
        assert f"part {number} of 3 of a split model" in i2s("identify", path)
        kind = json.loads(i2s("identify", "--format", "json", path))["kind"]
        assert (kind["name"], kind["part"], kind["parts"]) == ("model", number, 3)
    shown = i2s("show", first)
    assert f"Tensors of part 3, {third} (7)" in shown
    assert re.search(r"\n  all  +12 ", shown)
    about = json.loads(i2s("show", "--json", first))["split"]
    assert (about["part"], about["of"], about["complete"], about["totals"]["tensors"]) == (1, 3, True, 12)
    assert [len(part["tensors"]) for part in about["parts"]] == [5, 7]
    assert "shown alone" in i2s("show", second)


def test_the_hash_says_of_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    first, second, _ = written(tmp_path / "set", sound())
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(floats().built())
    (weights,) = (line.split()[1] for line in i2s("hash", "-q", str(whole)).splitlines() if line.startswith("weights"))
    for given_ in (first, tmp_path / "set"):
        lines = i2s("hash", "-q", str(given_)).splitlines()
        assert [line.split()[0] for line in lines] == ["file"] * 3 + ["metadata", "weights"]
        assert lines[-1] == f"weights   {weights}  of all 3 parts"
    assert i2s("hash", "-q", str(second)).splitlines()[-1].endswith("  of part 2 of 3 alone")
    document = json.loads(i2s("hash", "-q", "--json", str(first)))
    assert (document["weights"], len(document["parts"])) == (weights, 3)


def test_fix_says_of_a_part_what_lint_says(tmp_path: Path) -> None:
    first, second, third = written(tmp_path, sound())
    for path in (first, second, third):
        assert fix(path).remaining.findings == ()
    third.unlink()
    assert codes(fix(first).remaining) == codes(lint(first)) == {"G231"}
    out = tmp_path / "elsewhere" / first.name
    out.parent.mkdir()
    assert codes(fix(second, out).remaining) == codes(lint(out)) == {"G231"}


def test_leftover_keys_are_removed(tmp_path: Path) -> None:
    model = floats()
    path, out = tmp_path / "m.gguf", tmp_path / "f.gguf"
    path.write_bytes(model.split(len(model.tensors), 0, 0)[0])
    assert codes(lint(path)) == {"G237"}
    fixed = fix(path, out, unsafe=True)
    assert [action.code for action in fixed.actions] == ["G237"]
    assert lint(out).findings == ()
    assert out.read_bytes() == model.built()


def test_repairs_do_not_touch_what_is_in_other_parts(tmp_path: Path) -> None:
    """A finding about a tensor of another part must not be repaired in a tensor of this one."""
    model = floats().like("blk.0.stray.weight", (128, 128), "F32")
    for tensor in list(model.tensors):
        if tensor.number == 1 and tensor.name.startswith(b"blk."):
            model.like(tensor.name.decode(), tensor.ne, "Q2_0")
    first, *_ = written(tmp_path, parts_of(4, 3, model=model.set("general.file_type", 41)))
    assert "M102" in codes(lint(first))
    fixed = fix(first, unsafe=True)
    assert fixed.actions == ()
    assert "M102" in codes(fixed.remaining)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("m-00002-of-00003.gguf", PartName("m", 1, 3)),
        ("a/b-00001-of-00002-00002-of-00002.gguf", PartName("a/b-00001-of-00002", 1, 2)),
        ("hf://org/repo/m-00001-of-00002.gguf", PartName("hf://org/repo/m", 0, 2)),
        ("m-00000-of-00003.gguf", None),
        ("m-1-of-3.gguf", None),
        ("m-00001-of-00003.gguf.part", None),
        ("m-00001-of-00003.gguf\n", None),
        ("m-٠٠٠٠١-of-00003.gguf", None),
    ],
)  # fmt: skip
@pytest.mark.requirement("R2.8-4")
def test_names_of_parts(name: str, wanted: PartName | None) -> None:
    found = part_name(name)
    assert found == wanted
    assert found is None or found.of(found.number) == name


def test_a_huge_count_costs_nothing(tmp_path: Path) -> None:
    data = with_number(parts_of(5)[0], b"split.count", "<H", 65_535)
    path = tmp_path / "m-00001-of-65535.gguf"
    path.write_bytes(data)
    (finding,) = lint(path).findings
    assert f"at least {MOST_MISSING:,} of the other parts are not in its folder" in finding.message
    assert units(lambda: lint(path)) < 50


def test_what_is_no_regular_file_is_no_part(tmp_path: Path) -> None:
    first, second, third = written(tmp_path, sound())
    os.rename(second, tmp_path / "store")
    os.symlink(tmp_path / "store", second)  # as in the cache of the hub
    assert lint(first).findings == ()
    third.unlink()
    os.mkfifo(third)
    (finding,) = lint(first).findings
    assert "1 of the other parts is not in its folder" in finding.message
    third.unlink()
    os.symlink(third, third)
    assert codes(lint(first)) == {"G231"}


def test_names_in_the_file_are_never_looked_up(tmp_path: Path) -> None:
    paths = written(tmp_path, sound())
    first = tmp_path / "renamed.gguf"
    paths[0].rename(first)
    (finding,) = lint(first).findings
    assert finding.code == "G231"
    assert codes(lint(first.read_bytes())) == {"G231"}
    assert codes(lint(first.read_bytes(), place=paths[0])) == set()


def test_parts_have_too_many_tensors_together(tmp_path: Path) -> None:
    first, *_ = written(tmp_path, sound())
    (finding, *_) = [each for each in lint(first, limits={"usual-tensors": 8}).findings if each.code == "G231"]
    assert "too many to compare" in finding.message


def test_a_fault_of_the_first_part_is_reported_alone(tmp_path: Path) -> None:
    """Its tensors are not known, so they are not counted."""
    files = parts_of(4, 5)
    files[0] = files[0][: files[0].index(b"token_embd.weight")]
    first, *_ = written(tmp_path, files)
    assert codes(lint(first)) == codes(lint(files[0])) - {"G231"} != set()


def test_reports_of_a_pool_are_those_of_one_process(tmp_path: Path) -> None:
    paths = written(tmp_path, sound())
    one_, several = (list(lint_paths([str(tmp_path)], jobs=jobs)) for jobs in (1, 2))
    assert one_ == several
    assert [path for path, _ in one_] == [str(path) for path in paths]
    assert [report["split"]["complete"] for _, report in one_] == [True, False, False]


def test_a_count_of_another_type_is_refused_by_runtimes(tmp_path: Path) -> None:
    for kind, loads in ((U32, "no"), (U16, "yes")):
        (path,) = written(tmp_path, one(("split.count", kind, 1)))
        verdicts = {verdict.runtime: verdict for verdict in lint(path, runtimes=True).runtimes}
        assert verdicts["llama.cpp"].loads == loads
