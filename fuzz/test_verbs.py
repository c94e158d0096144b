"""Every verb that reads files, on all the files that it reads: none ends as a bug of this package, whatever is in one.

    python fuzz/test_verbs.py 1800 finds

changes the inputs at random for that many seconds, and writes each failure to the folder. A folder holds one sound
file of every kind that verbs read: models, a checkpoint, receipts, a record of golden outputs, results of a run,
lists, configurations, arrays. A call names some of them, and one of these is changed: a GGUF file field by field or a
key at a time, JSON value by value, the rest byte by byte. The first line of an input is that file, then the words of
the call; the rest is the new content of the file. After each call the other inputs are what they were.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shlex
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha1
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from harness import answered, emptied, replayed

import i2s_spec as i2s
from i2s_spec.cli import VERBS
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.mutator import mutate

#: Calls of verbs, by words. Results are named `out`, with which no input begins.
CALLS = (
    "lint m.gguf",
    "lint m.gguf --profile security --runtimes --format json",
    "lint l.gguf --runtimes --format html -o out.html",
    "lint m.gguf --format sarif --baseline baseline.json",
    "lint @list.txt --config i2s.toml --report junit=out.xml",
    "lint m.gguf --reference ck/model.safetensors",
    "lint m.gguf --reference base.gguf --format markdown",
    "lint ck",
    "lint ck --profile security --payload full",
    "lint . --jobs 1",
    "show m.gguf", "show m.gguf --json", "show ck/model.safetensors",
    "dump m.gguf", "dump ck/model.safetensors",
    "doctor m.gguf", "doctor l.gguf",
    "identify m.gguf", "identify m.gguf --likelihood --format json",
    "hash m.gguf --lineage",
    "diff m.gguf base.gguf", "diff m.gguf l.gguf --lineage --format html -o out.html",
    "decode m.gguf blk.0.attn_q.weight out.npy", "decode l.gguf token_embd.weight out.npy",
    "encode w.npy out.i2s --scale 0.5",
    "encode w.npy out.gguf --scale 0.5 --into m.gguf --tensor blk.0.attn_q.weight",
    "convert m.gguf out.gguf --to Q2_0", "convert m.gguf out.gguf --to F16 --arch bitnet",
    "convert l.gguf out.gguf --to interleave-64", "convert m.gguf out.gguf --endian big",
    "quantize f.gguf -o out.gguf",
    "import ck -o out.gguf", "import ck -o out.gguf --to Q2_0 --receipt out.json",
    "import ck -o out.gguf --receipt-in-file --base base.gguf",
    "import ck -o out.gguf --receipt out.json --latent floats",
    "import floats -o out.gguf --receipt out.json",
    "import pieces -o out.gguf --receipt out.json",
    "verify made.gguf --receipt r.json", "verify made.gguf --receipt r.json --against ck",
    "verify inside.gguf", "verify inside.gguf --against ck --json",
    "verify pieces.gguf --receipt pieces.json --against pieces",
    "export m.gguf -o out", "export m.gguf -o out --form F16", "export l.gguf -o out", "export p.gguf -o out --json",
    "fix m.gguf -o out.gguf", "fix odd.gguf -o out.gguf --unsafe", "fix m.gguf --dry-run --json",
    "sanitize m.gguf -o out.gguf", "sanitize l.gguf --dry-run --json",
    "census results.jsonl", "census results.jsonl -o out.html", "census results.jsonl --json",
    "run m.gguf --prompt hi -n 2 --escape", "run m.gguf --tokens 1,2 -n 2 --escape",
    "run m.gguf --tokens 1,2 -n 1 --force --escape", "run l.gguf --prompt hi -n 1 --force --escape",
    "run chat.gguf --chat --chat-format file -n 1 --escape",
    "perplexity m.gguf --tokens 1,5,9,20,33,64,100,200 -c 4",
    "perplexity m.gguf --file text.txt -c 8 --chunks 1 --kl-divergence-base out.kld",
    "embed e.gguf --text hello --json", "embed e.gguf --file text.txt -o out.npy --format npy",
    "golden record m.gguf --tokens 1,2 -o out --force",
    "golden record m.gguf --text hi -o out --light --npz --callback-text all",
    "golden compare g g2 --model m.gguf", "golden compare g g2 --no-diagnosis --json",
    "golden compare g logits.npy --model m.gguf", "golden compare g eval.txt --format html -o out.html",
)  # fmt: skip

#: Verbs without a file to read, and those that start another program for each file.
WITHOUT = {
    "validate", "explain", "rules", "new", "demo", "vectors", "schema", "spec", "info", "completion", "fuzz", "conform",
}  # fmt: skip

#: Bounds on one call: seconds of this process, and growth of its memory in KiB.
SECONDS, MEMORY = 5.0, 256 << 10


# --- inputs ----------------------------------------------------------------------------------------------------------


@cache
def sound() -> dict[str, bytes]:
    """The files of the folder by name, `folder/file` for those in folders."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for line in (
            "new m.gguf --layers 1 --arch bitnet", "new base.gguf --layers 1 --arch bitnet --seed 1",
            "new l.gguf --layers 1 --arch llama", "new f.gguf --layers 1 --type F16", "new e.gguf --layers 1 --arch qwen3",
            "new odd.gguf --layers 1", "new p.gguf --layers 1 --arch gemma3",
            "export m.gguf -o ck", "export m.gguf -o floats --form F16", "export p.gguf -o pieces",
            "import ck -o inside.gguf --receipt-in-file -q", "import ck -o made.gguf --receipt r.json -q",
            "import pieces -o pieces.gguf --receipt pieces.json -q",
            "golden record m.gguf --tokens 1,2 -o g --callback-text all",
            "golden record m.gguf --tokens 1,2 -o g2 --numerics bitnetcpp-2025",
            "lint m.gguf --baseline baseline.json --write-baseline",
        ):  # fmt: skip
            status, _, err = answered(line.split(), folder)
            assert status in (0, 1), (line, err)
        (folder / "pieces" / "tokenizer.json").unlink()  # tokenizer.model has another reader
        (folder / "eval.txt").write_bytes((folder / "g" / "eval-callback.txt").read_bytes())
        with i2s.open(folder / "m.gguf") as file:
            text = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{% endfor %}"
            rewrite(file, folder / "chat.gguf", set={"tokenizer.chat_template": text})
        np.save(folder / "w.npy", np.resize(np.array([-1, 0, 1], np.int8), (128, 128)))
        np.save(folder / "logits.npy", np.random.default_rng(1).normal(size=(2, 384)).astype(np.float32))
        lines = []
        for each in ("m.gguf", "odd.gguf"):
            record = i2s.check(str(folder / each))
            lines.append(json.dumps(record) + "\n")
        (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "list.txt").write_text("m.gguf\nbase.gguf\n", encoding="utf-8")
        (folder / "i2s.toml").write_text('profile = "strict"\nignore = ["M010"]\n', encoding="utf-8")
        (folder / "text.txt").write_text("The weights are ternary.\nSo are these.\n", encoding="utf-8")
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }


def read_by(line: str) -> list[str]:
    """The files that a call reads: those it names, and those in folders that it names."""
    names = {word.removeprefix("@") for word in line.split() if not word.startswith("out")}
    if "list.txt" in names:
        names |= {"m.gguf"}
    found = [each for each in sound() if each in names or each.partition("/")[0] in names or "." in names]
    assert found, line
    return found


# --- changes ---------------------------------------------------------------------------------------------------------

#: Values that a key may get in place of its own.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 255, 1 << 31, 1 << 63, -(1 << 70), 0.0, -0.5, 1e38, 1e308, "", "x", "0", "\x1b[2J",
    "\ud800", "a" * 300, "../x", "/etc/hostname", "nan", [], [[]], [0], ["a"], [1, 2, 3], [None], {}, {"a": 1}, {"": []},
    "BitNetForCausalLM", "llama", "<s>",
)  # fmt: skip

#: Arrays that a key may get, with the type of their elements.
ARRAYS = (
    ([], ValueType.STRING), ([1, 2, 3], ValueType.INT32), (["a", ""], ValueType.STRING), ([0.5], ValueType.FLOAT32),
    ([True], ValueType.BOOL),
)  # fmt: skip

_DEEP = b"[" * 3000


def changed(name: str, data: bytes, chance: Random) -> bytes:
    """Another content for a file, by its kind."""
    kind = name.rpartition(".")[2]
    if chance.random() < 0.08:
        return changed_bytes(data, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if kind == "gguf":
            data = changed_key(data, chance) if chance.random() < 0.5 else mutate(data, chance.getrandbits(60))
        elif kind == "safetensors":
            data = changed_header(data, chance)
        elif kind == "json":
            data = changed_json(data, chance)
        elif kind == "jsonl":
            lines = data.splitlines(keepends=True) or [b"{}\n"]
            at = chance.randrange(len(lines))
            lines[at] = changed_json(lines[at], chance) + b"\n"
            data = b"".join(lines)
        else:
            data = changed_bytes(data, chance)
    return data


def changed_bytes(data: bytes, chance: Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 2, 8))):
        at, how = chance.randrange(len(made) + 1), chance.randrange(6)
        if how == 0:
            del made[at:]
        elif how == 1:
            made[at : at + chance.choice((1, 8, 64))] = b""
        elif how == 2:
            made[at:at] = chance.choice((b"\0", b"\xff" * 8, _DEEP, b"\n", b'"', b"\x1b[2J", b"{", chance.randbytes(9)))
        elif how == 3 and at < len(made):
            made[at] = chance.randrange(256)
        elif how == 4:
            made[at : at + 8] = struct.pack("<Q", chance.choice((0, 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)))
        else:
            size = chance.choice((16, 256, 4096))
            made[at : at + size] = bytes((chance.choice((0, 0xFF, 0x55, 0x7F)),)) * min(size, len(made) - at)
    return bytes(made)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a JSON value with each of its keys; long lists by their first and last elements."""
    if isinstance(node, dict | list):
        keys = list(node) if isinstance(node, dict) else [*range(min(len(node), 4)), len(node) - 1] if node else []
        for key in keys:
            yield node, key
            yield from places(node[key])


def changed_json(data: bytes, chance: Random) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return changed_bytes(data, chance)
    found = list(places(tree))
    if not found or chance.random() < 0.02:
        return json.dumps(chance.choice(VALUES)).encode()
    node, key = chance.choice(found)
    how = chance.randrange(8)
    if how == 0:
        del node[key]
    elif how == 1 and isinstance(node, dict):
        node[str(chance.choice(VALUES))] = node[key]
    elif how == 2 and isinstance(node[key], int | float):
        node[key] = chance.choice((node[key] * 2, node[key] + 1, -node[key], node[key] / 3, node[key] * 1000))
    elif how == 3 and isinstance(node, list):
        node.insert(key, chance.choice(VALUES))
    elif how == 4:
        node[key] = [node[key]]
    else:
        node[key] = chance.choice(VALUES)
    return json.dumps(tree).encode()


def changed_header(data: bytes, chance: Random) -> bytes:
    """A safetensors file with another header, or other bytes after it."""
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    if not header or chance.random() < 0.2:
        return data[: 8 + size] + changed_bytes(rest, chance)
    header = changed_json(header, chance)
    return struct.pack("<Q", len(header)) + header + rest


def changed_key(data: bytes, chance: Random) -> bytes:
    """A GGUF file with another value under one of its keys, or without it; or with other weights."""
    try:
        with i2s.open(data) as file:
            if chance.random() < 0.2 and file.tensors:
                span = chance.choice(list(file.tensors.values())).span
                own = data[span.start : span.stop]
                part = changed_bytes(own, chance)[: len(own)].ljust(len(own), b"\xff")
                return data[: span.start] + part + data[span.stop :]
            key = chance.choice(sorted(file.metadata))
            made: Any = {}
            if chance.random() < 0.9:
                value, was = chance.choice(VALUES), file.metadata[key]
                if isinstance(was, list | np.ndarray) and chance.random() < 0.6:
                    some = list(was)[: chance.choice((0, 1, 3, max(len(was) - 1, 0)))]
                    value = [each.item() if isinstance(each, np.generic) else each for each in some]
                    made = {key: value}
                elif chance.random() < 0.3:
                    made = {key: Value(ValueType.ARRAY, *chance.choice(ARRAYS))}
                else:
                    kinds = [each for each in ValueType if each is not ValueType.ARRAY]
                    made = {key: Value(chance.choice(kinds), value) if chance.random() < 0.5 else value}
            target = io.BytesIO()
            rewrite(file, target, set=made, drop=[] if made else [key])
            return target.getvalue()
    except (
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
        struct.error,
    ):  # no GGUF file, or a value that fits no type
        return mutate(data, chance.getrandbits(60))


# --- calls -----------------------------------------------------------------------------------------------------------


def one_input(data: bytes) -> int:
    """Check the properties for any bytes; every exception is a failure.

    :returns: the exit code
    """
    head, _, content = data.partition(b"\n")
    name, *words = shlex.split(os.fsdecode(head))
    assert name in sound(), name
    folder = furnished()
    path = folder / name
    path.write_bytes(content)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        status, out, err = answered(words, folder, b"hi\n")
    finally:
        wrong = [each for each, data in {**sound(), name: content}.items() if not _holds(folder / each, data)]
        for each in {*wrong, name}:
            (folder / each).write_bytes(sound()[each])
    assert not wrong, f"{words} changed {wrong}"
    for text in (out, err):
        assert not any(ord(char) < 32 and char not in "\n\t\r" for char in text), "a control character"
    took = time.process_time() - began
    assert took < SECONDS, f"{words} took {took:.1f} s"
    grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grew < MEMORY, f"{words} took {grew >> 10} MiB"
    return status


def _holds(path: Path, data: bytes) -> bool:
    with suppress(OSError):
        return path.read_bytes() == data
    return False


_PLACE: list[Path] = []


def furnished() -> Path:
    """The folder with the sound files and nothing else."""
    if not _PLACE or not _PLACE[0].is_dir() or not (_PLACE[0] / "r.json").exists():
        _PLACE[:] = [emptied()]
        for name, data in sound().items():
            (_PLACE[0] / name).parent.mkdir(exist_ok=True)
            (_PLACE[0] / name).write_bytes(data)
    folder = _PLACE[0]
    for path in folder.iterdir():
        if path.name.startswith((".", "out")):
            remove(path)
    return folder


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            remove(each)
        path.rmdir()
    else:
        path.unlink()


def drawn(chance: Random) -> bytes:
    """An input."""
    line = chance.choice(CALLS)
    name = chance.choice(read_by(line))
    return f"{shlex.quote(name)} {line}\n".encode() + changed(name, sound()[name], chance)


def campaign(seconds: float, finds: Path, seed: int = 0) -> Counter[str]:
    """Draw inputs for this long; failures are written to a folder, named by what went wrong."""
    finds.mkdir(parents=True, exist_ok=True)
    seen: Counter[str] = Counter()
    end, number = time.monotonic() + seconds, 0

    def hang(*_: object) -> None:
        raise AssertionError("it hangs")

    signal.signal(signal.SIGALRM, hang)
    while time.monotonic() < end:
        number += 1
        data = drawn(Random(f"{seed}/{number}"))
        verb = data.split(b" ", 2)[1].split(b"\n")[0].decode()
        seen[verb] += 1
        signal.alarm(120)
        try:
            one_input(data)
        except Exception as error:
            signal.alarm(0)
            seen["failures"] += 1
            words = " ".join(str(error).split())[:300]
            name = sha1(words.encode()).hexdigest()[:8]
            if not (finds / name).exists():
                print(f"{name}: {words}", flush=True)
                (finds / name).write_bytes(data)
                (finds / f"{name}.txt").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            signal.alarm(0)
    return seen


# --- tests -----------------------------------------------------------------------------------------------------------


def test_every_verb_that_reads_files_is_called() -> None:
    assert {line.split()[0] for line in CALLS} == VERBS.keys() - WITHOUT


@pytest.mark.parametrize("line", CALLS)
def test_sound_files(line: str) -> None:
    name = read_by(line)[0]
    one_input(f"{shlex.quote(name)} {line}\n".encode() + sound()[name])


@replayed("verbs")
def test_regressions(path: Path) -> None:
    one_input(path.read_bytes())


def test_changed_files() -> None:
    for number in range(60):
        one_input(drawn(Random(number)))


if __name__ == "__main__":
    print(*campaign(float(sys.argv[1]), Path(sys.argv[2])).most_common(), sep="\n")
