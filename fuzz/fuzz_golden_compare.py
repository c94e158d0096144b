"""Record comparison: an untrusted dump is compared, or refused with a message; none of its text reaches a terminal.

A first byte below 128 chooses the file's name, and thus its possible types; the rest is the file. Other inputs are choices
(`models.by_choices`): a model, its mistake, changes of the taps, the form of the dump, the mode of the comparison, and the
damage of the record.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from harness import inputs, replayed, require_answers, search, sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import by_choices

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import MISTAKES, mistakes
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.recording import described
from i2s_spec.golden.report import FORMATS, report
from i2s_spec.golden.report_text import styled
from i2s_spec.golden.result import Comparison
from i2s_spec.golden.store import HEADER, TEXT, refuse_taken
from i2s_spec.golden.tap_names import other_names
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.safetensors.files import NewTensor, write_checkpoint

NAMES = ("theirs.npz", "theirs.safetensors", "theirs.npy", "theirs.txt", "Qcur-0.bin")


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    require_answers(
        data, *(f"golden compare {_golden()} {name}" for name in NAMES[:4]),
        **{name.replace(".", "__"): data[1:] for name in NAMES[:4]},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if data[:1] >= b"\x80":
            by_choices(test_changed_dumps, data[1:])
        else:
            _of_a_file(data[0] if data else 0, data[1:])


# --- files ---


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="i2s-golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _emptied(name: str) -> Path:
    """An empty folder."""
    shutil.rmtree(_folder() / name, ignore_errors=True)
    (_folder() / name).mkdir()
    return _folder() / name


@cache
def _golden() -> Path:
    """A record of a small model."""
    path = _folder() / "model.gguf"
    new(str(path), "llama", layers=1, vocab=272)
    with load_model(path) as model:
        record(model, [1, 2, 3], _folder() / "golden")
    return _folder() / "golden"


def _of_a_file(kind: int, content: bytes) -> None:
    holder = _emptied("dump")
    path = holder / NAMES[kind % len(NAMES)]
    path.write_bytes(content)
    candidate = holder if path.suffix == ".bin" else path
    try:
        dump = read_dump(candidate)
        for name in list(dump)[:8]:
            with_shape = dump.stored[name].shape
            assert with_shape is None or all(side >= 0 for side in with_shape)
            with suppress(FormatError, SettingError):
                assert with_shape in (None, dump[name].shape)
        result = compare(_golden(), candidate)
    except (FormatError, SettingError) as error:
        message = str(error)
    else:
        message = result.verdict
    assert message.isprintable(), message


# --- choices ---

#: Architectures, and sizes of their models.
MODELS: tuple[tuple[str, dict[str, int]], ...] = (
    ("llama", {}), ("bitnet-b1.58", {}), ("qwen3", {}), ("gemma3", {}), ("bitnet", {}), ("bitnet-25", {}),
    ("llama", {"layers": 2}), ("bitnet-b1.58", {"layers": 3}), ("llama", {"embd": 256, "ff": 512}),
    ("llama", {"heads_kv": 4}), ("llama", {"dense": 1}),
)  # fmt: skip
TOKENS: tuple[tuple[int, ...], ...] = (
    (1, 17, 3, 44, 5, 9, 30, 8), (1,), (1, 2, 3), (*range(1, 21),), (1, 5, 9, 30, 8), (5, 5, 5, 5), (), (10**6,),
)  # fmt: skip
RECORDS: tuple[dict[str, Any], ...] = (
    {}, {"light": True}, {"form": "npz"}, {"text": "all"}, {"text": "shown"}, {"kl_base": True}, {"form": "odd"},
)  # fmt: skip
_OWN = NUMERIC_PROFILES["bitnet-golden-1"]
PROFILES = (
    None, "bitnet-golden-1", "bitnetcpp-2025", "ik-iq2bn", "tq2_0", "nothing", "bitnetcpp-2026", "hf-f32", "webgpu", "fast",
    _OWN.replace(quantizer={"offset": "kept"}), _OWN.replace(quantizer={"groups": "none"}),
)  # fmt: skip
#: Mistakes from this number on are other numerics.
OTHER = 200
MODES = (None, "op-replay", "layer-forced", "free-running", "backwards")
FORMS = ("npz", "safetensors", "folder", "bin", "record", "text", "npy", "npz-compressed")
PREFIXES = (None, "ffn", "nobody", "Q")

Pick = Callable[[Any], Any]
Taps = dict[str, Any]


@settings(max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_dumps(data: Any) -> None:
    """The dump of a model with a mistake, changed and in any form, against a record that may be damaged."""

    def pick(choices: Any) -> Any:
        return choices[data.draw(st.integers(0, len(choices) - 1))]

    number, tokens, options, mistake = pick(range(len(MODELS))), pick(TOKENS), pick(RECORDS), pick(range(256))
    golden = _recorded(number, tokens, 0, **options)
    theirs = _recorded(number, tokens, mistake, **{key: options[key] for key in options if key in ("text", "form")})
    if golden is None or theirs is None:
        return
    dump = read_dump(theirs)
    taps: Taps = {name: dump[name].value for name in dump}
    while (change := pick((None, *CHANGES))) and taps:
        _changed(taps, change, pick)
    holder = _emptied("dump")
    candidate = _dumped(pick(FORMS), taps, theirs, holder, pick)
    chosen: dict[str, Any] = {"mode": pick(MODES)}
    other = (number + 1) % len(MODELS)
    model = pick((None, partial(_model, number), partial(_written, number), partial(_model, other),
                  lambda: "missing.gguf", partial(_written, other)))  # fmt: skip
    profile, chosen["prefix"] = pick(PROFILES), pick(PREFIXES)
    if model is not None:
        chosen["model"] = model()
        chosen |= {} if profile is None else {"numerics": profile}
    chosen["diagnose"], chosen["progress"] = pick(range(4)) != 3, pick((None, lambda done, count: None))
    damage = pick((None, *DAMAGES))
    if damage is not None:
        golden = _damaged(golden, damage)
    _compared(golden, candidate, {key: value for key, value in chosen.items() if value is not None}, damage is not None)


def _made(number: int) -> bytes:
    """A small model; it has two key heads, so that heads can be mixed up."""
    file, floats = io.BytesIO(), io.BytesIO()
    name, sizes = MODELS[number]
    sizes = {"layers": 1, "heads": 4, "heads_kv": 2, **sizes}
    dense = sizes.pop("dense", 0)
    new(file, name, **sizes)  # type: ignore[arg-type]
    if dense:
        convert_file(File(BufferSource(file.getvalue())), floats, to="F16")
    return floats.getvalue() or file.getvalue()


@cache
def _model(number: int) -> Model:
    return load_model(_made(number), threads=1)


@cache
def _written(number: int) -> Path:
    path = _folder() / f"model-{number}.gguf"
    path.write_bytes(_made(number))
    return path


@cache
def _mistaken(number: int) -> dict[str, Model]:
    return {mistake.name: model for mistake, model in mistakes(_model(number))}


@cache
def _recorded(number: int, tokens: tuple[int, ...], mistake: int, **options: Any) -> Path | None:
    """A record of a model, possibly with a mistake or other numerics; None if there is none."""
    model: Model | None = _model(number)
    folder = _folder() / f"record-{len(list(_folder().iterdir()))}"
    try:
        if mistake >= OTHER:
            model = _model(number).replace(numerics=PROFILES[(mistake - OTHER) % len(PROFILES)])
        elif mistake:
            model = _mistaken(number).get(MISTAKES[mistake - 1].name) if mistake <= len(MISTAKES) else None
        if model is None:
            return None
        record(model, list(tokens), folder, progress=lambda done, count: None, **options)
    except (SettingError, ValueError):
        return None
    return folder


def _compared(golden: Path, candidate: Path, options: dict[str, Any], damaged: bool) -> None:
    """A comparison is refused with a message, or reported in every format without a control character."""
    empty = _emptied("empty")
    for place in (golden, candidate, empty, empty / "new", empty / "no" / "where"):
        for force in (False, True):
            with suppress(FileExistsError, FileNotFoundError):
                refuse_taken(place, force)
    try:
        result = compare(golden, candidate, **options)
    except (FormatError, SettingError) as error:
        sentence(error)
        return
    except FileNotFoundError:
        if options.get("model") != "missing.gguf":
            raise
        return
    if not damaged:
        assert described(json.loads((golden / HEADER).read_text())).isprintable()
    _reported(result)


def _reported(result: Comparison) -> None:
    with suppress(SettingError):
        report(result, "odd")
    for form in FORMATS:
        text = "".join(report(result, form))
        assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in text)
    for _ in islice(styled(result, 80), 10_000):
        pass
    document: Any = json.loads("".join(report(result, "json")))
    assert document["ok"] is result.ok
    assert result.ok is (result.first is None) or result.mode == "free-running" or not result.ok
    with suppress(KeyError):
        assert result["Qcur-0"].name == "Qcur-0"
    with suppress(KeyError):
        raise AssertionError(result["nobody"])


# --- changes of taps ---

#: Parts of names: taps that other programs leave out together.
SETS = (
    ("l_out",), ("result_output", "embedding"), ("inp_embd", "l_out", "result_output"), ("Qcur", "Kcur", "Vcur"),
    ("attn_norm", "ffn_out"), ("act_q8", "act_scale"), ("kqv_out", "ffn_down", "ffn_norm"),
    ("acc_i32", "act_sum", "dot_i32"), ("norm", "norm_weight", "attn_sub_norm"),
)  # fmt: skip


def _changed(taps: Taps, change: Any, pick: Pick) -> None:
    """A change of one tap, of all with one name in all layers, or of all; of the set of taps, or of values."""
    names = list(taps)
    name = pick((None, *names))
    if name is not None and pick(range(4)) == 3:
        names = [each for each in names if each.partition("-")[0] == name.partition("-")[0]]
    elif name is not None:
        names = [name]
    if change in OF_SETS:
        remaining = change(taps, names, pick)
        for each in [each for each in taps if each not in remaining][: len(taps) - 1]:
            del taps[each]
        return
    of_values = change(pick)  # the same for each
    with np.errstate(all="ignore"):
        for each in names:
            taps[each] = of_values(np.asarray(taps[each]))


def _of_set(taps: Taps, pick: Pick) -> set[str]:
    words = pick(SETS)
    return {name for name in taps if any(word in name for word in words)}


def _renamed(taps: Taps, names: list[str], pick: Pick) -> set[str]:
    others = {name: pick([*other_names(name), "theirs", "\x1b[2J", "norm-0", ""]) for name in names[:3]}
    taps |= {other: taps[name] for name, other in others.items()}
    return {*taps} - {*others} | {*others.values()}


def _replaced(taps: Taps, names: list[str], pick: Pick) -> set[str]:
    """The value of another tap; for example the input, if an operation is skipped."""
    order, back = list(taps), 1 + pick(range(4))
    taps |= {name: taps[order[max(0, order.index(name) - back)]] for name in names}
    return {*taps}


#: Which taps remain.
OF_SETS: tuple[Callable[[Taps, list[str], Pick], set[str]], ...] = (
    lambda taps, names, pick: {*taps} - {*names}, lambda taps, names, pick: {*names}, _renamed, _replaced,
    lambda taps, names, pick: _of_set(taps, pick), lambda taps, names, pick: {*taps} - _of_set(taps, pick),
)  # fmt: skip


def _floats(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A change of floats, as rows and columns; other taps stay."""

    def changed(value: Any) -> Any:
        if value.dtype.kind != "f" or not value.size:
            return value
        made = change(value.reshape(len(value) if value.ndim else 1, -1).copy())
        return np.ascontiguousarray(made, dtype=value.dtype).reshape(value.shape)

    return changed


def _element(pick: Pick) -> Callable[[Any], Any]:
    at, how, bits = pick(range(256)), pick((np.nan, np.inf, 2.0, 1.5, -1.0, 1e30)), pick((2, 1))

    def changed(value: Any) -> Any:
        made = value.copy()
        flat = made.reshape(-1)
        if flat.size:
            at_most = at * max(1, flat.size // 256) % flat.size
            flat[at_most] = flat[at_most] * how if made.dtype.kind == "f" else flat[at_most] ^ bits
        return made

    return changed


def _part(pick: Pick) -> Callable[[Any], Any]:
    """A row or some columns."""
    row, start, width = pick((None, *range(8))), pick((0, 0.5, 0.9)), pick((1, 3, 4, 1 << 20))
    factor, offset = pick(((2, 0), (np.nan, 0), (1, 1), (0, 0)))

    def changed(made: Any) -> Any:
        first = int(start * made.shape[1])
        place = np.s_[row % len(made)] if row is not None else np.s_[:, first : first + width]
        made[place] = made[place] * factor + offset
        return made

    return _floats(changed)


def _order(pick: Pick) -> Callable[[Any], Any]:
    def halves(made: Any) -> Any:
        return (
            made.reshape(len(made), -1, 2, 16).swapaxes(2, 3).reshape(made.shape) if made.shape[1] % 32 == 0 else made
        )

    return _floats(pick((
        lambda made: made[::-1], lambda made: np.roll(made, 2, 0), lambda made: np.roll(made, 1, 0), halves,
        lambda made: np.roll(made, 3, 1), lambda made: np.roll(made, -1, 0),
    )))  # fmt: skip


def _padded(value: Any) -> Any:
    return np.concatenate([value, np.zeros((*value.shape[:2], 24), value.dtype)], axis=2) if value.ndim == 3 else value


def _shape(pick: Pick) -> Callable[[Any], Any]:
    shapes: tuple[Callable[[Any], Any], ...] = (
        lambda value: value.T, lambda value: value.reshape(-1), lambda value: value[-1:], lambda value: value[-2:],
        lambda value: value.swapaxes(0, 1) if value.ndim > 1 else value, _padded, lambda value: _padded(value).T,
        lambda value: value[None], lambda value: np.ascontiguousarray(value).reshape(value.shape[::-1]),
        lambda value: value.reshape(-1)[:5],
    )  # fmt: skip
    return pick(shapes)  # type: ignore[no-any-return]


def _kind(pick: Pick) -> Callable[[Any], Any]:
    kind = pick(("<f2", "<f8", "<i8", "<i4", "u1", ">f4", "bfloat16", "<i2", "c8", "f4"))
    if kind == "bfloat16":
        return lambda value: (value.real.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")
    return lambda value: value.real.astype(kind)


def _factors(pick: Pick) -> Callable[[Any], Any]:
    axis = pick((0, 1))
    return _floats(
        lambda made: made * np.expand_dims(np.linspace(0.5, 2, made.shape[axis], dtype=np.float32), 1 - axis)
    )


def _noise(pick: Pick) -> Callable[[Any], Any]:
    seed, share = pick(range(256)), pick((1e-7, 1e-4, 1e-2, 0.5, 10.0, 1e-5, 2e-6, 0.2))

    def changed(made: Any) -> Any:
        rms = float(np.sqrt(np.mean(np.square(made, dtype=np.float64))))
        return made + np.random.default_rng(seed).standard_normal(made.shape) * share * rms

    return _floats(changed)


def _line(pick: Pick) -> Callable[[Any], Any]:
    factor, offset = pick((1, 2, 0.5, -1, 3.7, 0, np.nan, 1e6)), pick((0, 1, 0.01, np.inf))
    return _floats(lambda made: made * np.float32(factor) + np.float32(offset))


#: A change of a set, or a function that chooses a change of values.
CHANGES: tuple[Any, ...] = (*OF_SETS, _element, _part, _order, _shape, _kind, _factors, _noise, _line)


# --- forms of dumps ---


def _dumped(form: str, taps: Taps, theirs: Path, holder: Path, pick: Pick) -> Path:
    odd = pick(range(8))
    if form in ("folder", "bin"):
        for name, value in taps.items():
            safe = "".join(char if char.isprintable() and char != "/" else "_" for char in name)[:60]
            if form == "bin":
                value.real.astype("<f4").tofile(holder / f"{safe}.bin")
            else:
                np.save(holder / f"{safe}.npy", value)
        if odd == 7:
            (holder / "odd.bin").write_bytes(b"odd")
        return _emptied("dump") if odd == 6 else holder
    if form == "record":
        shutil.copytree(theirs, holder / "record")
        changes = ({}, {"token_ids": [9, 9]}, {"weights": "0" * 64}, {"dialect": "interleave-64"}, {"architecture": 7})
        if changes[odd % 5]:
            header = json.loads((holder / "record" / HEADER).read_text())
            (holder / "record" / HEADER).write_text(json.dumps(header | changes[odd % 5]))
        return holder / "record"
    path = holder / f"theirs.{form.partition('-')[0]}"
    if form == "text" and (theirs / TEXT).exists():
        path = holder / "theirs.txt"
        path.write_text(_text((theirs / TEXT).read_text(), pick))
    elif form == "safetensors":
        _safetensors(taps, path, odd == 7)
    elif form == "npy":
        np.save(path, taps[list(taps)[-1]])
    else:
        save: Any = np.savez_compressed if form == "npz-compressed" else np.savez
        path = holder / "theirs.npz"
        with path.open("wb") as stream:
            save(stream, **{name or "noname": value for name, value in taps.items()})
    return path


def _safetensors(taps: Taps, path: Path, bfloat16: bool) -> None:
    kinds = {"f4": "F32", "f2": "F16", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8"}
    tensors = []
    for name, value in taps.items():
        kind = kinds.get(value.dtype.str[1:], "BOOL")
        plain = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
        if bfloat16 and kind == "F32":
            kind, plain = "BF16", (plain.view("<u4") >> 16).astype("<u2")
        elif kind == "BOOL":
            plain = np.ones(plain.shape, dtype=np.uint8)
        tensors.append(NewTensor(name or "noname", kind, plain.shape, partial(lambda array: [array.tobytes()], plain)))
    write_checkpoint(path, tensors)


def _text(text: str, pick: Pick) -> str:
    """The text of eval-callback, with changed lines."""
    lines = text.splitlines()
    for _ in range(pick(range(6))):
        at = pick(range(256)) * max(1, len(lines) // 256) % len(lines)
        changes: tuple[list[str], ...] = (
            [], [lines[at]] * 2, [lines[at].replace("0", "7")], [lines[at].replace("sum = ", "sum = 9")],
            ["garbage \x1b[2J" + lines[at]], [lines[at].replace("1.", "nan", 1)],
            ["ggml_debug: x = (f32) ADD(y{1, 1, 1, 1}, }) = {1099511627776, 1099511627776, 1, 1}", lines[at]],
        )  # fmt: skip
        lines[at : at + 1] = pick(changes)
    return "\n".join(lines) + "\n"


# --- damaged records ---

#: What happens to the header: entries that change, or (in a list) entries of its first taps, gone if None; or to files.
DAMAGES: tuple[str | dict[str, Any] | list[dict[str, Any]], ...] = (
    "gone", "cut", "nested", "large", "no taps", {"schema_version": 9}, {"token_ids": []}, {"token_ids": [1.5]},
    {"profile": 7}, {"taps": {}}, {"taps": {"x": 7}}, {"activation": None}, {"architecture": "odd"}, {"weights": None},
    {"dialect": "odd"}, {"profile": "odd*"}, [{"shape": [-1]}], [{"shape": [1 << 20, 1 << 20]}], [{"sha256": "0" * 64}],
    [{"shape": [1, 1, 1, 1, 1]}], [{"shape": None}], [{"stored": False}], [{"layer": None, "op": None}], [{"dtype": "int8"}],
    [{"sha256": None}],
)  # fmt: skip


def _damaged(golden: Path, damage: Any) -> Path:
    folder = _emptied("damaged")
    shutil.copytree(golden, folder, dirs_exist_ok=True)
    path = folder / HEADER
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "nested":
        path.write_text("[" * 100_000)
    elif damage == "large":
        with path.open("r+b") as stream:
            stream.truncate((1 << 28) + 1)
    elif damage == "no taps":
        for each in folder.glob("taps.*"):
            each.unlink()
    else:
        header = json.loads(path.read_text())
        if isinstance(damage, dict):
            header |= damage
        else:
            for name, about in header["taps"].items():
                changed = {**about, **damage[0]}
                header["taps"][name] = {key: value for key, value in changed.items() if value is not None or (key in about
                                        and key not in damage[0])}  # fmt: skip
        path.write_text(json.dumps(header))
    return folder


@replayed("golden_compare")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_truncated_and_changed_dumps() -> None:
    """The corpus again, truncated at some places and with some bytes changed."""
    for path in inputs("golden_compare"):
        data, chance = path.read_bytes(), Random(path.name)
        if data[:1] >= b"\x80":
            continue
        for _ in range(12):
            at = chance.randrange(1, len(data) + 1)
            one_input(data[:at])
            one_input(data[: at - 1] + bytes((chance.randrange(256),)) + data[at:])


if __name__ == "__main__":
    search(one_input, gguf=False)
