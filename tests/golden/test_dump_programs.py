"""The programs of the tutorial on dumping: each writes what `golden compare` reads and finds right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_site import checkout
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.golden import compare, record

FOLDER = checkout.chapters() / "tutorials"
TOKENS = [3, 51, 130, 7]
LISTED = ",".join(map(str, TOKENS))

NODE = """
import { writeFileSync } from "node:fs";
import { floats, npy } from "%s";
globalThis.GPUBufferUsage = { COPY_DST: 8, MAP_READ: 1 };
globalThis.GPUMapMode = { READ: 1 };
const held = Float32Array.from({ length: 6 }, (_, i) => i / 4);
const copies = [];
const device = {
  createBuffer: ({ size }) => ({ bytes: new ArrayBuffer(size), mapAsync: async () => {}, destroy() {},
                                 getMappedRange() { return this.bytes; } }),
  createCommandEncoder: () => ({
    copyBufferToBuffer: (from, at, to, start, size) =>
      new Uint8Array(to.bytes, start, size).set(new Uint8Array(from, at, size)),
    finish: () => copies.push(1),
  }),
  queue: { submit: () => {} },
};
writeFileSync(process.argv[2], npy(await floats(device, held.buffer, 6), 2, 3));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_buffer_of_webgpu(tmp_path: Path) -> None:
    script, answer = tmp_path / "run.mjs", tmp_path / "x.npy"
    script.write_text(NODE % (FOLDER / "dump_buffer.mjs").as_uri(), encoding="utf-8")
    subprocess.run(["node", str(script), str(answer)], check=True, timeout=60)
    assert np.load(answer).tolist() == [[0, 0.25, 0.5], [0.75, 1, 1.25]]


def python_of(name: str, module: str) -> str:
    """The interpreter with a package: this one, or that of `python tests/peers install`."""
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "i2s-spec" / "runtimes"
    for folder in sorted(cache.glob(f"{name}-*"), reverse=True):
        python = folder / "bin" / "python"
        words = [str(python), "-c", f"import {module}"]
        if python.is_file() and subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return str(python)
    pytest.skip(f"{name} is not installed")


def test_ik_llama_cpp(tmp_path: Path) -> None:
    python = python_of("ik-llama-cpp-python", "ik_llama_cpp")
    ours, theirs = tmp_path / "ours.gguf", tmp_path / "theirs.gguf"
    new(ours, "bitnet", embd=512, ff=512, layers=2)
    with i2s.open(ours) as file:
        convert_file(file, theirs, to="IQ2_BN")
    words = [python, str(FOLDER / "dump_values.py"), str(theirs), LISTED, str(tmp_path / "mine.npz")]
    subprocess.run(words, check=True, timeout=300, capture_output=True)
    record(theirs, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", tmp_path / "mine.npz", model=theirs)
    assert result.ok, result.verdict
    assert result.profile == "ik-iq2bn"
    assert result.counted("ok", "flips") > 30


def test_modules_of_transformers(tmp_path: Path) -> None:
    python = python_of("transformers", "torch, transformers")
    from i2s_spec.convert.trained import write_trained

    model, folder = tmp_path / "model.gguf", tmp_path / "hf"
    write_trained(model)
    subprocess.run([sys.executable, "-m", "i2s_spec", "export", str(model), "-o", str(folder), "-q"], check=True)
    words = [python, str(FOLDER / "dump_modules.py"), str(folder), LISTED, str(tmp_path / "mine.npz")]
    subprocess.run(words, check=True, timeout=300, capture_output=True)
    record(model, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", tmp_path / "mine.npz", model=model)
    assert result.ok, result.verdict
    assert result.counted("ok", "flips") > 40
