"""Files just below 10 MB that are the most expensive for a careless reader: each kind of record as often as it fits.

They are built from bytes, because the writer refuses most of them. `scale` makes them smaller in proportion.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open

#: Numbers of value types and of tensor types.
U8, U32, I32, F32, BOOL, STRING, ARRAY = 0, 4, 5, 6, 7, 8, 9
FLOAT, TQ2, I2S = 0, 35, 36

ARCH: Final = "bitnet-b1.58"


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def array(element: int, count: int, values: bytes) -> bytes:
    return struct.pack("<IQ", element, count) + values


def info(name: bytes, ne: tuple[int, ...], number: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, number, offset)


def file(keys: Iterable[bytes] = (), infos: Iterable[bytes] = (), data: bytes = b"", arch: str = ARCH) -> bytes:
    """A file of such records; the architecture is always stated."""
    keys, infos = [key(b"general.architecture", STRING, text(arch.encode())), *keys], list(infos)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    return head + bytes(-len(head) % 32) + data


def tensors(count: int, ne: tuple[int, ...], number: int, step: int, data: bytes) -> bytes:
    return file((), (info(b"t%d" % i, ne, number, step * i) for i in range(count)), data)


def other_data(data: bytes) -> bytes:
    """The same header, with other bytes instead of the zeros at the end: no tensor that lies there is the same.

    Data without zeros at the end are floats: they get the other sign.
    """
    held = data.rstrip(b"\0")
    size = len(data) - len(held)
    whole = -(-len(held) // 32) * 32  # zeros before the first tensor remain
    if size < 64:
        try:
            start = open(io.BytesIO(data)).data_start or len(data)
        except FormatError:
            return data
        words = np.frombuffer(data[start : start + (len(data) - start) // 4 * 4], dtype="<u4") ^ np.uint32(1 << 31)
        return data[:start] + words.tobytes() + data[start + words.nbytes :]
    pattern = b"\x15\x55\x51\x54" * 8 + struct.pack("<f", 1.5) + bytes(28)
    return data[:whole] + (pattern * (size // 64 + 1))[: len(data) - whole]


def _matrices(count: int) -> bytes:
    names = (b"blk.%d.attn_q.weight" % i for i in range(count))
    each = struct.pack("<8f", 1, 0, -1, 1, 1, 0, 0, 1)
    return file((), (info(name, (4, 2), FLOAT, 32 * i) for i, name in enumerate(names)), each * count)


def _blocks(count: int) -> bytes:
    names = (b"blk.%d.attn_q.weight" % i for i in range(count))
    counted = key(f"{ARCH}.block_count".encode(), U32, struct.pack("<I", count))
    return file([counted], (info(name, (128, 1), I2S, 64 * i) for i, name in enumerate(names)), bytes(64 * count))


def _vocabulary(count: int, token: Callable[[int], bytes]) -> bytes:
    each = [text(token(i)) for i in range(count)]
    keys = [
        key(b"tokenizer.ggml.model", STRING, text(b"gpt2")),
        key(b"tokenizer.ggml.tokens", ARRAY, array(STRING, count, b"".join(each))),
        key(b"tokenizer.ggml.token_type", ARRAY, array(I32, count, b"\1\0\0\0" * count)),
        key(b"tokenizer.ggml.merges", ARRAY, array(STRING, count, text(b"a b") * count)),
    ]
    return file(keys)


def _stairs(count: int, size: int) -> bytes:
    return tensors(count, (size,), FLOAT, 32, bytes(32 * count + 4 * size))


#: By name: a function from a scale (0 to 1) to the file.
FILES: Final[dict[str, Callable[[float], bytes]]] = {
    "empty-tensors": lambda s: tensors(int(220_000 * s), (0,), FLOAT, 0, bytes(64)),
    "keys": lambda s: file(key(b"a.k%d" % i, U8, b"\1") for i in range(int(430_000 * s))),
    "one-key": lambda s: file([key(b"", U8, b"\1")] * int(700_000 * s)),
    "odd-keys": lambda s: file(key(b"\x1b[3%d" % i, U8, b"\1") for i in range(int(400_000 * s))),
    "templates": lambda s: file(
        key(b"tokenizer.chat_template.n%d" % i, STRING, text(b"{% for a in b %}{{ a.b[c] }}{% endfor %}"))
        for i in range(int(110_000 * s))
    ),
    "template": lambda s: file([key(b"tokenizer.chat_template", STRING, text(b"{{ a['b'~'c'] }}" * int(600_000 * s)))]),
    "stairs": lambda s: _stairs(int(100_000 * s), 500_000),
    "same-bytes": lambda s: tensors(int(190_000 * s), (128, 1), I2S, 0, bytes(64)),
    "i2s-tensors": lambda s: tensors(int(90_000 * s), (128, 1), I2S, 64, bytes(int(90_000 * s) * 64)),
    "block-tensors": lambda s: tensors(int(69_000 * s), (256,), TQ2, 96, bytes(int(69_000 * s) * 96)),
    "blocks": lambda s: _blocks(int(74_000 * s)),
    "float-matrices": lambda s: _matrices(int(95_000 * s)),
    "float-tensors": lambda s: tensors(int(130_000 * s), (4,), FLOAT, 32, b"\1" * (int(130_000 * s) * 32)),
    "unknown-types": lambda s: tensors(int(220_000 * s), (4,), 99, 32, bytes(64)),
    "same-names": lambda s: file((), [info(b"output.weight", (4,), FLOAT, 0)] * int(200_000 * s), bytes(64)),
    "odd-names": lambda s: file(
        (), (info(b"\x1b[3%d\xff" % i, (4,), FLOAT, 0) for i in range(int(200_000 * s))), bytes(64)
    ),
    "no-dimensions": lambda s: file((), (info(b"t%d" % i, (), FLOAT, 0) for i in range(int(280_000 * s))), bytes(64)),
    "arrays": lambda s: file(key(b"a.k%d" % i, ARRAY, array(U8, 0, b"")) for i in range(int(280_000 * s))),
    "nested": lambda s: file([key(b"a", ARRAY, array(ARRAY, 1, b"") * int(800_000 * s) + array(U8, 0, b""))]),
    "array-of-arrays": lambda s: file(
        [key(b"a", ARRAY, array(ARRAY, int(800_000 * s), array(U8, 0, b"") * int(800_000 * s)))]
    ),
    "strings": lambda s: file([key(b"a", ARRAY, array(STRING, int(1_200_000 * s), text(b"") * int(1_200_000 * s)))]),
    "bools": lambda s: file([key(b"a", ARRAY, array(BOOL, int(9_900_000 * s), b"\2" * int(9_900_000 * s)))]),
    "bool-keys": lambda s: file(key(b"a.k%d" % i, BOOL, b"\2") for i in range(int(430_000 * s))),
    "controls": lambda s: file([key(b"general.name", STRING, text(b"\x1b\xff" * int(4_900_000 * s)))]),
    "vocabulary": lambda s: _vocabulary(int(290_000 * s), lambda i: b"<%d>" % i),
    "one-token": lambda s: _vocabulary(int(340_000 * s), lambda i: b"a"),
}
