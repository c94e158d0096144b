"""Handmade vectors for tests of the runner: a few payloads and files in a folder with a manifest."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from i2s_spec.codec import native

SHAPE = (2, 256)
TRITS = np.random.default_rng(7).integers(-1, 2, SHAPE).astype(np.int8)
PAYLOAD = native.pack(TRITS, 0.75)
WEIGHTS = TRITS.astype("<f4") * np.float32(0.75)
ARGS = {"type": "i2_s", "shape": [256, 2], "layout": "x86-128"}


class Folder:
    """A folder of vectors that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        (path / "data").mkdir(parents=True, exist_ok=True)

    def add(self, op: str, data: bytes, expected: bytes | None = None, **more: Any) -> str:
        name = f"I2S-{len(self.entries) + 1:04d}"
        (self.path / f"data/{name}.in").write_bytes(data)
        entry: dict[str, Any] = {
            "id": name, "op": op, "clause": "5.3", "requirement": None, "rule": None, "features": [], "flags": [],
            "verdict": "valid", "phase": None, "compare": {"class": "exact"}, "since": "1.0.0", "comment": "", "args": {},
            "input": {"path": f"data/{name}.in", "sha256": sha256(data).hexdigest(), "bytes": len(data)}, "expected": {},
        }  # fmt: skip
        if expected is not None:
            (self.path / f"data/{name}.out").write_bytes(expected)
            digest = f"sha256:{sha256(expected).hexdigest()}"
            entry["expected"] = {"digest": digest, "path": f"data/{name}.out", "bytes": len(expected)}
        if "json" in more:
            entry["expected"]["json"] = more.pop("json")
        self.entries.append({**entry, **more})
        self.write()
        return name

    def write(self) -> None:
        manifest = {"suite_version": "1.2.3", "protocol": "i2s-cp/1", "vectors": self.entries}
        (self.path / "manifest.json").write_text(json.dumps(manifest))


def payloads(path: Path) -> Folder:
    """One vector of decode, one of dequant."""
    folder = Folder(path)
    folder.add("decode", PAYLOAD, TRITS.tobytes(), args=ARGS, features=["type.i2_s"])
    folder.add("dequant", PAYLOAD, WEIGHTS.tobytes(), args=ARGS, features=["type.i2_s"], compare={"class": "bits"})
    return folder


#: An adapter with parts that tests replace: DECODE computes int8 values from `data` and `args`.
ADAPTER = """
import hashlib, json, os, sys, time
from pathlib import Path
import numpy as np

def decode(data, args, op):
    cols, rows = args["shape"]
    k = np.arange(rows * cols)
    codes = np.frombuffer(data, np.uint8)[k // 128 * 32 + k % 32] >> (6 - k % 128 // 32 * 2) & 3
    values = codes.astype(np.int8) - 1
    return values.astype("<f4") * np.frombuffer(data[-32:], "<f4", 1) if op == "dequant" else values

START = {"version": 1, "implementation": {"name": "hand-made", "version": "1"}, "ops": ["decode", "dequant"]}
def answer(message):
    if message["cmd"] == "start":
        return START
    if message["cmd"] == "dialect":
        return {"ok": True}
    data = decode(Path(message["input"]["path"]).read_bytes(), message["args"], message["op"]).tobytes()
    if message["want"] == "bytes":
        Path(message["output"]["path"]).write_bytes(data)
    return {"seq": message["seq"], "digest": "sha256:" + hashlib.sha256(data).hexdigest()}

#CHANGE
for line in sys.stdin:
    message = json.loads(line)
    if message["cmd"] == "stop":
        break
    print(json.dumps(answer(message)), flush=True)
"""


def adapter(change: str = "") -> str:
    """The adapter with lines before its loop."""
    return ADAPTER.replace("#CHANGE", change)
