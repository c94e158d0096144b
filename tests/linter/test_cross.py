"""Installed readers on the same files: our results agree with their behavior, and each difference has a code.

A file that two readers interpret differently can show one thing to a scanner and another to a runtime. The files are
valid ones of reference tools and other projects, every broken copy of `testing.malformed`, and these copies with I8
instead of I2_S, so that a reader that does not know type 36 gets further.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from malformed_cases import CASES
from peers.programs import PROGRAM

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, source_of
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.runtimes.verdicts import Verdict, verdicts
from i2s_spec.schema.runtimes import RUNTIME

#: Processor seconds after which a reader counts as hanging; a vocabulary of 50,000 tokens takes gguf-py a few.
PATIENCE = 20

GGUF_PY = """
import json, signal, sys, warnings
warnings.simplefilter("ignore")
from gguf import GGUFReader

def late(*_):
    raise TimeoutError

signal.signal(signal.SIGPROF, late)
for name in json.load(sys.stdin):
    signal.setitimer(signal.ITIMER_PROF, int(sys.argv[1]))
    try:
        GGUFReader(name)
        said = ["yes", ""]
    except TimeoutError:
        said = ["crash", "never returns"]
    except Exception as error:
        said = ["no", f"{type(error).__name__}: {error}"[:200]]
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps([name, *said]), flush=True)
"""

HUGGINGFACE = """
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const require = createRequire(process.argv[2] + "/package.json");
const { gguf } = require("@huggingface/gguf");
for (const name of JSON.parse(readFileSync(0, "utf8"))) {
  let said;
  try {
    await gguf(name, { allowLocalFile: true });
    said = ["yes", ""];
  } catch (error) {
    said = ["no", String(error).slice(0, 200)];
  }
  console.log(JSON.stringify([name, ...said]));
}
"""


def without_i2s(data: bytes) -> bytes | None:
    """A copy with I8 where I2_S was, and room after it; None for a header that our reader does not get through."""
    with File(BufferSource(data)) as file:
        if file.fault is not None:
            return None
        mark = "little" if file.byte_order == "little" else "big"
        copy = bytearray(data)
        for tensor in file.tensors.rows:
            if tensor.number == 36:
                at = tensor.info_span.stop - 12
                copy[at : at + 4] = (24).to_bytes(4, mark)  # type: ignore[arg-type]
        return bytes(copy) + bytes(4096) if copy != data else None


def copies() -> Iterator[tuple[str, bytes]]:
    """Without the large ones, which are about amounts: readers that go through them one by one take minutes."""
    for case in CASES.values():
        if not case.large:
            yield f"{case.code}-{case.name}.gguf", case.data
            disarmed = without_i2s(case.data)
            if disarmed is not None:
                yield f"{case.code}-{case.name}-i8.gguf", disarmed


@pytest.fixture(scope="module")
def files(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("copies")
    found = sorted([*shared.glob("vectors/gguf/*.gguf"), *shared.glob("real/*.gguf")])
    for name, data in copies():
        path = folder / name
        path.write_bytes(data)
        found.append(path)
    return found


@pytest.fixture(scope="module")
def gguf_py(files: list[Path]) -> dict[str, tuple[str, str]]:
    pytest.importorskip("gguf", reason="pip install -e '.[gguf]'")
    from importlib.metadata import version

    if version("gguf") != "0.19.0":
        pytest.skip(f"gguf {version('gguf')} is installed; what is declared is about 0.19.0")
    command = [sys.executable, "-c", GGUF_PY, str(PATIENCE)]
    return _answers(command, files)


@pytest.fixture(scope="module")
def huggingface(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    program = PROGRAM["@huggingface/gguf"]
    if (reason := program.missing()) is not None:
        pytest.skip(reason)
    if program.version != "0.4.6":
        pytest.skip(f"@huggingface/gguf {program.version} is installed; what is declared is about 0.4.6")
    script = tmp_path_factory.mktemp("node") / "read.mjs"
    script.write_text(HUGGINGFACE, encoding="utf-8")
    return _answers(["node", str(script), str(program.folder)], files)


def _answers(command: list[str], files: list[Path]) -> dict[str, tuple[str, str]]:
    names = json.dumps([str(path) for path in files])
    run = subprocess.run(command, input=names, capture_output=True, encoding="utf-8", check=False, timeout=2400)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(files), run.stderr[-2000:]
    return {name: (loads, why) for name, loads, why in answers}


def verdict(path: Path, runtime: str) -> Verdict:
    with File(source_of(path)) as file:
        return next(each for each in verdicts(LintContext(file, str(path))) if each.runtime == runtime)


#: Files on which a verdict is known to be wrong: U+FFFD in the counts of a header is a small number to this reader, which
#: accepts the file; the verdict is that of the fault, with which no reader is expected to get anywhere.
WRONG = {("huggingface-gguf", "G009-text_decoded.gguf")}


def disagreements(files: list[Path], answers: dict[str, tuple[str, str]], runtime: str) -> list[str]:
    wrong = []
    for path in files:
        loads, why = answers[str(path)]
        ours = verdict(path, runtime)
        if ours.loads != loads and (runtime, path.name) not in WRONG:
            reasons = "; ".join(reason.text for reason in ours.reasons)
            wrong.append(f"{path.name}: it says {loads} ({why}), we say {ours.loads} ({reasons})")
    return wrong


@pytest.mark.thorough
def test_verdicts_are_what_gguf_py_does(files: list[Path], gguf_py: dict[str, tuple[str, str]]) -> None:
    assert disagreements(files, gguf_py, "gguf-py") == []


def test_verdicts_are_what_huggingface_does(files: list[Path], huggingface: dict[str, tuple[str, str]]) -> None:
    assert disagreements(files, huggingface, "huggingface-gguf") == []


@pytest.mark.thorough
def test_a_code_explains_where_readers_differ(
    files: list[Path], gguf_py: dict[str, tuple[str, str]], huggingface: dict[str, tuple[str, str]]
) -> None:
    differ = [path for path in files if (gguf_py[str(path)][0] == "yes") != (huggingface[str(path)][0] == "yes")]
    assert len(differ) > 60
    unexplained = []
    for path in differ:
        refuses = "gguf-py" if gguf_py[str(path)][0] != "yes" else "huggingface-gguf"
        report = lint(path, payload="none", runtimes=True)
        title = RUNTIME[refuses].title
        told = any(f.code == "P201" and str(f.details["runtime"]) == title for f in report.findings)
        ours = {finding.code for finding in report.findings if not finding.code.startswith("P2")}
        by_type = re.search(r"\btype \d+", " ".join(reason.text for reason in verdict(path, refuses).reasons))
        if (not told or not (ours or by_type)) and ("huggingface-gguf", path.name) not in WRONG:
            unexplained.append((path.name, refuses, sorted(ours), told))
    assert unexplained == []


def test_files_of_reference_tools_are_explained_by_the_type_alone(shared: Path) -> None:
    """They are sound: what a reader says about them is about its own table."""
    for path in sorted(shared.glob("vectors/gguf/*.gguf")):
        refused = verdict(path, "gguf-py")
        assert refused.loads == "no"
        assert "type 36" in refused.reasons[0].text
        assert verdict(path, "huggingface-gguf").loads == "yes"
