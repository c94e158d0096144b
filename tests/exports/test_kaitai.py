"""Kaitai's own compiler compiles the Kaitai definition, which reads real files in either byte order."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_files import TYPES, file_of_blocks
from examples import share

from i2s_spec.codec import blocks
from i2s_spec.exports import export
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, key_value

yaml = pytest.importorskip("yaml")
HERE = Path(__file__).resolve().parent
PACKAGES = ["kaitai-struct-compiler@0.11.0", "kaitai-struct@0.11.0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which node finds Kaitai's compiler and runtime: `KAITAI_HOME`, or a fresh one from the npm registry."""
    if given := os.environ.get("KAITAI_HOME"):
        return Path(given)
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node and npm on the path")
    folder = tmp_path_factory.mktemp("kaitai")
    (folder / "package.json").write_text("{}")
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm takes too long")
    if done.returncode:
        pytest.skip(f"npm gives no Kaitai: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture(scope="module")
def read(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("compiled")
    definition = folder / "gguf_i2s.json"
    definition.write_text(json.dumps(yaml.safe_load(export("ksy"))))

    def run(path: Path) -> dict[str, Any]:
        done = subprocess.run(
            ["node", HERE / "kaitai.mjs", definition, folder, path],
            capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, "KAITAI_HOME": str(home), "LAYOUTS": " ".join(map(member, LAYOUTS))},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    return run


def member(layout: str) -> str:
    """The name of a layout as Kaitai's compiler writes it in JavaScript."""
    first, *rest = layout.split("-")
    return first + "".join(part.capitalize() for part in rest)


def check(said: dict[str, Any], path: Path) -> None:
    with opened(path) as file:
        assert said["version"] == file.version
        assert said["alignment"] == file.alignment
        assert said["start"] == file.data_start
        assert said["keys"] == list(file.metadata)
        for found, tensor in zip(said["tensors"], file.tensors.values(), strict=True):
            assert (found["name"], found["ne"], found["type"], found["offset"]) == (
                tensor.name, list(tensor.ne), tensor.number, tensor.offset,
            )  # fmt: skip
            if tensor.number == 36:
                mark = "<" if file.byte_order == "little" else ">"
                assert found["scale"] == struct.unpack(f"{mark}f", tensor.tail[:4])[0]
                if tensor.elements <= 65536:
                    codes(found, np.frombuffer(tensor.payload, np.uint8), *tensor.shape)


def codes(found: dict[str, Any], payload: Any, rows: int, cols: int) -> None:
    k = np.arange(rows * cols)
    for layout in LAYOUTS.values():
        if rows % layout.row_block:
            continue
        wanted = payload[layout.byte_of(k, rows, cols)] >> layout.shift_of(k, rows, cols).astype(np.uint8) & 3
        assert found["codes"][member(layout.name)] == "".join(map(str, wanted))
        if layout.name == "interleave-128":
            trits = CODE_MAPS["offset-1"].trits
            assert found["trits"] == [trits[code] for code in wanted]


@pytest.mark.parametrize("order", share(["little", "big"]))
def test_small_files(read: Any, tmp_path: Path, order: Any) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Draft(order).data)
    check(read(path), path)


def test_alignment(read: Any, tmp_path: Path) -> None:
    draft = Draft()
    file = draft.records()
    file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, 128))
    file.key_values.append(key_value(b"general.alignmenu", ValueType.UINT32, 64))
    file.header.key_count = len(file.key_values)
    path = tmp_path / "a.gguf"
    path.write_bytes(draft.built(file, 128))
    said = read(path)
    assert (said["alignment"], said["start"] % 128) == (128, 0)
    check(said, path)


@pytest.mark.parametrize("order", share(["little", "big"]))
def test_types_with_a_scale_for_each_group(read: Any, tmp_path: Path, order: Any) -> None:
    path = tmp_path / "a.gguf"
    data = bytearray(file_of_blocks(TYPES, order))
    with opened(bytes(data)) as file:  # scales of every kind in the first tensor
        start = file.tensors["Q2_0.2"].span.start
        for i, half in enumerate([0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E01]):
            data[start + 18 * i : start + 18 * i + 2] = half.to_bytes(2, order)
    path.write_bytes(data)
    said = {each["name"]: each for each in read(path)["tensors"]}
    assert "groups" not in said["last"]
    with opened(path) as file:
        for name in TYPES:
            for tensor in (file.tensors[f"{name}.2"], file.tensors[f"{name}.3"]):
                found = said[tensor.name]["groups"]
                assert set(found) <= ({"q20", "q20G128"} if tensor.number == 42 else {camel(name)})
                found = found[camel(name)]
                values, scales = blocks.unpack(tensor.read(), tensor.shape, name, byte_order=order)
                assert found["weights"] == values.reshape(-1).tolist()
                assert found["codes"] == "".join(map(str, (values.reshape(-1) + 1).tolist()))
                assert found["scales"] == [float(scale) if np.isfinite(scale) else None for scale in scales]
                if GROUP_LAYOUTS[name].scale.type == "F16":
                    halves = np.array(found["bits"], dtype=np.uint16).view(np.float16).astype(np.float32)
                    assert np.array_equal(halves, scales, equal_nan=True)


def camel(name: str) -> str:
    """A name as Kaitai's compiler writes it in JavaScript."""
    first, *rest = name.lower().split("_")
    return first + "".join(part.capitalize() for part in rest)


@pytest.mark.thorough
def test_real_files(read: Any, shared: Path) -> None:
    for name in ("gguf/bitnet.i2_s.gguf", "gguf/bitnet-25.i2_s.arm64block.gguf"):
        path = shared / "vectors" / name
        check(read(path), path)
    for path in sorted((shared / "real").glob("ggml-vocab-*.gguf"))[:2]:
        check(read(path), path)
