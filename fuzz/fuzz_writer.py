"""The writer: for any arguments, it refuses with a message, or writes a file that both readers read alike.

An input is a small program: bytes choose the byte order, keys with values of all kinds and types, tensors with data of
all kinds, and invalid properties.
"""

from __future__ import annotations

import atexit
import io
import math
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from harness import Program, replayed, sentence
from searching import search
from verb_runs import require_answers

from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import limits
from i2s_spec.schema.types import BY_NAME, VALUE_LABELS, ValueType
from i2s_spec.testing.differential import scanner_against_schema
from i2s_spec.testing.sample import Draft

KEYS: tuple[Any, ...] = (
    "a", "general.name", "general.alignment", "", "ä", "a b", "\n", "k" * 300, "k" * 70_000, 7, "general.alignment", "b",
    "c", "d",
)  # fmt: skip
NAMES: tuple[Any, ...] = ("t", "blk.0.attn_q.weight", "", "n" * 64, "\x07", "\ud800", "ü", 3, "u", "v", "w", "x")
TEXTS = ("", "text", "\udcff\udc80", "\ud800", "\0", "\u202e", b"bytes", bytearray(b"\xff"), "x" * 3000)
NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    256,
    32,
    48,
    12,
    65_535,
    65_536,
    2**31,
    2**32,
    2**63,
    2**64 - 1,
    2**64,
    -(2**31) - 1,
    -(2**63) - 1,
)
FLOATS = (0.0, 1.5, -2.25, 1e39, 1e-50, math.nan, math.inf)
ODD = (None, {}, 1j, object(), {1, 2}, range(3), (1, 2.5), ["a", 1], [[]], [[[1]]])
DTYPES = ("<f4", ">f4", "<f2", "<f8", "u1", "i1", "<u2", ">i2", "<i4", "<u4", "<i8", ">u8", "?", "c8", "S2")
KINDS: tuple[Any, ...] = (None, *VALUE_LABELS, *range(14), *ValueType, "arr[str]", "arr[arr[u8]]", "u8[", "arr[u8", "what",
                          "STRING", "arr[" * 20 + "u8" + "]" * 20)  # fmt: skip
ALIGNMENTS = (None, None, None, 32, 64, 8, 16, 0, 3, 12, -32, 1 << 40)
NE = (1, 4, 32, 128, 256, 3, 0, 2, 64, 2**40, -1)


class Calls(Program):
    """Arguments of the writer."""

    def value(self, depth: int = 0) -> Any:
        sort = self.below(9)
        if sort == 5 and depth < limits.MAX_ARRAY_DEPTH + 2:
            return [self.value(depth + 1) for _ in range(self.below(4))]
        if sort == 6:
            dtype = np.dtype(self.of(DTYPES))
            held = self.bytes() or bytes(16)
            array = np.frombuffer(held[: len(held) // dtype.itemsize * dtype.itemsize], dtype=dtype)
            return array if self.below(3) else array[:1].reshape(()) if array.size else array
        if sort == 7:
            return [self.of((NUMBERS, FLOATS, TEXTS, (True, False))[kind]) for kind in [self.below(4)] * self.below(5)]
        if sort == 8:
            shared: list[Any] = []
            return self.of((*ODD, shared.append(shared) or shared))
        return self.of(
            (NUMBERS, FLOATS, TEXTS, (True, False, np.True_, np.float32(2), np.int64(-5)), (self.bytes(),))[sort % 5]
        )

    def tensor_data(self, size: int) -> Any:
        sort = self.below(9)
        held = (self.bytes() or b"\0") * (size + 1)
        whole = held[:size]
        if sort == 4:
            return lambda: [whole[: size // 2], whole[size // 2 :]]
        if sort == 5:
            made = self.of(
                (whole, [whole, b"\1"], [whole[:-1]], [np.zeros(2, dtype="<f4").data], [7], [b"", whole, b""])
            )
            return lambda: made
        if sort == 6:
            dtype = np.dtype(self.of(DTYPES))
            return np.frombuffer(held[: size // dtype.itemsize * dtype.itemsize], dtype=dtype)
        if sort == 7:
            array = np.frombuffer(held[: size // 4 * 4], dtype="<f4")
            return self.of(
                (memoryview(array), memoryview(whole)[::2], array.reshape(2, -1) if array.size % 2 == 0 else array)
            )
        return (None, whole, whole[:-1], 7, None, None, None, None, bytearray(whole))[sort]


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    program, out = Calls(data), io.BytesIO()
    added: list[tuple[str, Any]] = []
    try:
        version, order = program.of((3, 3, 2, 1, 4)), program.of(("little", "big", "little", "middle"))
        target: Any = program.of((out, out, _place(), _folder(), io.StringIO(), 5, _folder() / "no" / "where"))
        force = program.below(4) > 0
        _place().unlink(missing_ok=True)
        if not force:
            _place().write_bytes(b"taken")
        writer = Writer(target, version=version, byte_order=order, alignment=program.of(ALIGNMENTS), force=force,
                        progress=lambda done, size: None)  # fmt: skip
    except (ValueError, TypeError, OSError) as error:
        sentence(error)
        return
    while not program.over:
        try:
            _step(program, writer, added)
        except (ValueError, TypeError) as error:
            sentence(error)
        except OverflowError as error:
            raise AssertionError("a number that does not fit is refused by a ValueError") from error
    try:
        if len(data) % 7 == 3:
            with writer:
                writer.discard()
        if len(data) % 7 != 2:
            writer.commit()
        else:
            with suppress(KeyError), writer:
                raise KeyError
            return
    except (ValueError, TypeError, OSError) as error:
        sentence(error)
        assert target is out or not target.exists() or target.read_bytes() == b"taken"
        return
    _require_sound(out.getvalue() if target is out else target.read_bytes(), added)


def _step(program: Calls, writer: Writer, added: list[tuple[str, Any]]) -> None:
    """One call of the writer."""
    sort = program.below(8)
    if sort < 4:
        key, value = program.of(KEYS), program.value()
        writer.add(key, value, program.of(KINDS), program.of(KINDS) if program.below(4) == 3 else None)
        added.append((key, value))
    elif sort < 7:
        name, dims = program.of(NAMES), tuple(program.of(NE) for _ in range(program.below(6)))
        kind: Any = program.of((*BY_NAME, 36, 0, 99, "F99", BY_NAME["I2_S"]))
        sized = (
            BY_NAME.get(kind) if isinstance(kind, str) else BY_NAME["I2_S" if kind in (36, BY_NAME["I2_S"]) else "F32"]
        )
        small = (
            sized is not None
            and dims
            and 0 < math.prod(dims) < 1 << 16
            and min(dims) > 0
            and dims[-1] % sized.block == 0
        )
        size = sized.nbytes(dims[::-1]) if small and sized is not None else 16
        writer.add_tensor(
            name, dims, kind, program.tensor_data(size) if small else b"", program.of((None, None, size, 5))
        )
    else:
        start, stop = Draft().span(f"key_values[{program.below(8)}]")
        record = Draft().data[start:stop]
        writer.add_raw(program.of((record, record[:-1], record + b"\0", b"", program.bytes())))


def _require_sound(data: bytes, added: list[tuple[str, Any]]) -> None:
    require_answers(data, "hash in.gguf", "convert in.gguf -o out.gguf", "decode in.gguf t out.npy", in__gguf=data)
    assert scanner_against_schema(data) is None
    file = File(BufferSource(data))
    for tensor in file.tensors.rows:
        tensor.read()
    assert [key for key, _ in added if key not in file.metadata] == []
    for key, value in added:
        if (isinstance(value, bool | int) and not isinstance(file.metadata[key], float)) or (
            isinstance(value, str) and file.metadata.entry(key).type == ValueType.STRING
        ):
            assert file.metadata[key] == value, key


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-writer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _place() -> Path:
    return _folder() / "out.gguf"


@replayed("writer")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_random_programs() -> None:
    for i in range(400):
        one_input(Random(f"writer {i}").randbytes(60))


def test_a_program_reaches_the_disk() -> None:
    one_input(bytes((0, 0, 2, 1, 0, 0, 0, 1, 0)))
    with OutputFile(_place(), force=True) as output:
        output.write(b"kept")
    assert _place().read_bytes() == b"kept"


if __name__ == "__main__":
    search(one_input, gguf=False)
