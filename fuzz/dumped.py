"""Dumps described by a small program: a model with a mistake, unusual taps, a form, a mode, and a damaged record.

Bytes are choices, in this order: architecture, tokens, set and form of the record, mistake; for each change of the taps
its kind and place, until a 0; the form of the dump; mode, model, profile and prefix; the damage of the record.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dump_changes import CHANGES, changed
from harness import Program

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.golden import record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES, mistakes
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.store import HEADER, TEXT
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES as BUILT_IN
from i2s_spec.safetensors.files import NewTensor, write_checkpoint

#: Architectures, and sizes of their models.
MODELS = (
    ("llama", {}), ("bitnet-b1.58", {}), ("qwen3", {}), ("gemma3", {}), ("bitnet", {}), ("bitnet-25", {}),
    ("llama", {"layers": 2}), ("bitnet-b1.58", {"layers": 3}), ("llama", {"embd": 256, "ff": 512}),
    ("llama", {"heads_kv": 4}), ("llama", {"dense": 1}),
)  # fmt: skip
TOKENS = (
    (1, 17, 3, 44, 5, 9, 30, 8),
    (1,),
    (1, 2, 3),
    tuple(range(1, 21)),
    (1, 5, 9, 30, 8),
    (5, 5, 5, 5),
    (),
    (10**6,),
)
MODES = (None, "op-replay", "layer-forced", "free-running", "backwards")
_OWN = BUILT_IN["bitnet-golden-1"]
PROFILES = (
    None,
    "bitnet-golden-1",
    "bitnetcpp-2025",
    "ik-iq2bn",
    "tq2_0",
    "nothing",
    "bitnetcpp-2026",
    "hf-f32",
    "webgpu",
    "fast",
    _OWN.replace(quantizer={"offset": "kept"}),
    _OWN.replace(quantizer={"groups": "none"}),
)
OTHER = 200
FORMS = ("npz", "safetensors", "folder", "bin", "record", "text", "npy", "npz-compressed")


class Given(NamedTuple):
    """A record, a candidate, the options of the comparison, and whether the record was damaged."""

    golden: Path
    candidate: Path
    options: dict[str, Any]
    damaged: bool


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="i2s-dumped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def model_of(number: int) -> Model:
    """A small model; it has two key heads, so that heads can be mixed up."""
    return load_model(_made(number), threads=1)


def _made(number: int) -> bytes:
    file, floats = io.BytesIO(), io.BytesIO()
    name, sizes = MODELS[number]
    sizes = {"layers": 1, "heads": 4, "heads_kv": 2, **sizes}
    dense = sizes.pop("dense", 0)
    new(file, name, **sizes)  # type: ignore[arg-type]
    if dense:
        convert_file(File(BufferSource(file.getvalue())), floats, to="F16")
    return floats.getvalue() or file.getvalue()


@cache
def _recorded(number: int, tokens: tuple[int, ...], mistake: int, **options: Any) -> Path | None:
    """A record of a model, possibly with a mistake; None if there is none."""
    model = _wrong(number, mistake)
    if model is None:
        return None
    again, options = options.get("force"), {key: value for key, value in options.items() if key != "force"}
    folder = _folder() / f"{len(list(_folder().iterdir()))}"
    try:
        record(model, list(tokens), folder, progress=lambda done, count: None, **options)
        if again:
            record(model, list(tokens), folder, force=True)
    except (SettingError, ValueError):
        return None
    return folder


def _wrong(number: int, mistake: int) -> Model | None:
    """A model with the mistake of this number, or from `OTHER` on with other numerics; None if it has no effect."""
    model = model_of(number)
    if not mistake:
        return model
    try:
        if mistake >= OTHER:
            return model.replace(numerics=PROFILES[(mistake - OTHER) % len(PROFILES)])
        return dict(_mistaken(number)).get(MISTAKES[mistake - 1].name) if mistake <= len(MISTAKES) else None
    except (SettingError, ValueError):
        return None


@cache
def _mistaken(number: int) -> list[tuple[str, Model]]:
    return [(mistake.name, model) for mistake, model in mistakes(model_of(number))]


@cache
def _taps(folder: Path) -> dict[str, Any]:
    dump = read_dump(folder)
    return {name: dump[name].value for name in dump}


def dump(program: Program, holder: Path) -> Given | None:
    """The dump that a program describes; None if it has no such model, tokens or mistake."""
    number, tokens = program.below(len(MODELS)), program.of(TOKENS)
    options = program.of(
        (
            {},
            {"light": True},
            {"form": "npz"},
            {"text": "all"},
            {"text": "shown"},
            {"kl_base": True},
            {"form": "odd"},
            {"force": True},
        )
    )
    mistake = program.below(256)
    golden = _recorded(number, tokens, 0, **options)
    theirs = _recorded(number, tokens, mistake, **{key: options[key] for key in options if key in ("text", "form")})
    if golden is None or theirs is None:
        return None
    taps = dict(_taps(theirs))
    while (what := program.below(len(CHANGES) + 1)) and taps:
        changed(CHANGES[what - 1], taps, program)
    form = program.of(FORMS)
    candidate = _dumped(form, taps, theirs, holder, program)
    chosen: dict[str, Any] = {"mode": program.of(MODES)}
    loaded = model_of(number)
    other = program.below(6)
    if other in (1, 2, 3):
        chosen["model"] = (loaded, _written(number), model_of((number + 1) % len(MODELS)))[other - 1]
    elif other in (4, 5):
        chosen["model"] = ("missing.gguf", _written((number + 1) % len(MODELS)))[other - 4]
    profile, prefix = program.of(PROFILES), program.below(4)
    if profile is not None and other:
        chosen["numerics"] = profile
    if prefix:
        chosen["prefix"] = ("ffn", "nobody", "Q")[prefix - 1]
    chosen["diagnose"] = program.below(4) != 3
    chosen["progress"] = (None, lambda done, count: None)[program.below(2)]
    damage = program.below(len(DAMAGES) + 1)
    if damage:
        golden = _damaged(golden, DAMAGES[damage - 1], holder)
    return Given(golden, candidate, chosen, bool(damage))


@cache
def _written(number: int) -> Path:
    path = _folder() / f"model-{number}.gguf"
    path.write_bytes(_made(number))
    return path


# --- forms of dumps ---


def _dumped(form: str, taps: dict[str, Any], theirs: Path, holder: Path, program: Program) -> Path:
    if form.startswith("npz"):
        path = holder / "theirs.npz"
        with path.open("wb") as stream:
            save: Any = np.savez if form == "npz" else np.savez_compressed
            save(stream, **{name or "noname": taps[name] for name in taps})
        return path
    if form == "safetensors":
        return _safetensors(taps, holder / "theirs.safetensors", program.below(8) == 7)
    if form in ("folder", "bin"):
        for name, value in taps.items():
            safe = "".join(char if char.isprintable() and char != "/" else "_" for char in name)[:60]
            if form == "bin":
                value.real.astype("<f4").tofile(holder / f"{safe}.bin")
            else:
                np.save(holder / f"{safe}.npy", value)
        odd = program.below(8)
        if odd == 7:
            (holder / "odd.bin").write_bytes(b"odd")
        elif odd == 6:
            for path in holder.iterdir():
                path.unlink()
        return holder
    if form == "npy":
        np.save(holder / "theirs.npy", taps[list(taps)[-1]])
        return holder / "theirs.npy"
    if form == "text" and (theirs / TEXT).exists():
        return _text((theirs / TEXT).read_text(), holder, program)
    shutil.copytree(theirs, holder / "record")
    other = program.below(6)
    if other:
        header = json.loads((holder / "record" / HEADER).read_text())
        header |= ({"token_ids": [9, 9]}, {"weights": "0" * 64}, {"dialect": "interleave-64"}, {}, {"architecture": 7})[
            other - 1
        ]
        (holder / "record" / HEADER).write_text(json.dumps(header))
        if other == 4:
            for path in (holder / "record").glob("taps.*"):
                path.unlink()
    return holder / "record"


_DTYPES = {"f4": "F32", "f2": "F16", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8"}


def _bytes_of(array: Any) -> list[bytes]:
    return [array.tobytes()]


def _safetensors(taps: dict[str, Any], path: Path, bfloat16: bool) -> Path:
    tensors = []
    for name, value in taps.items():
        kind = _DTYPES.get(value.dtype.str[1:], "U16" if value.dtype.itemsize == 2 else "BOOL")
        plain = np.ascontiguousarray(value)
        if bfloat16 and kind == "F32":
            kind, plain = "BF16", (plain.astype("<f4").view("<u4") >> 16).astype("<u2")
        elif kind == "BOOL":
            plain = np.ones(plain.shape, dtype=np.uint8)
        else:
            plain = plain.astype(plain.dtype.newbyteorder("<"))
        tensors.append(NewTensor(name or "noname", kind, plain.shape, partial(_bytes_of, plain)))
    write_checkpoint(path, tensors)
    return path


def _text(text: str, holder: Path, program: Program) -> Path:
    """The text of eval-callback, with changed lines."""
    lines = text.splitlines()
    for _ in range(program.below(6)):
        at = program.below(256) * max(1, len(lines) // 256) % len(lines)
        kind = program.below(8)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[at])
        elif kind == 2:
            lines[at] = lines[at].replace("0", "7")
        elif kind == 3:
            lines = [line.replace("sum = ", "sum = 9") for line in lines]
        elif kind == 4:
            lines[at] = "garbage \x1b[2J" + lines[at]
        elif kind == 5:
            lines = [line for line in lines if "sum" not in line]
        elif kind == 6:
            lines = [line.replace("1.", "nan", 1) if "[" in line else line for line in lines]
        else:
            lines = ["ggml_debug: x = (f32) ADD(y{1, 1, 1, 1}, }) = {1099511627776, 1099511627776, 1, 1}", *lines]
    path = holder / "theirs.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


# --- damaged records ---


def _set(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda header: header.__setitem__(name, value)


def _of_first(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda header: [change(about) for about in list(header["taps"].values())[:3]]


def _less(header: dict[str, Any]) -> None:
    for about in header["taps"].values():
        about["stored"] = False


def _no_layers(header: dict[str, Any]) -> None:
    for about in header["taps"].values():
        about.pop("layer", None)
        about.pop("op", None)


DAMAGES: tuple[Callable[[dict[str, Any]], Any] | str, ...] = (
    "gone", "cut", "list", "large", "no taps", _set("schema_version", 9), _set("token_ids", []), _set("token_ids", [1.5]),
    _set("profile", 7), _set("taps", {}), _set("taps", {"x": 7}), _of_first(lambda about: about.update(shape=[-1])),
    _of_first(lambda about: about.update(shape=[1 << 20, 1 << 20])), _of_first(lambda about: about.update(sha256="0" * 64)),
    _of_first(lambda about: about["shape"].append(1)), _of_first(lambda about: about.pop("shape")), _less, _no_layers,
    _set("activation", None), _set("architecture", "odd"), _set("weights", None), _set("dialect", "odd"),
    _set("profile", "odd*"),
    _of_first(lambda about: about.update(dtype="int8")), _of_first(lambda about: about.pop("sha256")),
)  # fmt: skip


def _damaged(golden: Path, damage: Callable[[dict[str, Any]], Any] | str, holder: Path) -> Path:
    folder = holder.with_name("damaged")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(golden, folder)
    path = folder / HEADER
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "list":
        path.write_text("[" * 100_000)
    elif damage == "large":
        with path.open("r+b") as stream:
            stream.truncate((1 << 28) + 1)
    elif damage == "no taps":
        for each in folder.glob("taps.*"):
            each.unlink()
    elif callable(damage):
        header = json.loads(path.read_text())
        damage(header)
        path.write_text(json.dumps(header))
    return folder
