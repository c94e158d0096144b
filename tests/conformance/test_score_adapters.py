"""The adapters: short; those written from the text decode correctly, the others give the recorded results."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from mutants import wrong_groups, wrong_payloads
from mutants.answers import NotAskedError, asked, passes
from peers.decoders import row, rows, run_on
from peers.implementations import ADAPTERS, MissingError, implementations

from i2s_spec.conformance.explanations import explained
from i2s_spec.conformance.protocol import CaseFolder, read_cases
from i2s_spec.conformance.runner import ProtocolAsker, run_cases
from i2s_spec.conformance.score import Status, difference, expected_bytes
from i2s_spec.conformance.vectors import suite as vectors
from i2s_spec.conformance.vectors.all_vectors import write_suite
from i2s_spec.fuzzing.bounded_process import Bounds

BOUNDS = Bounds(seconds=30, memory=2 << 30)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseFolder]:
    folder = tmp_path_factory.mktemp("vectors") / "suite"
    write_suite(folder)
    yield read_cases(folder, check=False)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", sorted(path.name for path in ADAPTERS.iterdir() if path.is_file()))
def test_adapters_are_short(name: str) -> None:
    assert len((ADAPTERS / name).read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize("name", [each.name for each in implementations() if not each.third_party])
def test_adapters_from_the_text_pass(name: str, suite: CaseFolder, tmp_path: Path) -> None:
    each = next(each for each in implementations() if each.name == name)
    try:
        command = each.command(tmp_path)
    except MissingError as reason:
        pytest.skip(str(reason))
    run = run_cases(
        ProtocolAsker(command, BOUNDS), suite.chosen(["decode", "dequant", "activation", "bitlinear"]), suite.version
    )
    assert [(result.id, result.text) for result in run.results if result.status is Status.FAIL] == []
    assert run.counts["pass"] >= 30
    assert run.phases[0] == run.phases[1] >= 3


def test_the_adapter_of_the_tutorial(suite: CaseFolder) -> None:
    """It is short, and passes as it stands."""
    file = Path(__file__).parents[2] / "spec/tutorials/decoder_adapter.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 60
    run = run_cases(ProtocolAsker([sys.executable, str(file)], BOUNDS), suite.cases, suite.version)
    assert [(result.id, result.text) for result in run.results if result.status is Status.FAIL] == []
    assert run.counts["pass"] >= 30
    assert run.phases[0] == run.phases[1] >= 9
    with (file.parent / "decoder.md").open(encoding="utf-8") as text:
        assert "decoder_adapter.py" in text.read()


@pytest.mark.parametrize("program", ["refuses", "accepts"])
def test_a_program_that_looks_at_nothing_passes_nothing(program: str, suite: CaseFolder) -> None:
    """Neither by refusing everything, nor by accepting everything."""
    answer = {"refuses": '{"seq": m["seq"], "rejected": True}', "accepts": '{"seq": m["seq"], "verdict": "valid"}'}
    lines = (
        "import json, sys",
        "for m in map(json.loads, sys.stdin):",
        '    start = {"version": 1, "implementation": {"name": "none"}, "ops": ["container", "verdict"]}',
        f'    run = {answer[program]} if m["cmd"] == "run" else start',
        "    print(json.dumps(run), flush=True)",
    )
    cases = [case for case in suite.chosen(["container", "verdict"]) if case.verdict != "survive"]
    run = run_cases(ProtocolAsker([sys.executable, "-c", "\n".join(lines)], BOUNDS), cases, suite.version)
    passed = {case.id: case for case in cases if any(r.id == case.id and r.status is Status.PASS for r in run.results)}
    assert {case.verdict for case in passed.values()} <= ({"valid"} if program == "accepts" else set())
    assert not run.ok
    valid = sum(case.verdict == "valid" for case in cases if case.op == "verdict")
    assert len(passed) == (valid if program == "accepts" else 0)
    assert valid >= 40


@pytest.mark.thorough
@pytest.mark.parametrize("name", [each.name for each in implementations() if each.third_party])
def test_adapters_of_other_programs(name: str, suite: CaseFolder, tmp_path: Path) -> None:
    """They run, and give the recorded row, as long as it is of this version of theirs and of the suite."""
    each = next(each for each in implementations() if each.name == name)
    try:
        command = each.command(tmp_path)
    except MissingError as reason:
        pytest.skip(str(reason))
    (recorded,) = (each for each in rows() if each["id"] == name)
    if recorded["suite_version"] != suite.version:
        pytest.skip("the record is of another version of the suite")
    run = run_on(command, suite)
    if run.implementation.version != recorded["version"]:
        pytest.skip("another version than the recorded one is installed")
    assert {**row(name, run), "date": recorded["date"]} == recorded


@pytest.mark.parametrize(
    ("words", "status"), [(["list", "gguf"], 0), (["install", "nothing"], 2), (["vectors", "modelaudit"], 2)]
)
def test_the_command_lists_and_installs_without_packages(words: list[str], status: int) -> None:
    """CI installs programs while the package is still being built."""
    command = [sys.executable, "-S", str(ADAPTERS.parent), *words]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def test_every_implementation_has_a_row() -> None:
    assert {each.name for each in implementations()} <= {each["id"] for each in rows()}


def test_any_answer_can_be_compared_and_explained(suite: CaseFolder) -> None:
    """Neither comparing nor explaining fails, whatever an adapter answers."""
    rng = np.random.default_rng(1)
    asked = [case for case in suite.cases[::5] if case.answer is not None and case.op != "container"]
    assert len(asked) > 30
    for case in asked:
        want = expected_bytes(case) or b""
        for got in (bytes(len(want)), rng.bytes(len(want)), want[:-1], b"", bytes([want[0] ^ 1]) + want[1:]):
            assert difference(case, want, got) or case.method != "exact" or got == want
            assert isinstance(explained(case, want, got), str)
        assert (difference(case, want, want), explained(case, want, want)) == ("", "")


def test_a_wrong_scale_is_explained_for_the_smallest_tensors(suite: CaseFolder) -> None:
    for case in suite.chosen(["dequant"]):
        if case.answer is not None:
            want = np.frombuffer(expected_bytes(case) or b"", "<f4")
            with np.errstate(all="ignore"):
                got = np.sign(want) * np.float32(0.1)
            assert isinstance(explained(case, want.tobytes(), got.tobytes()), str)


#: Wrong decoders, and how an answer of each is explained.
NAMED = {
    "scale-ignored": "the scale was not applied", "scale-reciprocal": "the reciprocal of the scale was applied",
    "scale-twice": "the scale was applied twice", "scale-half": "rounded to F16", "scale-bfloat16": "bfloat16",
    "scale-first-row": "to the first row alone", "scale-in-blocks": "blocks of 34 bytes", "absolute": "lost its sign",
    "codes-four-values": "-2, -1, +1 and +2", "codes-as-they-are": "1 was not subtracted", "transposed": "is transposed",
    "codes-zero-first": "the code map zero-first", "sequential": "the layout sequential-msb",
    "digits-not-cut": "was not cut to a byte",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_wrong_decoders_are_named(name: str, suite: CaseFolder) -> None:
    """Most of their answers, and never as a layout where the scale is wrong."""
    decoder = next(each.decoder() for each in (*wrong_payloads.MUTANTS, *wrong_groups.MUTANTS) if each.name == name)
    cases = {case.id: case for case in suite.cases}
    found = []
    for vector in vectors():
        if vector.op in ("decode", "dequant") and vector.verdict == "valid" and "iq" not in vector.args["type"]:
            with suppress(NotAskedError):
                answer = asked(decoder, vector)
                if not answer.refused and not passes(vector, answer):
                    found.append(explained(cases[vector.id], vector.expected(), answer.data))
    assert sum(NAMED[name] in each for each in found) * 2 > len(found) > 0
    if name.startswith("scale-"):
        assert not [each for each in found if "layout" in each]


def test_a_wrong_scale_is_no_layout(suite: CaseFolder) -> None:
    """Of weights that are -0.8 and 0 only, another layout gives the same trits."""
    (case,) = suite.chosen(["I2S-0003"])
    want = np.frombuffer(expected_bytes(case) or b"", "<f4")
    for factor in (1.25, 0.5, 1.5, 3):
        assert "the trits are right" in explained(case, want.tobytes(), (want * np.float32(factor)).tobytes())


def test_records_hold_no_paths_and_no_escapes() -> None:
    text = json.dumps(rows())
    for word in ("/root", "/tmp", "/home", "/work", "\\u001b"):
        assert word not in text


def test_the_generated_header_is_a_decoder(suite: CaseFolder, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    i2s = [sys.executable, "-m", "i2s_spec"]
    subprocess.run([*i2s, "schema", "--format", "c", "-o", str(tmp_path / "i2s.h")], check=True, capture_output=True)
    library = tmp_path / "libheader.so"
    words = [
        compiler,
        "-O2",
        "-shared",
        "-fPIC",
        f"-I{tmp_path}",
        "-o",
        str(library),
        str(ADAPTERS / "from_the_header.c"),
    ]
    subprocess.run(words, check=True)
    for symbol, answer, count in (("decode", "i8*", 16), ("dequantize", "f32*", 14)):
        run = [*i2s, "conform", "run", "--vectors", str(suite.folder), "--ctypes", f"{library}:{symbol}"]
        done = subprocess.run(
            [*run, "--signature", f"int(u8*,{answer},u64,u64)", "--skip", "container", "--skip", "verdict"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert f"{count} of {count} vectors passed" in done.stdout


def test_a_function_that_crashes_and_one_that_writes_too_much(suite: CaseFolder, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "bad.c", tmp_path / "libbad.so"
    source.write_text(
        "#include <string.h>\nvoid crash(unsigned char *a, signed char *b, long n) { *(volatile int *)8 = 1; }\n"
        "void over(unsigned char *a, signed char *b, long n) { memset(b, 0, n + 1); }\n"
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    for symbol, sentence in (("crash", "the adapter was ended by SIGSEGV instead of an answer"),
                             ("over", "the function wrote beyond the end of the answer")):  # fmt: skip
        words = ["--ctypes", f"{library}:{symbol}", "--signature", "void(u8*,i8*,i64)", "--only", "I2S-000*"]
        done = subprocess.run(
            [sys.executable, "-m", "i2s_spec", "conform", "run", "--vectors", str(suite.folder), *words],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, sentence in done.stdout) == (1, True), done.stdout
