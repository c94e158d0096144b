"""The verdicts are what the recorded runs showed: for each run on its file, and "correctly" for no other file."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from peers.damage import KINDS, Content
from peers.features import CHANGES
from peers.judge import judge, missing
from peers.small_files import SMALL_FILES, make
from test_runtimes import verdicts_of

from i2s_spec.checkup import doctor
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.runtimes.conversions import conversions
from i2s_spec.linter.runtimes.records import RunRecord, records
from i2s_spec.linter.runtimes.verdicts import Verdict, VerdictByName, canonical_verdicts
from i2s_spec.schema.runtimes import RUNTIMES

#: What verdicts say of a file on which a run had such a result.
SAID = {
    "right": {
        ("yes", "correctly"),
        ("yes", "expected"),
        ("yes", "depends on the machine"),
        ("with option", "correctly"),
        ("with option", "expected"),
    },
    "wrong": {("yes", "wrongly"), ("with option", "wrongly")},
    "ran": {("yes", "not compared"), ("yes", "correctly"), ("yes", "expected"), ("yes", "wrongly")},
    "no": {("no", "-"), ("crash", "-")},
}

#: A type that a program takes after a conversion of its own: what it does with the file as it is, the reason says.
CONVERTED = {("ik_llama.cpp", "I2_S")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, dict[str, Verdict]]:
    """The verdicts on the files that were run and can be made here."""
    found = {}
    for name, file in SMALL_FILES.items():
        if missing() is None or not any(command.startswith("peers quantise") for command in file.commands):
            found[name] = verdicts_of(make(folder, file))
    return found


def conflicting(run: RunRecord, program: tuple[str, ...]) -> bool:
    """Whether runs of one program on files of one form had different results."""
    same = {
        each.result for each in records().values() if each.program in program and each.file.form == run.file.form
    } - {""}  # fmt: skip
    return len(same) > 1


def test_verdicts_on_the_files_that_were_run_are_what_the_runs_showed(made: dict[str, dict[str, Verdict]]) -> None:
    wrong, checked = [], 0
    for runtime in RUNTIMES:
        if runtime.kind == "reader":
            continue
        for run in records().values():
            if run.program not in runtime.programs or run.file.name not in made or not run.result:
                continue
            verdict = made[run.file.name][runtime.name]
            said = (verdict.loads, verdict.computes)
            if conflicting(run, runtime.programs):
                assert "not tried: files of this form differ" in " ".join(reason.text for reason in verdict.reasons)
                continue
            checked += 1
            if said not in SAID[run.result] and (runtime.name, *run.file.form.matrices) not in CONVERTED:
                wrong.append((run.id, run.result, said, verdict.reasons[0].text[:80]))
    assert not wrong
    assert checked > 400


def test_correctly_is_said_of_forms_that_were_run_alone(made: dict[str, dict[str, Verdict]]) -> None:
    """Each verdict "correctly" cites a run of a file of the same form."""
    for name, found in made.items():
        form = next(run.file.form for run in records().values() if run.file.name == name)
        for verdict in found.values():
            if verdict.computes == "correctly":
                cited = [each for each in verdict.reasons if each.effect == "right"]
                assert cited, (name, verdict.runtime)
                for reason in cited:
                    run = records()[reason.source.removeprefix("run ")]
                    assert run.file.form in (form, form.with_matrices("I2_S", "IQ2_BN")), (name, verdict.runtime)


@pytest.mark.parametrize("kind", ["Q2_0", "TQ2_0", "F16"])
@pytest.mark.parametrize("architecture", ["qwen3-lm", "llama"])
def test_rotated_files_are_computed_wrongly(folder: Path, architecture: str, kind: str) -> None:
    found = verdicts_of(make(folder, SMALL_FILES[f"{architecture}.{kind.lower()}.rotated"]))
    assert found["llama.cpp"].computes == "wrongly"
    rows = {name for name, verdict in found.items() if verdict.computes in ("correctly", "expected")}
    assert rows <= {"ferrox"}, "it computed other rotated files"


def test_a_rotated_model_with_a_program_for_it(folder: Path) -> None:
    found = verdicts_of(make(folder, SMALL_FILES["llama.ptq1_0.rotated"]))
    assert {name for name, verdict in found.items() if verdict.computes == "correctly"} == {"ferrox"}


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0", "Q2_0"])
def test_ollama_refuses_ternary_types_since_0_31_2(folder: Path, kind: str) -> None:
    found = verdicts_of(make(folder, SMALL_FILES[f"llama.{kind.lower()}.wide"]))
    assert found["llama.cpp"].computes == "correctly"
    assert found["ollama"].loads == "no"
    assert "size overflow" in found["ollama"].reasons[0].text
    for name in ("ollama-0.29", "ollama-0.30", "lm-studio"):
        assert (found[name].loads, found[name].computes) == ("not tried", "not tried")


def test_the_device_decides(folder: Path) -> None:
    for kind, cuda in (("tq2_0", "on the CPU, although offloaded"), ("q2_0", "computes"), ("i2_s", "refuses")):
        verdict = verdicts_of(make(folder, SMALL_FILES[f"llama.{kind}.wide"]))["llama.cpp"]
        assert dict(verdict.devices)["CUDA"] == cuda
    tied = verdicts_of(make(folder, SMALL_FILES["bitnet.q2_0.wide"]))["llama.cpp"]
    assert "-ot token_embd=CUDA0" in " ".join(reason.text for reason in tied.reasons)


@pytest.mark.parametrize("change", ["mxfp4", "nvfp4"])
def test_blocks_of_four_bits(folder: Path, change: str) -> None:
    """Sound ones were run; a scale that is not a number, or a change of the graph, was not."""
    sound = make(folder, SMALL_FILES[f"llama.f16.{change}"])
    assert verdicts_of(sound)["llama.cpp"].computes == "correctly"
    broken = folder / f"{change}.broken.gguf"
    content = Content.read(sound)
    name = "blk.0.ffn_up.weight"
    data = bytearray(content.tensors[name].data)
    data[0] = 255
    if change == "mxfp4":
        content.with_tensor(name, content.tensors[name]._replace(data=bytes(data))).write(broken)
        assert verdicts_of(broken, mode="full")["llama.cpp"].computes == "wrongly"
        return
    CHANGES["rope-factors"](content).write(broken)
    assert verdicts_of(broken)["llama.cpp"].computes == "expected"


def test_features_that_were_run_alone_are_expected_together(folder: Path) -> None:
    content = Content.read(make(folder, SMALL_FILES["llama.tq2_0.wide"]))
    both = folder / "both.gguf"
    CHANGES["rope-linear"](CHANGES["bias"](content)).write(both)
    verdict = verdicts_of(both)["llama.cpp"]
    assert (verdict.loads, verdict.computes) == ("yes", "expected")
    assert "expected, not run" in verdict.reasons[0].text
    assert verdicts_of(both)["transformers"].computes == "wrongly", "it leaves biases of llama out"
    assert verdicts_of(both)["de.kherud"].computes == "not tried"


def test_rows_below_512_in_the_types_of_ik_llama_cpp() -> None:
    for kind in ("IQ1_BN", "IQ2_BN"):
        assert verdicts_of(model_bytes("llama", type=kind, embd=256, ff=512))["ik_llama.cpp"].loads == "crash"
        assert verdicts_of(model_bytes("llama", type=kind, embd=512, ff=1024))["ik_llama.cpp"].computes in (
            "correctly",
            "expected",
        )


def test_a_table_of_another_type_in_0xbitnet(folder: Path) -> None:
    found = verdicts_of(make(folder, SMALL_FILES["llama.i2_s.default.table-f32"]))["0xBitNet"]
    assert (found.loads, found.computes) == ("yes", "wrongly")
    assert verdicts_of(make(folder, SMALL_FILES["llama.i2_s.default"]))["0xBitNet"].computes == "correctly"


def test_no_row_says_yes_below_an_error(folder: Path) -> None:
    """A cut file, and a key of another type: engines that were run read both."""
    sound = make(folder, SMALL_FILES["llama.f16.wide"])
    cut = folder / "cut.gguf"
    cut.write_bytes(sound.read_bytes()[:-100])
    for report in (lint(cut, runtimes=True), doctor(cut).report):
        assert not report.ok
    for verdicts in (lint(cut, runtimes=True).runtimes, doctor(cut).verdicts):
        readers = {runtime.name for runtime in RUNTIMES if runtime.kind == "reader"}
        assert not [each.runtime for each in verdicts if each.loads == "yes" and each.runtime not in readers]
        assert not [each.runtime for each in verdicts if each.computes in ("correctly", "expected")]
    assert [each.runtime for each in doctor(sound).verdicts if each.computes == "correctly"]


@pytest.mark.parametrize(
    "name",
    [
        "gemma3-lm.q4_k_m.wide", "llama.q8_0.wide", "qwen3-lm.q8_0.wide", "qwen3-lm.q2_0.wide", "bitnet-b1.58.i2_s.wide",
        "llama.i2_s.wide", "llama.tq2_0.wide", "bitnet.tq2_0.wide", "bitnet.q2_0.wide",
    ],
)  # fmt: skip
def test_everyday_files_have_a_definite_row_for_llama_cpp(made: dict[str, dict[str, Verdict]], name: str) -> None:
    if name not in made:
        pytest.skip(missing() or "")
    verdict = made[name]["llama.cpp"]
    assert verdict.loads in ("yes", "no")
    assert verdict.computes != "not tried"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["llama.f16.wide", "qwen3-lm.f16.wide", "bitnet.f16.wide", "gemma3-lm.f16.wide"])
def test_no_row_says_yes_of_what_llama_cpp_refuses(folder: Path, name: str) -> None:
    """Damage of every kind: below an error of ours, its row says yes of no file. What ends the process is counted."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    content, copies = Content.read(make(folder, SMALL_FILES[name])), []
    place = folder / f"damaged-{name}"
    place.mkdir()
    for kind, change in KINDS.items():
        for where, copy in islice(change(content), 2):
            copies.append(place / f"{len(copies)}-{kind}.gguf")
            copy.write(copies[-1])
            assert where
    outcomes, said = Counter(), []
    for path, verdict in zip(copies, judge(copies), strict=True):
        report = lint(path, runtimes=True)
        (row,) = [each for each in report.runtimes if each.runtime == "llama.cpp"]
        outcomes[verdict.word] += 1
        if not report.ok:
            assert row.loads != "yes" or any(each.span for each in row.reasons), path.name
            assert row.computes not in ("correctly", "expected"), path.name
        if verdict.bad and row.loads == "yes" and row.computes in ("correctly", "expected"):
            said.append((path.name, verdict.word, [each.code for each in report.findings]))
    assert said == []
    assert outcomes["refuse"] > 20


def test_doctor_names_the_conversion_that_helps(folder: Path) -> None:
    """Of a llama file with I2_S; none helps 2B-4T, whose activation llama.cpp does not compute."""
    found = {name: doctor(make(folder, SMALL_FILES[name])) for name in ("llama.i2_s.wide", "bitnet-b1.58.i2_s.wide")}
    steps = {each.command.partition("--to ")[2]: each.why for each in found["llama.i2_s.wide"].steps}
    assert "llama.cpp (ggml-org) computes the copy correctly on the CPU" in steps["TQ2_0"]
    assert "llama.cpp (ggml-org) computes the copy correctly on the GPU with CUDA" in steps["Q2_0"]
    assert "candle" in steps["F16"]
    other = found["bitnet-b1.58.i2_s.wide"]
    assert not [each for each in other.steps if "llama.cpp (ggml-org)" in each.why]
    assert other.remarks[0].startswith("no conversion makes llama.cpp compute it correctly: it applies SiLU")


@pytest.mark.parametrize("name", ["llama.i2_s.wide", "bitnet-b1.58.i2_s.wide", "qwen3-lm.i2_s.wide"])
def test_a_verdict_does_not_depend_on_the_ones_asked_for_before(folder: Path, name: str) -> None:
    """Front ends take the verdict of their engine, whichever is asked for first."""
    with open_file(make(folder, SMALL_FILES[name])) as file:
        every = canonical_verdicts(LintContext(file))
        backwards = VerdictByName(LintContext(file))
        assert tuple(backwards[each.runtime] for each in reversed(every)) == every[::-1]
        assert all(VerdictByName(LintContext(file))[each.runtime] == each for each in every)


@pytest.mark.parametrize(
    "options",
    [{}, {"ignore": ["I201"]}, {"ignore": ["I"]}, {"select": ["G"]}, {"severity": {"I": "note"}}, {"profile": "strict"},
     {"profile": "spec"}, {"profile": "security", "payload": "full"}, {"suppressed": {"I201": "known"}}],
    ids=str,
)  # fmt: skip
def test_what_a_run_lists_does_not_change_what_programs_do(folder: Path, options: dict[str, Any]) -> None:
    """Rules that are left out, milder or suppressed count for the verdicts all the same; stricter ones do not."""
    sound = make(folder, SMALL_FILES["bitnet-b1.58.i2_s.wide"])
    data = bytearray(sound.read_bytes())
    with open_file(sound) as file:
        tensor = next(each for each in file.tensors.values() if each.kind == "I2_S")
        data[tensor.span.start : tensor.span.start + 64] = b"\xff" * 64
    (bad := folder / "code-3.gguf").write_bytes(data)
    good = [each for each in lint(sound, runtimes=True).runtimes if each.computes == "correctly"]
    assert good
    rows = {each.runtime: each for each in lint(bad, runtimes=True, **options).runtimes}
    assert all(each.computes not in ("correctly", "expected") for each in rows.values())
    assert any("I201" in rows[each.runtime].reasons[0].text for each in good)
    assert lint(sound, runtimes=True, **options).runtimes == lint(sound, runtimes=True).runtimes


@pytest.mark.parametrize("options", [{"payload": "none"}, {"profile": "security"}], ids=str)
def test_none_computes_weights_correctly_that_were_not_read(folder: Path, options: dict[str, Any]) -> None:
    path = make(folder, SMALL_FILES["bitnet-b1.58.i2_s.wide"])
    full, header = (lint(path, runtimes=True, **each).runtimes for each in ({}, options))
    good = {each.runtime for each in full if each.computes == "correctly"}
    assert good
    assert not [each for each in header if each.computes == "correctly"]
    for row in header:
        if row.runtime in good:
            assert row.computes == "expected"
            assert any(each.text.endswith("; the weights were not read") for each in row.reasons)


#: Files of each kind that a conversion helps.
UNCONVERTED = ("llama.i2_s.wide", "bitnet.i2_s.wide", "bitnet-b1.58.i2_s.wide", "llama.q2_0.wide", "llama.iq2_bn.wide",
               "trained.llama.i2_s", "llama.i2_s", "qwen3-lm.i2_s.wide")  # fmt: skip


@pytest.mark.parametrize("name", UNCONVERTED)
def test_advice_is_the_verdict_on_the_converted_file(folder: Path, name: str) -> None:
    """What is said of a copy that was not made is what the verdicts say of it once it is made."""
    path = make(folder, SMALL_FILES[name])
    with open_file(path) as file:
        found = conversions(file, canonical_verdicts(LintContext(file)))
        for each in found:
            copy = folder / f"{name}.{each.type}.gguf"
            convert_file(file, copy, to=each.type, force=True)
            made = {verdict.runtime: verdict for verdict in verdicts_of(copy).values()}
            for program in each.programs:
                if program.result in ("correctly", "expected"):
                    good = [v for v in made.values() if v.loads == "yes" and v.computes == program.result]
                    assert [v for v in good if program.title in (v.title, v.title.partition(", ")[0].partition(":")[0])]
    if name in ("llama.i2_s.wide", "bitnet.i2_s.wide", "qwen3-lm.i2_s.wide"):
        assert {"TQ2_0", "Q2_0"} <= {each.type for each in found}
