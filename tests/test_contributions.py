"""Patches for other projects: they agree with the schema, and contain only context lines of the other project's code.

In clones (`I2S_UPSTREAM`) they apply, and do what the request says.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.schema import types
from runs import llama_tools

CONTRIB = Path(__file__).resolve().parents[1] / "contrib"
FOLDERS = sorted(path.name for path in CONTRIB.iterdir() if path.is_dir())
UPSTREAM = Path(os.environ["I2S_UPSTREAM"]) if "I2S_UPSTREAM" in os.environ else None

#: Maximum context lines around a change, and maximum removed lines in a patch.
CONTEXT, REMOVED = 2, 4


def patch(name: str) -> str:
    return (CONTRIB / name / "change.patch").read_text(encoding="utf-8")


def added(name: str) -> list[str]:
    return [line[1:] for line in patch(name).splitlines() if line.startswith("+") and not line.startswith("+++")]


def request_of(name: str) -> tuple[str, str]:
    """The repository and the commit or release of a request."""
    text = (CONTRIB / name / "request.md").read_text(encoding="utf-8")
    found = re.match(r"# .+\n\nRepository: (\S+)\n(?:Commit: `([0-9a-f]{40})`|Release: (.+))\n\n\S", text)
    assert found is not None, name
    return found[1], found[2] or ""


@pytest.mark.parametrize("name", FOLDERS)
def test_a_request_names_repository_and_commit(name: str) -> None:
    repository, _ = request_of(name)
    assert f"[{name}]({name}/request.md) | {repository} |" in (CONTRIB / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_patch_carries_context_only(name: str) -> None:
    run = removed = 0
    for line in patch(name).splitlines():
        if line.startswith(("diff ", "index ", "---", "+++", "@@", "new file")):
            run = 0
        elif line.startswith(("+", "-")):
            run, removed = 0, removed + line.startswith("-")
        else:
            run += 1
            assert run <= 2 * CONTEXT + 1, f"{name}: {line}"
    assert removed <= REMOVED
    assert added(name)


def test_sizes_are_those_of_the_schema() -> None:
    text = "\n".join(added("gguf-py"))
    numbers = {name: int(number) for name, number in re.findall(r"^    (\w+) += (\d+)", text, re.MULTILINE)}
    sizes = {
        name: (int(block), eval(size)) for name, block, size in re.findall(r"\.(\w+): +\((\d+), ([\d +]+)\)", text)
    }
    assert numbers == {"I2_S": 36, "Q2_0": 42}
    q2 = next(each for each in types.READINGS[42] if each.name == "Q2_0" and each.block == sizes["Q2_0"][0])
    assert sizes["Q2_0"] == (q2.block, q2.nbytes((q2.block,)))
    block, size = sizes["I2_S"]
    assert types.I2_S.nbytes((block * 7,)) == size * 7 + types.TAIL_BYTES
    assert "calcBPW(128, 32)" in patch("huggingface-gguf")
    assert "I2_S = 36" in patch("huggingface-gguf")


def test_names_of_the_pattern_are_those_of_the_schema() -> None:
    names = dict(re.findall(r"GGML_TYPE_(\w+) += (\d+)", "\n".join(added("imhex-gguf"))))
    assert len(names) == 8
    for name, number in names.items():
        assert name in {each.name for each in types.READINGS[int(number)]}, name


def test_the_table_of_the_document_decodes() -> None:
    """By the document's own formula, with the table as the patch has it."""
    table = {
        int(code, 2): int(value)
        for code, value in re.findall(r"^\| ([01]{2}) \| ([-+]?\d) +\|", "\n".join(added("bitnet-docs")), re.MULTILINE)
    }
    assert table == {0: -1, 1: 0, 2: 1}
    trits = np.random.default_rng(0).integers(-1, 2, (2, 256)).astype(np.int8)
    data = i2s.pack(trits, 0.5)
    for k, trit in enumerate(trits.ravel()):
        block, pos = divmod(k, 128)
        group, gp = divmod(pos, 32)
        assert table[data[block * 32 + gp] >> (6 - 2 * group) & 3] == trit
    assert struct.unpack("<f", data[trits.size // 4 :][:4]) == (0.5,)


def test_the_definition_of_the_gallery_is_the_export() -> None:
    made = runpy.run_path(str(CONTRIB / "kaitai-gallery" / "make.py"))["patch"]()
    assert patch("kaitai-gallery") == made, "run contrib/kaitai-gallery/make.py"


def applied(folder: Path, name: str) -> None:
    """Apply a patch in a folder.

    git's own settings and repositories around the folder do not count.
    """
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "--whitespace=nowarn", str(CONTRIB / name / "change.patch")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gguf_py_opens_files_of_types_36_and_42(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    installed = Path(gguf.__file__).parent
    text = (CONTRIB / "gguf-py" / "request.md").read_text(encoding="utf-8")
    if hashlib.sha256((installed / "constants.py").read_bytes()).hexdigest() not in text:
        pytest.skip("another release of gguf is installed than the one that the patch is against")
    shutil.copytree(installed, tmp_path / "gguf-py" / "gguf", ignore=shutil.ignore_patterns("__pycache__"))
    names = {"I2_S": tmp_path / "a.gguf", "Q2_0": tmp_path / "b.gguf"}
    for kind, path in names.items():
        i2s.new(path, layers=1, type=kind)
    code = (
        "import sys, gguf\nr = gguf.GGUFReader(sys.argv[1])\n"
        "t = next(t for t in r.tensors if t.name == 'blk.0.attn_q.weight')\n"
        "sys.stdout.write(f'{t.tensor_type.name} {t.n_bytes} {t.data.tobytes().hex()}')\n"
    )

    def read(path: Path, packages: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", code, str(path)]
        environment = {**os.environ, "PYTHONPATH": str(packages)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    for path in names.values():
        assert "is not a valid GGMLQuantizationType" in read(path, installed.parent).stderr
    applied(tmp_path, "gguf-py")
    for kind, path in names.items():
        done = read(path, tmp_path / "gguf-py")
        tensor = i2s.open(path).tensors["blk.0.attn_q.weight"]
        payload = tensor.payload
        assert done.stdout == f"{kind} {len(payload)} {payload.hex()}", done.stderr


def llama_cpp() -> tuple[dict[str, Any], dict[str, Any]]:
    """The script of the patch for llama.cpp, and the figures that it wrote."""
    folder = CONTRIB / "llama.cpp"
    return runpy.run_path(str(folder / "make.py")), json.loads((folder / "figures.json").read_text(encoding="utf-8"))


def test_the_logits_of_llama_cpp_are_those_of_the_activation_that_the_key_says(tmp_path: Path) -> None:
    """After the patch; before it, SiLU is used whatever the key says. Compared with the current reference."""
    script, figures = llama_cpp()
    assert [(case["hidden_activation"], case["library"]) for case in figures["cases"]] == [
        (key, library) for key in (None, "silu", "relu2") for library in ("before", "after")
    ]
    for case in figures["cases"]:
        key = case["hidden_activation"]
        path = script["model"](key, tmp_path)
        right = "relu2" if key == "relu2" and case["library"] == "after" else "silu"
        for activation in ("silu", "relu2"):
            expected = script["ours"](path, activation)[-1]
            error = script["agreement"](np.array(case["logits"]), expected)[1]
            assert error < 1e-5 if activation == right else error > 0.1, (key, case["library"], activation)
        assert case["correlation"][right] == 1
    assert (CONTRIB / "llama.cpp" / "request.md").read_text(encoding="utf-8") == script["request"](figures)


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [False, True])
def test_the_patched_library_of_llama_cpp_reads_the_key(*, whole: bool) -> None:
    """Built of the sources that npm carries: the file that is patched, or all of libllama where `I2S_LLAMA_WHOLE` is set."""
    if (reason := llama_tools.perplexity_missing()) is not None:
        pytest.skip(reason)
    if whole and "I2S_LLAMA_WHOLE" not in os.environ:
        pytest.skip("I2S_LLAMA_WHOLE asks for a build of all of libllama, which takes minutes")
    script, kept = llama_cpp()
    assert script["differences"](script["measured"](whole=whole), kept) == []


@pytest.mark.thorough
def test_the_sources_of_llama_cpp_are_those_that_the_request_names(tmp_path: Path) -> None:
    if (reason := llama_tools.perplexity_missing()) is not None:
        pytest.skip(reason)
    source = llama_tools.sources(tmp_path / "clone", ["src/models"])
    text = (CONTRIB / "llama.cpp" / "request.md").read_text(encoding="utf-8")
    assert hashlib.sha256((source / "src/models/bitnet.cpp").read_bytes()).hexdigest() in text
    applied(source, "llama.cpp")
    changed = (source / "src/models/bitnet.cpp").read_text(encoding="utf-8")
    assert all(line in changed for line in added("llama.cpp"))


def checked_out(name: str, folder: Path) -> Path:
    """The commit that a request names, in a folder."""
    repository, commit = request_of(name)
    clone = None if UPSTREAM is None else UPSTREAM / repository.split("/")[1]
    if clone is None or not clone.is_dir():
        pytest.skip(f"no clone of {repository}: I2S_UPSTREAM names the folder that holds it")
    places = re.findall(r"^--- a/(\S+)", patch(name), re.MULTILINE)
    if name == "modelaudit":
        places = ["modelaudit"]
    if name == "huggingface-gguf":
        places = ["packages/gguf", "packages/tasks/src"]
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, *places], cwd=clone, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
    return folder


@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in ("gguf-py", "kaitai-gallery", "llama.cpp")])
def test_a_patch_applies_to_the_commit(name: str, tmp_path: Path) -> None:
    folder = checked_out(name, tmp_path / "clone")
    applied(folder, name)
    changed = "".join(
        path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in (".md", ".py", ".ts", ".hexpat")
    )
    assert all(line in changed for line in added(name))


SCAN = """
import json, sys
from modelaudit.scanners.gguf_scanner import GgufScanner
out = {}
for path in sys.argv[1:]:
    issues = GgufScanner().scan(path).issues
    heavy = [issue for issue in issues if issue.severity.name in ("WARNING", "CRITICAL") or "parse" in issue.message]
    out[path] = [issue.message for issue in heavy]
print(json.dumps(out))
"""


def test_modelaudit_finds_tensors_without_their_scale(tmp_path: Path) -> None:
    python = os.environ.get("MODELAUDIT_PYTHON")
    if python is None:
        pytest.skip("MODELAUDIT_PYTHON names an interpreter with modelaudit's dependencies")
    folder = checked_out("modelaudit", tmp_path / "clone")
    good, out = tmp_path / "good.gguf", io.BytesIO()
    with i2s.Writer(out) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add_tensor("a", (2, 128), "I2_S", i2s.pack(np.ones((2, 128), np.int8), 0.5))
        writer.add_tensor("b", (2, 128), "I2_S", i2s.pack(np.ones((2, 128), np.int8), 0.25))
    good.write_bytes(out.getvalue())
    last = i2s.open(good).tensors["b"]
    broken = {
        "cut": out.getvalue()[: last.tail_span.start],
        "zero": bytearray(out.getvalue()),
        "nan": bytearray(out.getvalue()),
    }
    for name, scale in (("zero", 0.0), ("nan", float("nan"))):
        broken[name][last.tail_span.start : last.tail_span.start + 4] = struct.pack("<f", scale)
    for name, data in broken.items():
        (tmp_path / f"{name}.gguf").write_bytes(data)
    paths = [str(good), *(str(tmp_path / f"{name}.gguf") for name in broken)]

    def found() -> dict[str, list[str]]:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(
            [python, "-c", SCAN, *paths], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))

    assert all(messages == [] for messages in found().values())
    applied(folder, "modelaudit")
    after = found()
    assert after[paths[0]] == []
    assert "64 bytes of codes and a tail of 32 are needed, but only 64 bytes remain" in after[paths[1]][0]
    assert "its scale is 0.0" in after[paths[2]][0]
    assert "its scale is nan" in after[paths[3]][0]


def test_huggingface_gguf_names_the_type(tmp_path: Path) -> None:
    if shutil.which("npx") is None or shutil.which("node") is None:
        pytest.skip("no node on the path")
    folder = checked_out("huggingface-gguf", tmp_path / "clone")
    i2s.new(tmp_path / "a.gguf", layers=1)
    script = folder / "script.ts"
    script.write_text(
        'import { gguf } from "./packages/gguf/src/gguf";\n'
        'import { GGML_QUANT_SIZES, GGUF_QUANT_DESCRIPTIONS } from "./packages/gguf/src/quant-descriptions";\n'
        'import { GGMLQuantizationType } from "@huggingface/tasks";\n'
        "const found = await gguf(process.argv[2], { allowLocalFile: true });\n"
        'const tensor = found.tensorInfos.find((each) => each.name === "blk.0.attn_q.weight");\n'
        "console.log(GGMLQuantizationType[tensor.dtype], GGML_QUANT_SIZES[tensor.dtype],"
        " GGUF_QUANT_DESCRIPTIONS[tensor.dtype]?.txt.slice(0, 15));\n"
    )
    command = [
        "npx", "--yes", "esbuild@0.28.2", "script.ts", "--bundle", "--platform=node", "--format=esm", "--outfile=script.mjs",
        f"--alias:@huggingface/tasks={folder / 'packages' / 'tasks' / 'src' / 'gguf.ts'}", "--log-level=error",
    ]  # fmt: skip

    def run() -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        node = ["node", "script.mjs", str(tmp_path / "a.gguf")]
        return subprocess.run(node, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    assert run() == "undefined undefined undefined"
    applied(folder, "huggingface-gguf")
    assert run() == "I2_S 2 Ternary weights"
