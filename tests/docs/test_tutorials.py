"""The tutorials: the command line accepts their commands, and their reader decodes like the package."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from malformed_cases import CASES

from i2s_site import checkout
from i2s_spec.cli import cli
from i2s_spec.codec.reference import unpack
from i2s_spec.gguf.reader import open as opened
from i2s_spec.testing.sample import ByteOrder, Draft

PAGES = [*sorted((checkout.chapters() / "tutorials").glob("*.md")), checkout.chapters() / "exports.md"]
COMMANDS = [
    (page.name, line)
    for page in PAGES
    for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
ORACLE = Path(__file__).resolve().parents[1] / "oracle"
READER = checkout.chapters() / "tutorials" / "reader.mjs"


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_are_such_as_there_are(page: str, line: str) -> None:
    """Every verb, option and argument is taken; nothing runs."""
    words = shlex.split(line.replace("ollama:", ""))
    assert words[0] == "i2s"
    context, command = None, cli
    while True:
        context = command.make_context(command.name or "i2s", words[1:], parent=context)
        if not hasattr(command, "get_command"):
            break
        words = (
            ["", *context._protected_args, *context.args]
            if hasattr(context, "_protected_args")
            else ["", *context.args]
        )
        following = command.get_command(context, words[1])
        assert following is not None, words[1]
        command, words = following, words[1:]


def test_the_tutorial_of_layouts_finds_and_repairs() -> None:
    """`test_every_fence_holds` runs the whole tutorial: an error, its evidence, the repair, readable text."""
    page = (checkout.chapters() / "tutorials" / "layout.md").read_text(encoding="utf-8")
    shown = [body for kind, body in re.findall(r"^```(i2s-console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    garbled, finding, evidence, repaired, mixed, random = shown
    assert "error: I213 " in finding
    assert "Where do its codes lie?  interleave-64 (certain)" in evidence
    assert "right.gguf: ok" in repaired
    assert set(re.findall(r"'(blk\.\d)", mixed)) == {"blk.2"}
    assert mixed.count("error: I214 ") == 7
    assert "Where do its codes lie?  cannot tell" in random
    words = {word for text in (garbled, repaired) for word in ("mouse", "narrow path", "strength") if word in text}
    assert words == {word for word in ("mouse", "narrow path", "strength") if word in repaired} != set()
    assert not any(word in garbled for word in words)


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on the path")
    return found


def read(node: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([node, READER, path], capture_output=True, encoding="utf-8", timeout=600, check=False)


def expected(path: Path) -> list[str]:
    lines = []
    with opened(path) as file:
        for tensor in file.tensors.values():
            if tensor.number == 36:
                trits, scale = unpack(tensor.read(), tensor.shape, byte_order=file.byte_order)
                rows, cols = tensor.shape
                counts = " ".join(str(int((trits == trit).sum())) for trit in (-1, 0, 1))
                first = " ".join(map(str, np.asarray(trits).ravel()[:8]))
                number = np.format_float_positional(float(scale), trim="-")
                lines.append(f"{tensor.name} {rows}x{cols} {number} {counts} {first}")
    return lines


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_reader_reads_a_small_file(node: str, tmp_path: Path, order: ByteOrder) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Draft(order).data)
    done = read(node, path)
    assert done.stdout.splitlines() == expected(path)
    assert len(expected(path)) == 2


@pytest.mark.parametrize(
    "name",
    [
        "committed", "bitnet-25.i2_s.gguf", "bitnet-b1.58.i2_s.via_llama_quantize.gguf",
        "bitnet-b1.58.packed.i2_s.direct.gguf",
    ],
)  # fmt: skip
def test_the_reader_reads_the_vectors(node: str, request: pytest.FixtureRequest, name: str) -> None:
    if name == "committed":
        path = ORACLE / "gguf" / "bitnet.i2_s.gguf"
    else:
        path = request.getfixturevalue("shared") / "vectors" / "gguf" / name
    done = read(node, path)
    assert done.stdout.splitlines() == expected(path)
    assert len(expected(path)) > 10


def test_the_reader_decodes_what_the_quantizer_packed(node: str) -> None:
    """Every matrix of whole blocks that the released quantizer was given: its signs come back, and its largest value."""
    inputs = {path.stem: np.load(path) for path in sorted((ORACLE / "quant" / "in").glob("*.npy"))}
    whole = {
        path: inputs[path.stem]
        for path in sorted((ORACLE / "quant" / "out_blk128").glob("*.bin"))
        if inputs[path.stem].shape[1] % 128 == 0 and np.isfinite(inputs[path.stem]).all()
    }
    script = """
        const { readFileSync } = await import("node:fs");
        const { decode } = await import(process.argv[1]);
        for (const [path, ...ne] of JSON.parse(process.argv[2])) {
          const { scale, trits } = decode(new Uint8Array(readFileSync(path)), true, 0, { name: path, ne, offset: 0 });
          console.log(scale, Array.from(trits, (trit) => "-0+"[trit + 1]).join(""));
        }"""
    cases = json.dumps([[str(path), *reversed(weights.shape)] for path, weights in whole.items()])
    done = subprocess.run(
        [node, "--input-type=module", "-e", script, READER.as_uri(), cases],
        capture_output=True, encoding="utf-8", timeout=600, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(whole) >= 10
    for (path, weights), line in zip(whole.items(), lines, strict=True):
        scale, trits = line.split(" ")
        wide = weights.astype(np.float64).ravel()
        assert trits == "".join("-0+"[sign] for sign in np.where(abs(wide) < 1e-6, 1, np.sign(wide) + 1).astype(int)), (
            path
        )
        assert np.float32(scale) == abs(weights).max(), path


def test_the_reader_ignores_files_without_i2s_tensors(node: str, shared: Path, tmp_path: Path) -> None:
    plain = tmp_path / "a.gguf"
    plain.write_bytes(gzip.decompress((shared / "vectors" / "gguf" / "bitnet.f32.gguf.gz").read_bytes()))
    done = read(node, plain)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_reader_refuses_what_is_broken(node: str, tmp_path: Path) -> None:
    """Faults that prevent indexing, lost tails and code 3 are refused, with a sentence and not by accident."""
    path = tmp_path / "a.gguf"
    wanted = {"G002", "G101", "G108", "G109", "G209", "G210", "G213", "G308", "I103", "I104", "I201"}
    met = set()
    for case in CASES.values():
        if case.code in wanted and case.code not in met:
            path.write_bytes(case.data)
            done = read(node, path)
            assert done.returncode == 1, case.name
            assert "Error: " in done.stderr
            assert "RangeError" not in done.stderr, case.name
            met.add(case.code)
    assert met == wanted
