"""References described by a few words: the weights of a model in another form, with changes.

The first word is the form: `gguf-TYPE`, `gguf-DIALECT`, `safetensors-TYPE`, `packed`, `npy`, `folder` or `broken`. The
others are changes: `negated`, `checkpoint-rows`, `gguf-rows`, `noise`, `other`, `some`, `scale`, `short`, `nan`,
`nothing`, `modules`, `named`, `multiply`, `divide`.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
from overlay import written

from i2s_spec.codec.change_groups import pack_blocks
from i2s_spec.codec.native import pack, unpack
from i2s_spec.safetensors.files import NewTensor, write_checkpoint
from i2s_spec.safetensors.names import module_name, to_checkpoint_rows, to_gguf_rows
from i2s_spec.schema.types import BY_NAME, I2_S
from i2s_spec.testing.sample import Model, Tensor

_CONFIG = {"quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear"}}


def reference(words: list[str], model: Model, folder: Path) -> Path | bytes:
    """The reference as a file, or its bytes.

    :param folder: an empty folder, for references that must be on disk
    """
    form, *changes = words or ["gguf-I2_S"]
    weights = _changed(model, changes)
    if form.startswith("gguf"):
        return _gguf(form.partition("-")[2], model, weights)
    if form == "npy":
        np.save(folder / "weights.npy", np.zeros(4, dtype="<f4"))
        return folder / "weights.npy"
    if form == "broken":
        (folder / "weights.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{")
        return folder / "weights.safetensors"
    path = _safetensors(form.partition("-")[2] if form != "packed" else "U8", weights, changes, folder)
    return folder if form == "folder" else path


Weights = dict[str, tuple[Any, float]]


def _changed(model: Model, changes: list[str]) -> Weights:
    """The float32 weights of the ternary tensors, and their scales."""
    weights: Weights = {}
    chance = np.random.default_rng(1)
    for tensor in model.tensors:
        if tensor.number != I2_S.number or len(tensor.ne) != 2 or len(tensor.data) != I2_S.nbytes(tensor.ne):
            continue
        trits, scale = unpack(tensor.data, tensor.ne[::-1], byte_order=model.order, unused_code="zero")
        values = trits.astype(np.float32)
        for change in changes:
            if change == "negated":
                values = -values
            elif change in ("checkpoint-rows", "gguf-rows") and values.shape[0] % 8 == 0:
                values = (to_checkpoint_rows if change == "checkpoint-rows" else to_gguf_rows)(
                    values, 2 if "_k." in tensor.name.decode() else 4
                )
            elif change == "noise":
                values = values + chance.normal(0, 0.1, values.shape).astype(np.float32)
            elif change == "other":
                values = chance.integers(-1, 2, values.shape).astype(np.float32)
            elif change == "some":
                values[: max(1, len(values) // 50)] *= -1
            elif change == "scale":
                scale = scale * np.float32(2)
            elif change == "short":
                values = values[: max(4, len(values) // 8 * 4)]
            elif change == "nan":
                values[0, 0] = np.nan
        weights[tensor.name.decode()] = values, float(scale)
    return {} if "nothing" in changes else weights


def _gguf(kind: str, model: Model, weights: Weights) -> bytes:
    tensors = []
    for name, (values, scale) in weights.items():
        shape = values.shape
        trits = np.clip(np.rint(np.nan_to_num(values)), -1, 1).astype(np.int8)
        if kind in ("F32", "F64"):
            data, number = (
                (values * np.float32(scale)).astype("<f4" if kind == "F32" else "<f8").tobytes(),
                BY_NAME[kind].number,
            )
        elif kind == "F16":
            data, number = (values * np.float32(scale)).astype("<f2").tobytes(), BY_NAME[kind].number
        elif kind in ("TQ1_0", "TQ2_0") and shape[-1] % 256 == 0:
            data, number = pack_blocks(trits, scale, kind), BY_NAME[kind].number
        else:
            try:
                data = pack(trits, scale, kind if "-" in kind else "canonical", strict=False)
            except ValueError:
                continue
            number = I2_S.number
        tensors.append(Tensor(name.encode(), shape[::-1], number, data))
    return written({}, list(model.keys), tensors)


def _safetensors(kind: str, weights: Weights, changes: list[str], folder: Path) -> Path:
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "U8": "u1"}
    kind = kind if kind in kinds else "F32"
    tensors = []
    for name, (values, scale) in weights.items():
        module = module_name(name)
        shown = name if "named" in changes or module is None else f"{module}.weight"
        if "modules" in changes:
            shown = shown.removeprefix("model.")
        if kind == "U8":
            trits = np.clip(np.rint(np.nan_to_num(values)), -1, 1).astype(np.int8)
            rows = trits.shape[0] // 4 * 4
            array = np.frombuffer(pack(trits[:rows], 1.0, "row-blocks-4", strict=False)[:-32], dtype="u1").reshape(
                rows // 4, -1
            )
            tensors.append(_new(f"{shown}_scale", "F32", np.array([scale], dtype="<f4")))
        elif kind == "BF16":
            array = ((values * np.float32(scale)).astype("<f4").view("<u4") >> 16).astype("<u2")
        else:
            with np.errstate(all="ignore"):
                array = (np.nan_to_num(values) if kind == "I32" else values * np.float32(scale)).astype(kinds[kind])
        tensors.append(_new(shown, kind, array))
    path = folder / "weights.safetensors"
    write_checkpoint(path, tensors)
    if "multiply" in changes or "divide" in changes:
        config = _CONFIG if "multiply" in changes else {"quantization_config": {"quant_method": "bitnet"}}
        (folder / "config.json").write_text(json.dumps(config))
    return path


def _new(name: str, kind: str, array: Any) -> NewTensor:
    return NewTensor(name, kind, array.shape, lambda: [np.ascontiguousarray(array).tobytes()])


def emptied(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
